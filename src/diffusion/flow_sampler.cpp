#include "diffusion/flow_sampler.h"

#include <cmath>

#include "base/error.h"

namespace burnish::diffusion {

std::vector<double> sampling_sigmas(const FlowSamplerConfig& c, int64_t num_steps, int64_t num_image_tokens) {
  if (num_steps < 1) config_error("diffusion", "num_inference_steps must be at least 1, not {}", num_steps);
  auto slope = (c.max_shift - c.base_shift) / (c.max_image_seq_len - c.base_image_seq_len);
  auto mu = c.base_shift + slope * (static_cast<double>(num_image_tokens) - c.base_image_seq_len);
  std::vector<double> sigmas;
  auto n = static_cast<double>(num_steps);
  for (int64_t i = 0; i < num_steps; ++i) {
    auto u = num_steps == 1 ? 1.0 : 1.0 + (1.0 / n - 1.0) * static_cast<double>(i) / (n - 1.0);
    sigmas.push_back(c.use_dynamic_shifting ? std::exp(mu) / (std::exp(mu) + (1.0 / u - 1.0)) : c.shift * u / (1.0 + (c.shift - 1.0) * u));
  }
  sigmas.push_back(0.0);
  return sigmas;
}

}  // namespace burnish::diffusion
