#include "train/options.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "adapters/adapter_file.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/numbers_by_name.h"
#include "base/text.h"
#include "loras/merged.h"
#include "quant/store.h"
#include "train/checks.h"
#include "train/fit.h"
#include "train/idle_options.h"
#include "train/objective_kind.h"
#include "train/paged_loading.h"
#include "train/robust_loss.h"

namespace burnish::train {

/// A config::Relocate of fp8_models: of its entries those that name files.
static std::string models_seen_from(const std::string& text, const std::filesystem::path& folder) {
  auto entries = split_list(text);
  for (auto& entry : entries) entry = config::seen_from_if_there(entry, folder);
  return join(entries, ",");
}

/// A config::Relocate of model_paths; what is no JSON is left for the error that says so.
static std::string model_paths_seen_from(const std::string& text, const std::filesystem::path& folder) {
  std::function<void(nlohmann::json&)> relocate = [&](nlohmann::json& value) {
    if (value.is_string()) value = config::seen_from(value.get<std::string>(), folder);
    else if (value.is_array()) std::for_each(value.begin(), value.end(), relocate);
  };
  auto paths = nlohmann::json::parse(text, nullptr, false);
  if (paths.is_discarded()) return text;
  relocate(paths);
  return paths.dump();
}

void fields(config::Fields& f, ModelChoice& o) {
  f.group("Model");
  f.path("model", o.model,
         "diffusers folder, component folder, single .safetensors file, or a model's id on a hub (author/model), which is fetched; may be "
         "given several times",
         {}, config::seen_from_if_there);
  f.path("model_paths", o.model_paths, "JSON list of files, or of lists of shards", {}, model_paths_seen_from);
  f("model_id_with_origin_paths", o.model_id_with_origin_paths,
    "comma list of model_id:pattern under DIFFSYNTH_MODEL_BASE_PATH (./models); what is not there is fetched");
  f.path("tokenizer_path", o.tokenizer_path, "tokenizer folder (CLIP, Qwen), or author/model:tokenizer/, when it is not beside the model",
         {"tokenizer_1_path"}, config::seen_from_if_there);
  f.path("tokenizer_2_path", o.tokenizer_2_path, "folder of the second tokenizer (T5), when it is not beside the model");
  f("dtype", o.dtype, "fp32, bf16 or, for some models, fp16: what the model is held and computed in");
  f("device", o.device, "auto, cpu or cuda");
  f.path("fp8_models", o.fp8_models,
         "comma list of models, named as above (or folder:component), whose frozen weights are stored in weight_format", {},
         models_seen_from);
  f("weight_format", o.weight_format, "fp8, fp8_tensor, fp8_block, fp8_plain, fp8_e5m2, int8 or nf4");
  f("high_precision_layers", o.high_precision_layers,
    "comma list of regular expressions for linear layers that stay in dtype; \"\" for none, or default");
  f("fp8_compute", o.fp8_compute, "multiply FP8 weights with FP8 activations");
  for (const auto& option : models::family_options())
    std::visit([&](auto& value) { f(option.name, value, option.help); }, o.own.at(option.name));
  for (const char* name : {"vae_tiling", "enable_vae_tiling", "tiled"})
    f.refused(name, "say how large the autoencoder's tiles are: --vae_tile_size 512");
  f("seed", o.seed, "names every random draw of the run");
  f("num_threads", o.num_threads, "CPU threads; 0 takes all cores");
}

/// DiffSynth-Studio's options that a pasted command may hold: those that change nothing here, and those that would.
static void diffsynth_options(config::Fields& f) {
  f.title_no_effect("Accepted for DiffSynth-Studio commands, no effect here");
  f.no_effect("remove_prefix_in_ckpt", true, "files always have the names that diffusers reads");
  f.no_effect("align_to_opensource_format", false, "--lora_format kohya writes those names");
  f.no_effect("find_unused_parameters", false, "gradients of several processes add up whether or not a step uses a layer");
  f.no_effect("initialize_model_on_cpu", false, "weights are read straight to the device");
  f.no_effect("enable_npu_patch", false, "the device is chosen with --device");
  for (const char* name : {"enable_swanlab_log", "enable_wandb_log"})
    f.no_effect(name, false, "nothing is sent elsewhere; the log is log.jsonl in the run folder");
  for (const char* name : {"swanlab_project", "wandb_project"}) f.no_effect(name, true, "the same");

  f.refused("quant_options", "name the models with --fp8_models and how to store them with --weight_format (nf4, int8, fp8, ...)");
  f.refused("cpu_offload_split_threshold", "weights are moved to main memory block by block with --blocks_to_swap");
  f.no_effect("offload_models", true, "a stage loads only the models it runs");
  f.refused("base_weights_multiplier", "write the strength behind the file: --base_weights FILE:0.8");
  for (const char* name : {"template_model_id_or_path", "enable_lora_hot_loading"}) f.refused(name, "no plug-in models are trained");
  f.refused("resume_from_checkpoint", "name a LoRA with --lora_checkpoint and a whole denoiser with --model; --resume goes on with a run");
  for (const char* name :
       {"dmd2_discriminator_learning_rate", "dmd2_fake_score_learning_rate", "dmd2_feature_indices", "dmd2_gan_loss_weight",
        "dmd2_gan_r1_reg_alpha", "dmd2_gan_r1_reg_weight", "dmd2_matching_t_max", "dmd2_matching_t_mean", "dmd2_matching_t_min",
        "dmd2_matching_t_sampling", "dmd2_matching_t_std", "dmd2_student_grad_clip_norm", "dmd2_student_sample_steps",
        "dmd2_student_sample_type", "dmd2_student_schedule", "dmd2_student_t_list", "dmd2_student_update_freq", "dmd2_teacher_cfg_scale"})
    f.refused(name, "DMD2 is no task here; direct_distill and trajectory_imitation are");
  f.refused("customized_optimizer", "name one of those that --optimizer knows");
  f.refused("num_frames", "videos are not trained");
}

static void memory_fields(config::Fields& f, TrainOptions& o) {
  f("use_gradient_checkpointing", o.use_gradient_checkpointing, "recompute blocks in backward to save memory");
  f("gradient_checkpointing_interval", o.gradient_checkpointing_interval,
    "recompute one block of so many, the first of them; the others keep what backward needs");
  f("activation_budget", o.activation_budget,
    "what forward may leave for backward, as 6GiB: what is computed again instead is chosen so that it is the least work");
  f("use_gradient_checkpointing_offload", o.use_gradient_checkpointing_offload,
    "recompute blocks, and keep their inputs in main memory until backward",
    {"cpu_offload_checkpointing", "gradient_checkpointing_cpu_offload"});
  f("fused_backward_pass", o.fused_backward_pass,
    "update every parameter inside backward and free its gradient at once; max_grad_norm then clips every tensor by its own norm");
  f("cuda_graphs", o.graphs,
    "off, or auto: forward and backward of each shape of batches are recorded as a CUDA graph and launched as a whole, and what cannot be "
    "recorded runs as usual");
  f("reduction", o.reduction,
    "how gradients of several processes are summed: fast, or ordered, which gives the same bits for 1, 2, 4, 8 ... processes");
  f("zero_stage", o.zero_stage,
    "what is divided among several processes: 0 nothing, 1 the optimizer's states, averages and exact values, 2 gradients as well, 3 the "
    "weights of the denoiser's blocks as well, frozen or trained");
  f("shard_size", o.shard_size,
    "zero_stage divides among so many neighbours, as the processes of a machine, and each such row of processes has all; 0: among all");
  f("sequence_size", o.sequence_size,
    "so many neighbours train on the same samples, each on a part of their tokens, with all heads of attention shared out between them");
  f("enable_optimizer_cpu_offload", o.enable_optimizer_cpu_offload, "keep the optimizer's states in main memory");
  f("blocks_to_swap", o.blocks_to_swap,
    "so many of the denoiser's blocks wait in main memory and are brought to the device one ahead of their use");
  f("enable_model_cpu_offload", o.enable_model_cpu_offload, "blocks_to_swap of all the denoiser's blocks");
  f("blocks_on_disk", o.blocks_on_disk, "of blocks_to_swap, so many wait in the model's file instead, which frozen blocks are read from");
}

static void optimizer_fields(config::Fields& f, TrainOptions& o) {
  f("optimizer", o.optimizer, "adamw, adamw8bit, adafactor, lion, prodigy, prodigy_schedulefree, adamw_schedulefree, came or muon");
  f("optimizer_args", o.optimizer_args, "comma list of key=value, the optimizer's own numbers: betas=0.9,0.99,eps=1e-8");
  f("weight_decay", o.weight_decay, "decoupled weight decay");
  f("lr_scheduler", o.lr_scheduler,
    "constant, linear, cosine, cosine_with_restarts, polynomial, rex, warmup_stable_decay or inverse_sqrt, each after the warm-up");
  f("lr_warmup_steps", o.lr_warmup_steps, "steps over which the learning rate rises");
  f("lr_scheduler_min_lr_ratio", o.lr_scheduler_min_lr_ratio, "share of the learning rate at which the schedule ends");
  f("lr_scheduler_num_cycles", o.lr_scheduler_num_cycles, "cycles of lr_scheduler cosine_with_restarts");
  f("lr_scheduler_power", o.lr_scheduler_power, "exponent of lr_scheduler polynomial");
  f("lr_decay_steps", o.lr_decay_steps,
    "the last so many steps of lr_scheduler warmup_stable_decay, in which the rate falls; 0 takes a tenth of the run");
  f("lr_groups", o.lr_groups, "comma list of name=rate for components, layers or regular expressions: text_encoder=5e-5,.*to_q.*=2e-4");
  f("weight_decay_groups", o.weight_decay_groups, "comma list of name=decay for components, layers or regular expressions: .*bias=0");
  f("loraplus_lr_ratio", o.loraplus_lr_ratio, "LoRA+: the learning rate of LoRA's B over that of its A, 16 say; 0 is off");
}

static void loss_fields(config::Fields& f, TrainOptions& o) {
  f("timestep_sampling", o.timestep_sampling,
    "diffsynth, uniform, sigmoid, shift, flux_shift, qwen_shift, krea2_shift, ideogram4_shift, logsnr, sigma, logit_normal, mode, "
    "heavy_tail, cos_map, inverted_parabola, logistic, beta or lognorm_blend; default takes the model's own");
  f("loss_weighting", o.loss_weighting, "diffsynth, uniform, sigma_sqrt, cosmap or debiased; default takes the model's own");
  f("min_snr_gamma", o.min_snr_gamma, "gamma of Min-SNR loss weights, of models with discrete timesteps; 0 is off");
  f("loss_type", o.loss_type, "l2, huber or smooth_l1: how much large errors count");
  f("huber_schedule", o.huber_schedule, "how huber's and smooth_l1's threshold goes with time: constant, exponential or snr");
  f("huber_c", o.huber_c, "the threshold of huber and smooth_l1, above which errors count less than by their square");
  f("huber_scale", o.huber_scale, "factor on that threshold under huber_schedule constant and exponential");
  f("prior_loss_weight", o.prior_loss_weight, "factor on the losses of the class set");
  f("masked_loss", o.masked_loss,
    "where a sample's loss counts: column, as far as the gray picture in mask_column is white; alpha, as far as the picture is opaque; "
    "none, everywhere");
  f("mask_column", o.mask_column, "column that names the masks of masked_loss column; rows that leave it empty count whole");
  f("unmasked_weight", o.unmasked_weight, "of masked_loss: how much what lies outside of a mask still counts, 0 to 1");
  f("normalize_masked_area_loss", o.normalize_masked_area_loss,
    "of masked_loss: a sample's loss is the mean over what counts of it, not over all of it");
  f("noise_offset", o.noise_offset, "adds to the noise a draw of this deviation for each channel");
  f("discrete_flow_shift", o.discrete_flow_shift,
    "shift towards noise of timestep_sampling shift, sigma, logit_normal, mode, heavy_tail, cos_map, inverted_parabola, logistic and beta");
  f("sigmoid_scale", o.sigmoid_scale,
    "deviation before the sigmoid of timestep_sampling sigmoid, shift, flux_shift, qwen_shift and krea2_shift");
  f("logit_mean", o.logit_mean, "mean of timestep_sampling logit_normal and logsnr");
  f("logit_std", o.logit_std, "deviation of timestep_sampling logit_normal and logsnr");
  f("mode_scale", o.mode_scale, "strength of timestep_sampling mode and heavy_tail");
  f("noising_weight", o.noising_weight, "steepness of timestep_sampling inverted_parabola and logistic; a of beta");
  f("noising_bias", o.noising_bias, "place of timestep_sampling inverted_parabola and logistic, from their middle; b of beta");
  f("min_t", o.min_t, "sigma is drawn from the part of its distribution above this");
  f("max_t", o.max_t, "sigma is drawn from the part of its distribution below this");
  f("min_timestep_boundary", o.min_timestep_boundary, "start of the trained share of the schedule, from pure noise");
  f("max_timestep_boundary", o.max_timestep_boundary, "end of the trained share of the schedule, 1 for a picture without noise");
}

static void output_fields(config::Fields& f, TrainOptions& o) {
  f.group("Output");
  f.path("output_path", o.output_path, "run folder");
  f("save_steps", o.save_steps,
    "also save every N steps; -1, where no other save is asked for, ten times in a run, at least 250 steps apart; 0 saves at the end only");
  f("save_epochs", o.save_epochs, "also save every N epochs");
  f("save_minutes", o.save_minutes, "also save every N minutes");
  f("keep_last", o.keep_last, "of the weights saved by step, keep the last N only; 0 keeps all");
  f("keep_best", o.keep_best, "also keep the weights with the lowest validation loss, as best.safetensors (with validation_steps)");
  f("lora_format", o.lora_format, "names in the adapter's file: auto, diffusers, kohya, lycoris, onetrainer or diffsynth");
  f("save_dtype", o.save_dtype, "fp32, bf16 or fp16 of what is saved; empty takes dtype");
  f("resume", o.resume, "go on from the state in output_path");
  f("auto_resume", o.auto_resume, "go on from the state in output_path where there is one, and begin anew where there is none");
  f("overwrite", o.overwrite, "start anew in an output_path that holds a run, whose log and state are replaced");
  f.path("validation_metadata_path", o.validation_metadata_path, "held-out samples: loss before and after, on fixed noise and timesteps");
  f("validation_steps", o.validation_steps, "also judge held-out samples every N steps");
  f.path("preview_prompts", o.preview_prompts,
         "file with a prompt a line (and --w --h --d --s --l --n behind it): pictures drawn before the first step and after the last, into "
         "samples/",
         {"sample_prompts"});
  f("preview_steps", o.preview_steps, "also draw the previews every N steps", {"sample_every_n_steps"});
  f("preview_with_presets", o.preview_with_presets,
    "draw previews with the LoRAs of preset_lora_path, which are there only while training");
  f("preview_num_inference_steps", o.preview_num_inference_steps, "steps of the sampler for previews whose line does not say");
  f("write_report", o.write_report, "write report.html into the run folder at the end, as `burnish report` does");
  f("enable_tensorboard_log", o.enable_tensorboard_log, "event files for TensorBoard in the run folder's tensorboard/");
  f("enable_csv_log", o.enable_csv_log, "log.csv beside log.jsonl");
  f("plan", o.plan, "on: before a weight is read, say what memory a run takes and refuse what does not fit; off");
  f("device_memory", o.device_memory, "what a run may take of the device's memory, as 24GiB; empty asks the device");
  f("host_memory", o.host_memory, "what a run may take of the host's memory; empty asks the machine and its limits (cgroup, ulimit -v)");
  f.path("replay", o.replay, "safetensors with recorded noise, sigma or timestep, and sample per step");
}

void fields(config::Fields& f, TrainOptions& o) {
  fields(f, o.model);
  f("init", o.init, "pretrained, or random to train the denoiser from scratch");
  f.group("Data");
  f.path("dataset_base_path", o.dataset_base_path,
         "folder that file names in the metadata start from; alone, a folder of pictures with .txt captions");
  f.path("dataset_metadata_path", o.dataset_metadata_path,
         ".csv, .json or .jsonl with columns image and prompt, or a folder that holds one as metadata.csv, or pictures with .txt captions");
  f.path("class_metadata_path", o.class_metadata_path,
         "prior preservation: metadata, or a folder of pictures with .txt captions, of a class set; its samples are mixed in, as many "
         "visits an "
         "epoch as the others have");
  f.path("class_base_path", o.class_base_path, "folder that file names in class_metadata_path start from; empty takes its own");
  f("data_file_keys", o.data_file_keys, "columns that hold files");
  f.path("dataset_config", o.dataset_config,
         "TOML file of several datasets, each with its own sizes, repeats, captions and weight (docs/data.md)");
  fields(f, o.dataset);
  f("dataset_repeat", o.dataset_repeat, "visits of each sample in an epoch");
  f("batch_size", o.batch_size, "samples of equal size that a process runs at once");
  f("global_batch_size", o.global_batch_size,
    "samples of equal size in a batch, which processes share out and run batch_size at a time; 0: batch_size times the processes");
  f("on_bad_sample", o.on_bad_sample, "stop, or skip samples that cannot be read");
  f("dataset_num_workers", o.dataset_num_workers,
    "threads that decode pictures ahead of those who need them; 0 decodes them when they are needed");
  f("cache_variants", o.cache_variants,
    "ways in which each picture is cut, all encoded ahead, of which each visit takes one; 0 takes 4 with random_crop, 2 with random_flip");
  f("latents", o.latents, "mean of the autoencoder's distribution, or sample: drawn from it at every visit");
  f.path("cache_path", o.cache_path,
         "folder that keeps what the encoders make of the data, for this run and the next; empty keeps it in memory");
  f.path(
      "import_diffsynth", o.import_diffsynth,
      "folder of .pth files that DiffSynth-Studio's data_process wrote, taken in place of pictures; with cache_path they become a cache");
  f("precompute", o.precompute,
    "all: what the frozen models make of the data is computed once; none: at every visit, with all models in memory");
  f("precompute_timesteps", o.precompute_timesteps,
    "whether frozen layers that see sample and timestep alone run ahead for all steps and are then not loaded: auto where that takes "
    "less memory than their weights, on (in cache_path where there is one), or off; blocks: on, and so do the frozen blocks before the "
    "first that trains");
  f("cache_budget", o.cache_budget, "GiB that all kept results may take; what is least worth it is computed at every visit; 0: no limit");
  f("memory_budget", o.memory_budget, "GiB of weights that may be loaded while training; 0: no limit");
  f("num_processes", o.num_processes, "processes among which making a cache is shared out");
  f("process_index", o.process_index, "which of num_processes this one is, from 0");
  f.group("What is trained");
  objective_fields(f, o);
  f("trainable_models", o.trainable_models,
    "comma list of components, or parts of them, that train whole (dit, text_encoder); empty trains a LoRA");
  f("lora_base_model", o.lora_base_model,
    "comma list of components that carry adapters; empty takes the denoiser, or those in lora_checkpoint");
  f("lora_target_modules", o.lora_target_modules, "layer names, one regular expression, \"\" for every large layer, or default");
  f("lora_type", o.lora_type, "lora, dora, loha, lokr, oft or full");
  f("lora_rank", o.lora_rank, "rank of the adapters");
  f("lora_alpha", o.lora_alpha, "scale is alpha / rank; 0 takes the rank");
  f("lora_rank_groups", o.lora_rank_groups,
    "comma list of name=rank for components, layers or regular expressions: text_encoder=4,.*to_q=64");
  f("lora_alpha_groups", o.lora_alpha_groups, "comma list of name=alpha for components, layers or regular expressions");
  f("use_rslora", o.use_rslora, "scale is alpha / root of rank");
  f("lora_dropout", o.lora_dropout, "share of the inputs that an adapter does not see in a step");
  f("dora_norm", o.dora_norm, "output: a magnitude per output, as peft and diffusers have it; input: per input, as OneTrainer");
  f("lokr_factor", o.lokr_factor, "largest side of LoKr's first factor; -1 takes the most even split");
  f.path("lora_checkpoint", o.lora_checkpoint,
         "LoRA file to start from; it decides type, targets, rank and alpha, and options that contradict it are refused");
  f.path(
      "preset_lora_path", o.preset_lora_path,
      "LoRA file, or file:strength, that is part of the frozen weights while training and of no file that is written; may be given several "
      "times",
      {"base_weights"});
  f("preset_lora_model", o.preset_lora_model,
    "comma list of components that preset LoRAs are merged into; empty takes all that they adapt");
  f.group("Training");
  f("learning_rate", o.learning_rate, "peak learning rate");
  f("text_encoder_lr", o.text_encoder_lr,
    "learning rate of what trains besides the denoiser, or a comma list of component=rate; empty takes learning_rate");
  f("max_steps", o.max_steps, "optimizer steps; 0 goes by num_epochs");
  f("num_epochs", o.num_epochs, "passes over the data when max_steps is 0");
  f("gradient_accumulation_steps", o.gradient_accumulation_steps, "batches per optimizer step");
  optimizer_fields(f, o);
  f("trained_weights", o.trained_weights,
    "how weights that train are kept and rounded: stochastic, remainder (bf16 and 16 more bits: exact), nearest, or fp8 (in codes)");
  f("ema_decay", o.ema_decay,
    "files and validation take a moving average of what trains, which keeps this share of itself at each step, 0.999 say; 0: none");
  f("max_grad_norm", o.max_grad_norm, "clips the gradient norm; 0 does not");
  loss_fields(f, o);
  memory_fields(f, o);
  output_fields(f, o);
  diffsynth_options(f);
}

std::vector<DatasetChoice> datasets_of(const TrainOptions& o) {
  if (!o.dataset_config.empty()) return read_dataset_config(o.dataset_config, o.dataset);
  std::vector<DatasetChoice> all{o.dataset};
  all[0].metadata_path = metadata_path(o);
  all[0].base_path = o.dataset_base_path;
  if (o.class_metadata_path.empty()) return all;
  all.push_back(o.dataset);
  all[1].metadata_path = o.class_metadata_path;
  all[1].base_path = o.class_base_path;
  all[1].is_reg = true;
  return all;
}

bool augments(const TrainOptions& o) {
  if (!encodes(o)) return augments(o.dataset);
  return std::ranges::any_of(datasets_of(o), [](const auto& dataset) { return augments(dataset); });
}

diffusion::TimestepOptions timestep_options(const TrainOptions& o) {
  return {.mode = o.timestep_sampling,
          .shift = o.discrete_flow_shift,
          .sigmoid_scale = o.sigmoid_scale,
          .logit_mean = o.logit_mean,
          .logit_std = o.logit_std,
          .mode_scale = o.mode_scale,
          .min_boundary = o.min_timestep_boundary,
          .max_boundary = o.max_timestep_boundary,
          .noising_weight = o.noising_weight,
          .noising_bias = o.noising_bias,
          .min_t = o.min_t,
          .max_t = o.max_t};
}

diffusion::LossOptions loss_options(const TrainOptions& o) { return {o.loss_weighting, o.min_snr_gamma}; }

optim::OptimizerOptions optimizer_options(const TrainOptions& o) {
  return {o.optimizer, o.weight_decay, optim::parse_rounding(o.trained_weights), static_cast<uint64_t>(o.model.seed), o.optimizer_args};
}

optim::ScheduleOptions schedule_options(const TrainOptions& o, int64_t max_steps) {
  return {o.lr_scheduler,       o.lr_warmup_steps, max_steps, o.lr_scheduler_min_lr_ratio, o.lr_scheduler_num_cycles,
          o.lr_scheduler_power, o.lr_decay_steps};
}

optim::GroupOptions group_options(const TrainOptions& o) { return {o.lr_groups, o.weight_decay_groups, o.loraplus_lr_ratio}; }

bool encodes(const TrainOptions& o) { return !o.task.ends_with(":train") && o.import_diffsynth.empty(); }
bool trains(const TrainOptions& o) { return !o.task.ends_with(":data_process"); }
bool recomputes(const TrainOptions& o) { return o.use_gradient_checkpointing || o.use_gradient_checkpointing_offload; }

int64_t waiting_blocks(const TrainOptions& o) { return o.enable_model_cpu_offload ? kAllBlocks : o.blocks_to_swap; }

std::string metadata_path(const TrainOptions& o) { return o.dataset_metadata_path.empty() ? o.dataset_base_path : o.dataset_metadata_path; }

std::string cache_folder(const TrainOptions& o) {
  if (!encodes(o) && o.import_diffsynth.empty()) return o.dataset_base_path;
  return o.cache_path.empty() && !trains(o) ? o.output_path : o.cache_path;
}

std::vector<std::pair<std::string, double>> component_rates(const TrainOptions& o) {
  std::vector<std::pair<std::string, double>> rates;
  for (const auto& entry : split_list(o.text_encoder_lr)) {
    auto equals = entry.find('=');
    auto number = equals == entry.npos ? entry : entry.substr(equals + 1);
    char* end = nullptr;
    auto rate = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != 0 || !std::isfinite(rate) || rate <= 0)
      config_error("train", "text_encoder_lr '{}' must be a number above 0, or a list of component=number", o.text_encoder_lr);
    rates.emplace_back(equals == entry.npos ? "" : entry.substr(0, equals), rate);
  }
  std::stable_sort(rates.begin(), rates.end(), [](const auto& a, const auto& b) { return a.first.empty() && !b.first.empty(); });
  return rates;
}

