#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace burnish::train {

/// Options that say what trains: names and lists, which TrainedSettings has understood.
struct TrainedChoice {
  std::string init = "pretrained";  ///< what the denoiser begins as
  std::string whole, experts, adapted;
  std::string weights = "stochastic";  ///< how weights that train are kept and rounded
  std::string component_rates;         ///< a rate of all that trains beside the denoiser, or rates by component
  std::string targets = "default", rank_groups, alpha_groups;
  std::string lora_checkpoint;
  int64_t checkpoint_rank = 0;
  std::string dora_norm = "output", lora_format = "auto";
  std::vector<std::string> presets;
  std::string preset_components;
};

}  // namespace burnish::train
