#include "diffusion/process.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/std.h>

#include <algorithm>
#include <array>

#include "base/choice.h"
#include "diffusion/loss_weighting.h"

namespace burnish::diffusion {

void check(const LossOptions& options) {
  check_loss_weighting(options.weighting);
  if (options.min_snr_gamma < 0) config_error("diffusion", "min_snr_gamma must be at least 0, not {}", options.min_snr_gamma);
}

void check(const SamplerOptions& options) {
  static const std::array<std::string, 5> kSamplers{"default", "euler", "euler_a", "dpmpp_2m", "ddim"};
  static const std::array<std::string, 5> kSpacings{"default", "leading", "trailing", "linspace", "diffsynth"};
  if (std::ranges::find(kSamplers, options.name) == kSamplers.end()) unknown_choice("diffusion", "sampler", options.name, kSamplers);
  if (std::ranges::find(kSpacings, options.timestep_spacing) == kSpacings.end())
    unknown_choice("diffusion", "timestep_spacing", options.timestep_spacing, kSpacings);
  if (options.num_steps < 1) config_error("diffusion", "num_inference_steps must be at least 1, not {}", options.num_steps);
}

at::Tensor guide(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale) {
  auto guided = unconditional + (conditional - unconditional) * scale;
  if (rescale == 0) return guided;
  auto deviation = [](const at::Tensor& x) {
    std::vector<int64_t> all;
    for (int64_t d = 1; d < x.dim(); ++d) all.push_back(d);
    return at::std(x, at::OptionalIntArrayRef(all), std::optional<at::Scalar>(1), true);
  };
  return guided * (deviation(conditional) / deviation(guided)) * rescale + guided * (1.0 - rescale);
}

}  // namespace burnish::diffusion