adapters::AdapterOptions adapter_options(const TrainOptions& o) {
  return {o.lora_type, o.lora_rank, o.lora_alpha, o.use_rslora, o.lora_dropout, adapters::parse_norm_axis(o.dora_norm), o.lokr_factor};
}

void check(const ModelChoice& c) {
  parse_dtype(c.dtype);
  for (const auto& option : models::family_options()) {
    auto wrong = option.why_wrong ? option.why_wrong(option.name, c.own.at(option.name)) : "";
    if (!wrong.empty()) config_error("train", "{}", wrong);
  }
  if (c.device != "auto" && c.device != "cpu" && c.device != "cuda")
    config_error("train", "device '{}' is not known; choose auto, cpu or cuda", c.device);
  if (c.device == "cuda" && !at::hasCUDA() && !c.is_plan)
    config_error("train", "device cuda was asked for, and this build or machine has none; choose cpu");
  if (c.fp8_models.empty() && c.weight_format != "fp8")
    config_error("train", "weight_format {} says how the models in fp8_models are stored, and none is named there", c.weight_format);
  if (c.weight_format == "fp8" || !c.fp8_models.empty())
    quant::Store({.format = quant::parse_format(c.weight_format), .high_precision = {}, .fp8_compute = c.fp8_compute});
  check_at_least("seed", static_cast<double>(c.seed), 0);
  check_at_least("num_threads", static_cast<double>(c.num_threads), 0);
  check_at_most("num_threads", c.num_threads, kMostThreads);
}

