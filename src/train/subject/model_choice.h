#pragma once
#include "config/fields.h"
#include "models/registry.h"

namespace burnish::train {

inline constexpr const char* kAutoFormat = "auto";  ///< a weight_format that settle_format chooses

/// Options that say which model runs, in what precision and on what device; every verb that runs a model has them.
struct ModelChoice {
  std::vector<std::string> model;
  std::string model_paths, model_id_with_origin_paths;
  std::string tokenizer_path, tokenizer_2_path;
  std::string dtype = "bf16", device = "auto";
  std::string fp8_models, weight_format = "fp8", high_precision_layers = "default";
  bool fp8_compute = false, int8_compute = false, fp4_compute = false;
  models::OptionValues own = models::default_options();  ///< values of the options that families declare
  int64_t seed = 0;
  int64_t num_threads = 0;
  bool is_plan = false;                    ///< whether the run is only planned: its device and its data may be missing then
  int64_t local_rank = 0, local_size = 1;  ///< number of this process on its machine, and how many are there: its GPU, its part of cores
};
void fields(config::Fields& f, ModelChoice& o);
/// Refuses unknown names and numbers that make no sense, before any file is opened.
void check(const ModelChoice& o);

/// Turns a choice into the model's own options; device "auto" becomes cuda where there is one.
models::ModelOptions model_options(const ModelChoice& choice);

}  // namespace burnish::train
