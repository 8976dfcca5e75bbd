#pragma once

#include "adapters/attach.h"
#include "adapters/rank_mask.h"
#include "config/fields.h"
#include "diffusion/process.h"
#include "train/course/settings.h"
#include "train/objectives/objective_kind.h"
#include "train/options/embedding_options.h"
#include "train/options/output_settings.h"
#include "train/samples/data_choice.h"
#include "train/samples/dataset_choice.h"
#include "train/step/step_options.h"
#include "train/subject/model_choice.h"
#include "train/subject/trained_choice.h"

namespace burnish::train {

/// Who is told what a run does.
struct TellOptions {
  std::string on_save, on_end, webhook;
  bool trust_settings = false;  ///< whether a file of settings may name them
};

/// How much large errors count (RobustLoss).
struct RobustChoice {
  std::string type = "l2", schedule = "snr";
  double c = 0.1, scale = 1;
};

/// Where masks are, and how they count.
struct MaskChoice {
  std::string from = "none", column = "mask";
  double unmasked_weight = 0;
  bool per_area = false;
};

/// What a plan goes by (PlanSettings).
struct PlanChoice {
  std::string check = "on", device_memory, host_memory;
  bool unified_memory = false;
};

/// The options that `burnish train` can be told, those of a room in a struct of its own. Names are DiffSynth-Studio's where it has the
/// option.
struct TrainOptions {
  std::vector<std::string> given;  ///< options named on the command line; a run's config.toml holds all, whether they were meant or not
  ModelChoice model;
  DataChoice data;
  DatasetChoice dataset;
  CacheChoice cache;

  std::string task = "sft", extra_inputs;
  models::OptionValues objective = default_objective_options();
  TrainedChoice trained;
  adapters::RankRule rank_rule;
  adapters::AdapterOptions adapter;  ///< without dora_norm, which stands in `trained`
  EmbeddingOptions embedding;

  CourseSettings course;                     ///< without seed and portion
  StepSettings step{.learning_rate = 1e-4};  ///< without what follows from its words, and from other rooms
  StepWords step_words;
  diffusion::TimestepOptions timesteps;
  diffusion::LossOptions loss;
  double noise_offset = 0;
  RobustChoice robust;
  MaskChoice masks;

  std::string output_path = "./models/train", save_dtype, validation_strengths;
  OutputSettings output{.save = {.steps = -1}};  ///< without folder, and what the three above say
  bool auto_resume = false;                      ///< whether the run goes on from a state that is there
  TellOptions tell;
  PlanChoice plan;
};

}  // namespace burnish::train
