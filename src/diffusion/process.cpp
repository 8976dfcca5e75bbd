#include "diffusion/process.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/std.h>

#include <algorithm>
#include <functional>

#include "base/choice.h"
#include "base/random_key.h"
#include "base/text.h"
#include "diffusion/loss_weighting.h"

namespace burnish::diffusion {

void check(const LossOptions& options) {
  check_loss_weighting(options.weighting);
  if (options.min_snr_gamma < 0) config_error("diffusion", "min_snr_gamma must be at least 0, not {}", options.min_snr_gamma);
}

std::vector<std::string> sampler_names() { return {"default", "euler", "euler_a", "dpmpp_2m", "ddim", "unipc", "lcm"}; }
std::vector<std::string> spacing_names() { return {"default", "leading", "trailing", "linspace", "diffsynth"}; }

void check(const SamplerOptions& options) {
  const auto samplers = sampler_names(), spacings = spacing_names();
  if (!contains(samplers, options.name)) unknown_choice("diffusion", "sampler", options.name, samplers);
  if (!contains(spacings, options.timestep_spacing)) unknown_choice("diffusion", "timestep_spacing", options.timestep_spacing, spacings);
  if (options.num_steps < 1) config_error("diffusion", "num_inference_steps must be at least 1, not {}", options.num_steps);
}

at::Tensor Process::level(std::string_view stream, const at::Tensor& time_B) const {
  const double shift = shift_of(stream);
  return shift == 1 ? time_B : time_B * shift / (1 + time_B * (shift - 1));
}

bool falls_to_zero(std::span<const double> times) {
  return times.size() >= 2 && times.front() <= 1 && times.back() == 0 &&
         std::ranges::adjacent_find(times, std::less_equal<>()) == times.end();
}

/// Refuses a stretch in which next to none of the times lie: what is drawn there would be one time again and again.
static void check_share(const Stretch& stretch, const Process& process, const TimestepOptions& options, int64_t num_image_tokens) {
  constexpr uint64_t kDrawn = 4096, kFewest = kDrawn / 200;
  uint64_t num_inside = 0;
  for (uint64_t i = 0; i < kDrawn; ++i) num_inside += stretch.has(process.share_of(process.draw_time(options, mix64(i), num_image_tokens)));
  if (num_inside < kFewest)
    config_error(
        "diffusion",
        "of {} times that timestep_sampling {} draws {} lie between the shares {} and {} of the noise, in which the trained expert "
        "predicts; take another sampling, or other boundaries",
        kDrawn, options.mode, num_inside, stretch.from, stretch.to);
}

double draw_time_in(const Stretch& stretch, const Process& process, const TimestepOptions& options, uint64_t key,
                    int64_t num_image_tokens) {
  constexpr uint64_t kSuspicious = 64;  // so many times outside come seldom by chance
  for (uint64_t attempt = 0;; ++attempt) {
    auto time = process.draw_time(options, attempt == 0 ? key : mix64(key + attempt), num_image_tokens);
    if (stretch.is_whole() || stretch.has(process.share_of(time))) return time;
    if (attempt == kSuspicious) check_share(stretch, process, options, num_image_tokens);
  }
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