namespace {

void check_task(const TrainOptions& o) {
  objective_of(o);
  if (o.init != "pretrained" && o.init != "random") config_error("train", "init '{}' is not known; choose pretrained or random", o.init);
  if (o.precompute != "all" && o.precompute != "none")
    config_error("train", "precompute '{}' is not known; choose all or none", o.precompute);
  if (o.precompute == "none" && (!is_whole(o) || !o.cache_path.empty()))
    config_error("train", "precompute none keeps nothing, and task {} with a cache_path does; take one of them out", o.task);
}

void check_precompute(const TrainOptions& o) {
  const std::vector<std::string> choices{"auto", "on", "off", "blocks"};
  if (!contains(choices, o.precompute_timesteps))
    config_error("train", "precompute_timesteps '{}' is not known; choose auto, on, off or blocks", o.precompute_timesteps);
  if (o.precompute_timesteps == "blocks" && o.precompute == "none")
    config_error("train",
                 "precompute none computes everything at every visit, and precompute_timesteps blocks ahead; take one of them out");
  if (o.precompute_timesteps == "blocks" && trains(o) && cache_folder(o).empty())
    config_error("train",
                 "precompute_timesteps blocks keeps every token of every visit, which is too much for memory; name a folder with "
                 "--cache_path");
  check_at_least("cache_budget", o.cache_budget, 0);
  check_at_least("memory_budget", o.memory_budget, 0);
  bool has_budget = o.cache_budget > 0 || o.memory_budget > 0;
  if (has_budget && !is_whole(o))
    config_error("train", "cache_budget and memory_budget choose what a whole run keeps, and task {} is half of one; choose {}", o.task,
                 objective_of(o).word);
  if (has_budget && o.precompute == "none") config_error("train", "precompute none keeps nothing; take it or the budget out");
}

void check_data(const TrainOptions& o) {
  if (!o.import_diffsynth.empty()) {
    if (!objective_of(o).imports_diffsynth)
      config_error("train", "import_diffsynth brings samples for the tasks sft and direct_distill; make the cache of {} anew", o.task);
    if (!trains(o) && o.cache_path.empty() && o.output_path.empty()) config_error("train", "name the folder to make with --cache_path");
  } else if (o.task.ends_with(":train")) {
    if (o.dataset_base_path.empty()) config_error("train", "{} trains from a cache; name its folder with --dataset_base_path", o.task);
    if (!o.dataset_metadata_path.empty())
      config_error("train", "{} takes its samples from the cache; take dataset_metadata_path out, or choose task sft with --cache_path",
                   o.task);
  } else if (!o.dataset_config.empty()) {
    if (!(metadata_path(o) + o.class_metadata_path).empty())
      config_error("train", "dataset_config names all data; put the other dataset into it, or take dataset_config out");
  } else if (metadata_path(o).empty() && o.model.is_plan) {
    if (o.dataset.height == 0 && o.dataset.resolution.empty())
      config_error("train", "no data given; name it with --dataset_metadata_path, or say with --height and --width how large pictures are");
  } else if (metadata_path(o).empty()) {
    config_error("train", "no data given; name a metadata file, or a folder of pictures with .txt captions, with --dataset_metadata_path");
  }
  if (!encodes(o) && !o.dataset_config.empty())
    config_error("train", "dataset_config belongs to the command that makes the cache; {} takes the datasets from there", o.task);
  if (!encodes(o) && !o.class_metadata_path.empty())
    config_error("train", "class_metadata_path belongs to the command that makes the cache; {} takes the class set from there", o.task);
  if (o.class_metadata_path.empty() && !o.class_base_path.empty())
    config_error("train", "class_base_path is where the class set's files are, and there is none; name one in class_metadata_path");
  check_at_least("prior_loss_weight", o.prior_loss_weight, 0);
  if (o.num_processes < 1 || o.process_index < 0 || o.process_index >= o.num_processes)
    config_error("train", "process_index must lie between 0 and num_processes - 1, not {} of {}", o.process_index, o.num_processes);
  if (o.num_processes > 1 && trains(o))
    config_error("train", "num_processes shares out the making of a cache; give it with `burnish cache` or task sft:data_process");
}

void check_augmentation(const TrainOptions& o) {
  if (o.latents != "mean" && o.latents != "sample") config_error("train", "latents '{}' is not known; choose mean or sample", o.latents);
  check(o.dataset);
  check_at_least("cache_variants", static_cast<double>(o.cache_variants), 0);
  bool varies = augments(o);
  if (o.cache_variants > 1 && !varies)
    config_error("train", "cache_variants {} without random_crop or random_flip would be equal pictures; add one of them",
                 o.cache_variants);
  if (!encodes(o) && (varies || o.cache_variants > 0))
    config_error("train",
                 "random_crop, random_flip and cache_variants belong to the command that makes the cache; sft:train takes its variants");
  if (!encodes(o) && (o.dataset.shuffle_caption || o.dataset.enable_wildcard || o.dataset.caption_tag_dropout_rate > 0))
    config_error(
        "train",
        "shuffle_caption, enable_wildcard and caption_tag_dropout_rate belong to the command that makes the cache, which lists them "
        "for {}",
        o.task);
}

void check_masks(const TrainOptions& o) {
  if (o.masked_loss != "none" && o.masked_loss != "column" && o.masked_loss != "alpha")
    config_error("train", "masked_loss '{}' is not known; choose none, column or alpha", o.masked_loss);
  if (!(o.unmasked_weight >= 0 && o.unmasked_weight <= 1))
    config_error("train", "unmasked_weight must lie between 0 and 1, not {}", o.unmasked_weight);
  if (o.masked_loss == "none" && (o.unmasked_weight > 0 || o.normalize_masked_area_loss))
    config_error("train",
                 "unmasked_weight and normalize_masked_area_loss say how masks count, and there are none; set masked_loss to column or "
                 "alpha");
  if (o.masked_loss == "column" && o.mask_column.empty())
    config_error("train", "masked_loss column needs the name of a column; set mask_column, mask say");
  if (o.masked_loss != "none" && !is_sft(o))
    config_error("train", "{} compares whole pictures; take masked_loss {} out", objective_of(o).word, o.masked_loss);
}

void check_groups(const TrainOptions& o) {
  NumbersByName("train", "lora_rank_groups", o.lora_rank_groups, 1, kMostRank);
  NumbersByName("train", "lora_alpha_groups", o.lora_alpha_groups);
  if (!o.lora_checkpoint.empty() && !(o.lora_rank_groups + o.lora_alpha_groups).empty())
    config_error("train",
                 "lora_rank_groups and lora_alpha_groups are for a new adapter, and lora_checkpoint has ranks and alphas; take one out");
}

void check_presets(const TrainOptions& o) {
  for (const auto& text : o.preset_lora_path) {
    if (!std::isfinite(loras::parse_lora_file(text).strength))
      config_error("train", "the strength of the preset LoRA {} must be a finite number", text);
  }
  if (!o.preset_lora_path.empty()) return;
  if (!o.preset_lora_model.empty())
    config_error("train", "preset_lora_model says what preset LoRAs are merged into, and there are none; name them in preset_lora_path");
  if (o.preview_with_presets)
    config_error("train",
                 "preview_with_presets draws with preset LoRAs, and there are none; take it out, or name them in preset_lora_path");
}

/// What happens beside steps needs what it is about.
void check_hooks(const TrainOptions& o) {
  if (o.validation_steps > 0 && o.validation_metadata_path.empty())
    config_error("train", "validation_steps judges held-out samples, and there are none; name their metadata in validation_metadata_path");
  if (o.keep_best && o.validation_steps == 0)
    config_error("train", "keep_best goes by the loss of held-out samples; set validation_steps, and validation_metadata_path");
  if (o.preview_steps > 0 && o.preview_prompts.empty())
    config_error("train", "preview_steps draws pictures, and no prompts are given; name a file with one a line in preview_prompts");
  if (o.preview_with_presets && o.preview_prompts.empty())
    config_error("train", "preview_with_presets says how previews are drawn, and no prompts are given; name a file in preview_prompts");
  if (o.keep_last > 0 && o.save_steps == 0 && o.save_epochs == 0 && o.save_minutes == 0)
    config_error("train",
                 "keep_last keeps the last of several saves, and this run saves at its end only; set save_steps, save_epochs or "
                 "save_minutes");
}

/// What saves memory and does not go together.
void check_memory(const TrainOptions& o) {
  check_at_least("gradient_checkpointing_interval", static_cast<double>(o.gradient_checkpointing_interval), 1);
  check_at_least("blocks_to_swap", static_cast<double>(o.blocks_to_swap), 0);
  check_at_least("blocks_on_disk", static_cast<double>(o.blocks_on_disk), 0);
  if (o.blocks_on_disk > waiting_blocks(o))
    config_error("train", "blocks_on_disk {} is more than blocks_to_swap {}, of which they are; raise blocks_to_swap", o.blocks_on_disk,
                 o.blocks_to_swap);
  if (o.gradient_checkpointing_interval > 1 && !recomputes(o) && o.activation_budget.empty())
    config_error("train",
                 "gradient_checkpointing_interval says how many blocks are recomputed, and none is; add use_gradient_checkpointing");
  if (!o.activation_budget.empty()) {
    parse_size("activation_budget", o.activation_budget);
    if (o.gradient_checkpointing_interval > 1)
      config_error("train",
                   "activation_budget chooses which blocks are recomputed, and gradient_checkpointing_interval names them; take one of the "
                   "two out");
  }
  if (o.plan != "on" && o.plan != "off") config_error("train", "plan must be on or off, not '{}'", o.plan);
  if (!o.fused_backward_pass) return;
  if (o.gradient_accumulation_steps > 1)
    config_error(
        "train",
        "fused_backward_pass frees a gradient before the next batch could be added to it; set gradient_accumulation_steps to 1, or "
        "take fused_backward_pass out");
  if (parse_dtype(o.model.dtype) == c10::kHalf)
    config_error("train",
                 "fused_backward_pass updates before it is known whether a gradient overflows fp16; choose dtype bf16 or fp32, or take it "
                 "out");
  if (optim::needs_all_gradients(optimizer_options(o)))
    config_error("train", "{} needs all gradients before its first update; take fused_backward_pass out, or choose another optimizer",
                 o.optimizer);
}

/// What can be counted, and is no slip of the finger.
void check_limits(const TrainOptions& o) {
  check_at_most("lora_rank", o.lora_rank, kMostRank);
  check_at_most("max_steps", o.max_steps, kMostSteps);
  check_at_most("num_epochs", o.num_epochs, kMostEpochs);
  check_at_most("gradient_accumulation_steps", o.gradient_accumulation_steps, kMostBatchesAStep);
  check_at_most("save_epochs", o.save_epochs, kMostEpochs);
  check_at_most("lr_warmup_steps", o.lr_warmup_steps, kMostSteps);
  check_at_most("lr_decay_steps", o.lr_decay_steps, kMostSteps);
  check_at_most("preview_num_inference_steps", o.preview_num_inference_steps, kMostSamplerSteps);
  auto samples_a_step = static_cast<double>(o.gradient_accumulation_steps) * static_cast<double>(o.batch_size);
  if (samples_a_step * static_cast<double>(std::max<int64_t>(o.max_steps, 1)) > static_cast<double>(kMostSamples))
    config_error("train", "{} steps of {} batches of {} are more samples than can be counted; lower max_steps", o.max_steps,
                 o.gradient_accumulation_steps, o.batch_size);
}

void check_sequence(const TrainOptions& o) {
  check_at_least("sequence_size", static_cast<double>(o.sequence_size), 1);
  if (o.sequence_size > 1 && o.lora_dropout > 0)
    config_error(
        "train",
        "lora_dropout draws what it drops for all tokens of a sample, and with sequence_size {} no process has them all; take one of "
        "the two out",
        o.sequence_size);
}

void check_stage(const TrainOptions& o) {
  if (o.zero_stage < 0 || o.zero_stage > 3) config_error("train", "zero_stage must be 0, 1, 2 or 3, not {}", o.zero_stage);
  check_at_least("shard_size", static_cast<double>(o.shard_size), 0);
  if (o.shard_size > 0 && o.zero_stage == 0)
    config_error("train", "shard_size says among how many processes zero_stage divides, and that is 0; set zero_stage, or leave it out");
  if (o.zero_stage == 0) return;
  if (o.zero_stage == 3 && waiting_blocks(o) > 0)
    config_error("train",
                 "with zero_stage 3 all blocks wait divided among the processes, and none in main memory; leave blocks_to_swap out");
  if (o.zero_stage == 3 && !o.preview_prompts.empty() && !o.preset_lora_path.empty() && !o.preview_with_presets)
    config_error("train",
                 "previews without the presets of preset_lora_path read layers anew, and with zero_stage 3 no process has them whole; add "
                 "preview_with_presets, or set zero_stage 2");
  if (waiting_blocks(o) > 0 && !o.trainable_models.empty())
    config_error("train", "zero_stage {} divides weights that train, and blocks_to_swap has them wait in main memory; take one of them out",
                 o.zero_stage);
}

void check_counts(const TrainOptions& o) {
  auto at_least = [](const char* name, int64_t value, int64_t least) {
    check_at_least(name, static_cast<double>(value), static_cast<double>(least));
  };
  at_least("batch_size", o.batch_size, 1);
  at_least("global_batch_size", o.global_batch_size, 0);
  if (o.graphs != "off" && o.graphs != "auto") config_error("train", "cuda_graphs must be off or auto, not '{}'", o.graphs);
  if (o.reduction != "fast" && o.reduction != "ordered") config_error("train", "reduction must be fast or ordered, not '{}'", o.reduction);
  check_stage(o);
  check_sequence(o);
  at_least("gradient_accumulation_steps", o.gradient_accumulation_steps, 1);
  at_least("dataset_repeat", o.dataset_repeat, 1);
  at_least("dataset_num_workers", o.dataset_num_workers, 0);
  check_at_most("dataset_num_workers", o.dataset_num_workers, kMostThreads);
  at_least("lora_rank", o.lora_rank, 1);
  at_least("save_steps", o.save_steps, -1);
  at_least("save_epochs", o.save_epochs, 0);
  check_at_least("save_minutes", o.save_minutes, 0);
  at_least("keep_last", o.keep_last, 0);
  at_least("validation_steps", o.validation_steps, 0);
  at_least("preview_steps", o.preview_steps, 0);
  at_least("preview_num_inference_steps", o.preview_num_inference_steps, 1);
  if ((o.resume || o.auto_resume) && o.overwrite)
    config_error("train", "resume goes on with a run and overwrite replaces it; take one of them out");
  check_limits(o);
  check_hooks(o);
  if (o.max_steps < 0 || (o.max_steps == 0 && o.num_epochs < 1))
    config_error("train", "nothing to do: give max_steps or num_epochs of at least 1");
}

}  // namespace

