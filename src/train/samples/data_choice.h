#pragma once
#include <cstdint>
#include <string>

#include "config/fields.h"

namespace burnish::train {

/// Options that say where the samples of a run are.
struct DataChoice {
  std::string base_path, metadata_path, file_keys = "image,video", config;
  std::string class_metadata_path, class_base_path, class_prompt;
  std::string validation_metadata_path;
  std::string on_bad_sample = "stop";
  int64_t num_workers = 2;
};

/// Options that say what is computed of samples ahead of training, and kept.
struct CacheChoice {
  int64_t variants = 0;
  std::string latents = "mean";
  std::string path, import_diffsynth, precompute = "all", precompute_timesteps = "auto";
  double budget = 0, memory_budget = 0;
  int64_t num_processes = 1, process_index = 0;
};

/// Lists them, under headings of their own; validation_metadata_path, which is about what a run puts out, stands there.
void fields(config::Fields& f, DataChoice& o);
void fields(config::Fields& f, CacheChoice& o);

}  // namespace burnish::train
