#pragma once

#include "adapters/attach.h"
#include "adapters/rank_mask.h"
#include "config/fields.h"
#include "diffusion/process.h"
#include "optim/groups.h"
#include "optim/optimizer.h"
#include "train/objectives/objective_kind.h"
#include "train/options/embedding_options.h"
#include "train/samples/dataset_choice.h"
#include "train/subject/model_choice.h"

namespace burnish::train {

/// Who is told what a run does.
struct TellOptions {
  std::string on_save, on_end, webhook;
  bool trust_settings = false;  ///< whether a file of settings may name them
};

/// The options that `burnish train` can be told. Names are DiffSynth-Studio's where it has the option.
struct TrainOptions {
  std::vector<std::string> given;  ///< options named on the command line; a run's config.toml holds all, whether they were meant or not
  ModelChoice model;
  std::string init = "pretrained";

  std::string dataset_base_path, dataset_metadata_path;
  std::string data_file_keys = "image,video";
  DatasetChoice dataset;
  std::string dataset_config;
  int64_t dataset_repeat = 1, batch_size = 1, global_batch_size = 0;
  std::string on_bad_sample = "stop";
  int64_t dataset_num_workers = 2;
  std::string latents = "mean";
  int64_t cache_variants = 0;
  std::string cache_path, precompute = "all", precompute_timesteps = "auto", import_diffsynth;
  double cache_budget = 0, memory_budget = 0;
  int64_t num_processes = 1, process_index = 0;

  std::string task = "sft";
  std::string extra_inputs;
  models::OptionValues objective = default_objective_options();
  std::string experts, trainable_models, lora_base_model, lora_target_modules = "default", lora_checkpoint;
  int64_t lora_checkpoint_rank = 0;
  adapters::RankRule rank_rule;
  adapters::AdapterOptions adapter;  ///< without dora_norm, which stands below
  std::string dora_norm = "output", lora_format = "auto";
  std::string lora_rank_groups, lora_alpha_groups;
  EmbeddingOptions embedding;
  std::vector<std::string> preset_lora_path;
  std::string preset_lora_model;

  double learning_rate = 1e-4;
  std::string text_encoder_lr;
  double weight_decay = 0.01, max_grad_norm = 0;
  std::string trained_weights = "stochastic";
  std::string optimizer = "adamw", optimizer_args;
  bool cautious = false;
  optim::ScheduleOptions schedule;  ///< without max_steps, which the course knows
  double lr_warmup_ratio = 0;       ///< warm-up as a share of those steps
  optim::GroupOptions groups;
  double ema_decay = 0;
  int64_t max_steps = 0, num_epochs = 1, gradient_accumulation_steps = 1;
  diffusion::TimestepOptions timesteps;
  bool stratified_timesteps = false;
  diffusion::LossOptions loss;
  double noise_offset = 0;
  std::string loss_type = "l2", huber_schedule = "snr";
  double huber_c = 0.1, huber_scale = 1;
  std::string class_metadata_path, class_base_path, class_prompt;
  double prior_loss_weight = 1;
  std::string masked_loss = "none", mask_column = "mask";
  double unmasked_weight = 0;
  bool normalize_masked_area_loss = false;
  bool use_gradient_checkpointing = false, use_gradient_checkpointing_offload = false;
  int64_t gradient_checkpointing_interval = 1, blocks_to_swap = 0, blocks_on_disk = 0, feed_forward_chunk_size = 0;
  std::string activation_budget;
  std::string graphs = "off";
  bool fused_backward_pass = false, enable_optimizer_cpu_offload = false, enable_model_cpu_offload = false;
  std::string reduction = "fast";
  int64_t zero_stage = 0, shard_size = 0, sequence_size = 1;

  std::string output_path = "./models/train", output_name;
  int64_t save_steps = -1, save_epochs = 0, keep_last = 0;
  double save_minutes = 0;
  bool keep_best = false;
  std::string metadata_title, metadata_author, metadata_description, metadata_license, metadata_tags;
  int64_t validation_steps = 0;
  std::string validation_strengths;
  std::string preview_prompts, preview_format = "default";
  int64_t preview_steps = 0, preview_num_inference_steps = 20;
  bool preview_with_presets = false;
  bool write_report = true;
  bool enable_tensorboard_log = false, enable_csv_log = false;
  std::string save_dtype;
  TellOptions tell;
  bool resume = false, auto_resume = false, overwrite = false;
  std::string replay, validation_metadata_path;

  std::string plan = "on", device_memory, host_memory;
};

}  // namespace burnish::train
