#pragma once
#include <cstdint>
#include <vector>

namespace burnish::diffusion {

/// Numbers of diffusers' FlowMatchEulerDiscreteScheduler, as in scheduler_config.json.
struct FlowSamplerConfig {
  bool use_dynamic_shifting = true;  ///< shift by the picture's size (FLUX.1-dev); else by `shift`
  double shift = 3.0;
  double base_shift = 0.5, max_shift = 1.15;
  double base_image_seq_len = 256, max_image_seq_len = 4096;
};

/// `num_steps` sigmas from 1 down, and the final 0: linspace(1, 1/n, n), shifted.
std::vector<double> sampling_sigmas(const FlowSamplerConfig& config, int64_t num_steps, int64_t num_image_tokens);

}  // namespace burnish::diffusion
