#include "drawing/walk.h"

#include <ATen/ops/full.h>

namespace burnish::drawing {

namespace {

at::Tensor predict(const Denoiser& denoiser, const at::Tensor& input, double time, pipeline::Values values) {
  values["noisy"] = input.to(at::kFloat);
  values[denoiser.process.time_name()] = at::full({input.size(0)}, time, input.options().dtype(at::kFloat));
  pipeline::run(denoiser.units, values);
  return std::get<at::Tensor>(values.at("prediction")).to(at::kFloat);
}

}  // namespace

at::Tensor walk(const Denoiser& denoiser, const at::Tensor& noise, const pipeline::Values& conditions, const WalkOptions& options) {
  auto sampler = denoiser.process.sampler(options.sampler);
  auto latents = sampler->start(noise);
  for (int64_t step = 0; step < sampler->num_steps(); ++step) {
    if (options.goes_on && !options.goes_on(step)) return {};
    auto input = sampler->model_input(latents, step);
    auto prediction = predict(denoiser, input, sampler->time(step), conditions);
    if (const auto& guidance = options.guidance) {
      auto away = predict(denoiser, input, sampler->time(step), guidance->negative);
      prediction = denoiser.guide(prediction, away, guidance->scale, guidance->rescale);
    }
    latents = sampler->update(latents, prediction, step, [&] { return options.step_noise(step); });
  }
  return latents;
}

}  // namespace burnish::drawing
