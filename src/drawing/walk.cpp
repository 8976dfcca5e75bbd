#include "drawing/walk.h"

#include <ATen/ops/full.h>

#include "models/latent_space.h"

namespace burnish::drawing {

namespace {

using models::stream_value;
using Tensors = std::map<std::string, at::Tensor>;  // by stream

Tensors predict(const Denoiser& denoiser, const Tensors& inputs, double time, pipeline::Values values) {
  for (const auto& [stream, input] : inputs) values[stream_value(stream, "noisy")] = input.to(at::kFloat);
  const auto& input = inputs.at(models::kLatents);
  values[denoiser.process.time_name()] = at::full({input.size(0)}, time, input.options().dtype(at::kFloat));
  pipeline::run(denoiser.units, values);
  Tensors predictions;
  for (const auto& [stream, tensor] : inputs)
    predictions[stream] = std::get<at::Tensor>(values.at(stream_value(stream, "prediction"))).to(at::kFloat);
  return predictions;
}

}  // namespace

pipeline::Values walk(const Denoiser& denoiser, const pipeline::Values& noise, const pipeline::Values& conditions,
                      const WalkOptions& options) {
  std::map<std::string, std::unique_ptr<diffusion::Sampler>> samplers;
  Tensors latents, inputs;
  for (const auto& [stream, start] : noise) {
    samplers[stream] = denoiser.process.sampler(options.sampler);
    latents[stream] = samplers.at(stream)->start(std::get<at::Tensor>(start));
  }
  const auto& first = *samplers.at(models::kLatents);
  for (int64_t step = 0; step < first.num_steps(); ++step) {
    if (options.goes_on && !options.goes_on(step)) return {};
    for (const auto& [stream, sampler] : samplers) inputs[stream] = sampler->model_input(latents.at(stream), step);
    auto predictions = predict(denoiser, inputs, first.time(step), conditions);
    if (const auto& guidance = options.guidance) {
      auto away = predict(denoiser, inputs, first.time(step), guidance->negative);
      for (auto& [stream, prediction] : predictions)
        prediction = denoiser.guide(prediction, away.at(stream), guidance->scale, guidance->rescale);
    }
    for (const auto& [stream, sampler] : samplers)
      latents[stream] = sampler->update(latents.at(stream), predictions.at(stream), step, [&] { return options.step_noise(step, stream); });
  }
  return {latents.begin(), latents.end()};
}

at::Tensor walk(const Denoiser& denoiser, const at::Tensor& noise, const pipeline::Values& conditions, const WalkOptions& options) {
  auto latents = walk(denoiser, pipeline::Values{{models::kLatents, noise}}, conditions, options);
  return latents.empty() ? at::Tensor() : std::get<at::Tensor>(latents.at(models::kLatents));
}

}  // namespace burnish::drawing