void check(const TrainOptions& o) {
  auto copy = o;
  config::Fields listed;
  fields(listed, copy);
  check_finite(listed);
  check(o.model);
  check_task(o);
  check_precompute(o);
  check_data(o);
  if (o.on_bad_sample != "stop" && o.on_bad_sample != "skip")
    config_error("train", "on_bad_sample '{}' is not known; choose stop or skip", o.on_bad_sample);
  check_counts(o);
  check_augmentation(o);
  check_masks(o);
  check_objective(o);
  check_at_least("lora_alpha", o.lora_alpha, 0);
  check_groups(o);
  check_presets(o);
  adapters::check(adapter_options(o));
  adapters::check_readers(adapters::parse_layout(o.lora_format), adapters::kind_of_type(o.lora_type), o.lora_type == "dora",
                          adapters::parse_norm_axis(o.dora_norm));
  check_at_least("max_grad_norm", o.max_grad_norm, 0);
  if (!o.device_memory.empty()) parse_size("device_memory", o.device_memory);
  if (!o.host_memory.empty()) parse_size("host_memory", o.host_memory);
  if (o.learning_rate <= 0) config_error("train", "learning_rate must be above 0, not {}", o.learning_rate);
  component_rates(o);
  if (parse_dtype(o.model.dtype) == c10::kHalf && !o.trainable_models.empty())
    config_error("train", "fp16 is too coarse for weights that train; choose dtype bf16 or fp32, or train an adapter over fp16");
  if (!o.replay.empty() && (o.batch_size != 1 || o.global_batch_size > 1))
    config_error("train", "replay plays one recorded sample a step; set batch_size to 1, and leave out global_batch_size");
  if (!o.save_dtype.empty()) parse_dtype(o.save_dtype);
  diffusion::check(loss_options(o));
  parse_robust_loss(o.loss_type, o.huber_schedule, o.huber_c, o.huber_scale);
  check_at_least("noise_offset", o.noise_offset, 0);
  diffusion::check(timestep_options(o));
  optim::check(optimizer_options(o), schedule_options(o, o.max_steps), o.learning_rate);
  optim::check(group_options(o));
  check_memory(o);
  if (!(o.ema_decay >= 0 && o.ema_decay < 1)) config_error("train", "ema_decay must lie between 0 (none) and 1, not {}", o.ema_decay);
  if (o.ema_decay > 0 && optim::is_schedule_free(optimizer_options(o)))
    config_error("train", "{} averages what trains already, and ema_decay {} would average it again; take ema_decay out", o.optimizer,
                 o.ema_decay);
  if (o.trained_weights == "remainder" && (o.trainable_models.empty() || parse_dtype(o.model.dtype) != c10::kBFloat16))
    config_error("train", "trained_weights remainder keeps 16 bits beside bf16 weights that train, and this run has none; take it out");
  if (o.trained_weights == "fp8" && o.trainable_models.empty())
    config_error("train",
                 "trained_weights fp8 keeps weights that train in FP8, and an adapter's are fp32; take it out, or name trainable_models");
  for (const auto& [option, belongs_to] : idle_options(o))
    config_error("train", "{} has no effect here: it belongs to {}; take it out", option, belongs_to);
}

void begin_with_drawing_options(ModelChoice& o) {
  o.unset = models::drawing_options();
  for (const auto& [name, value] : o.unset) o.own[name] = value;
}

models::ModelOptions model_options(const ModelChoice& c) {
  models::ModelOptions options;
  options.dtype = parse_dtype(c.dtype);
  bool on_gpu = c.device != "cpu" && (at::hasCUDA() || (c.is_plan && c.device == "cuda"));
  options.device = on_gpu ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(c.local_rank)) : c10::Device(c10::kCPU);
  options.tokenizer_path = c.tokenizer_path;
  options.tokenizer_2_path = c.tokenizer_2_path;
  options.own = c.own;
  options.unset = c.unset;
  options.seed = static_cast<uint64_t>(c.seed);
  return options;
}

void set_threads(const ModelChoice& c) {
  if (c.num_threads > 0) return at::set_num_threads(static_cast<int>(c.num_threads));
  if (c.local_size > 1) at::set_num_threads(static_cast<int>(std::max<int64_t>(1, std::thread::hardware_concurrency() / c.local_size)));
}

}  // namespace burnish::train
