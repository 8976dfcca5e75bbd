#include "train/objectives/drawn_latents.h"

#include <ATen/core/grad_mode.h>

#include "base/input_error.h"
#include "base/limits.h"
#include "nn/delta_strength.h"

namespace burnish::train {

namespace {

const char* const kLatentsFrom = "concept_latents";
const char* const kMostSteps = "max_denoising_steps";
const char* const kDrawingScale = "denoising_cfg_scale";

diffusion::SamplerOptions sampler_options(const DrawnLatents& drawn, int64_t num_tokens) {
  auto options = drawn.sampler;
  options.num_image_tokens = num_tokens;
  return options;
}

}  // namespace

std::vector<models::Option> drawn_latents_options() {
  const DrawnLatents otherwise;
  return {{.name = kLatentsFrom,
           .help = "whose latents are seen: drawn, what the model draws itself up to a random step, for which no data is needed; pictures, "
                   "those of the dataset, at times as for sft",
           .otherwise = std::string("drawn"),
           .elsewhere = "",
           .choices = {"drawn", "pictures"}},
          {.name = kMostSteps,
           .help = "steps of such a drawing, of which half are taken in the mean",
           .otherwise = otherwise.sampler.num_steps,
           .elsewhere = "",
           .least = 1,
           .most = kMostSamplerSteps},
          {.name = kDrawingScale,
           .help = "classifier-free guidance of such a drawing; 1 is without",
           .otherwise = otherwise.guidance,
           .elsewhere = "",
           .least = 1}};
}

std::vector<OwnCondition> drawn_latents_conditions() {
  auto draws = [](const models::OptionValues& own) { return drawn_latents_of(own).on; };
  return {{kMostSteps, "concept_latents drawn", draws}, {kDrawingScale, "concept_latents drawn", draws}};
}

DrawnLatents drawn_latents_of(const models::OptionValues& own) {
  return {own.get<std::string>(kLatentsFrom) == "drawn", {.num_steps = own.get<int64_t>(kMostSteps)}, own.get<double>(kDrawingScale)};
}

double time_after_steps(const DrawnLatents& drawn, const models::Model& model, const Sample& sample, int64_t num_steps) {
  return model.process().sampler(sampler_options(drawn, model.latent_space().num_tokens(sample.latent_shape)))->time(num_steps);
}

pipeline::Unit drawing_unit(models::Model& model, const DrawnLatents& drawn, const DrawnUnder& under) {
  auto denoiser = drawing::denoiser_of(model, model.experts_there(), drawing::UnitsFor::training);
  const auto& space = model.latent_space();
  const auto names = denoiser.condition_names();
  const bool guides = drawn.guidance != 1;
  pipeline::Unit unit{kDrawLatents, {kDrawnSteps}, {}, denoiser.models(), {}};
  for (const auto& stream : space.streams) {
    if (!drawn.step_noise.empty()) unit.reads.push_back(stream.value(drawn.step_noise));
    unit.reads.push_back(stream.value("noise"));
    unit.writes.push_back(stream.value("noisy"));
  }
  std::set<std::string> conditions;
  for (const auto& name : names) {
    conditions.insert(under.prompt(name));
    if (guides) conditions.insert(under.away(name));
  }
  unit.reads.insert(unit.reads.end(), conditions.begin(), conditions.end());
  unit.run = [=, &space, models = unit.models](pipeline::Scope& scope) {
    at::NoGradGuard no_grad;
    nn::DeltaStrength at(under.strength);
    pipeline::Values noise, shown, away;
    for (const auto& stream : space.streams) noise[stream.name] = scope.tensor(stream.value("noise"));
    for (const auto& name : names) {
      shown[name] = scope.value(under.prompt(name));
      if (guides) away[name] = scope.value(under.away(name));
    }
    for (const auto& name : models) scope.uses(name);
    drawing::WalkOptions options{.sampler = sampler_options(drawn, space.num_tokens(scope.tensor("noise").sizes().slice(1)))};
    if (guides) options.guidance = {away, drawn.guidance};
    options.step_noise = [&](int64_t step, const std::string& stream) {
      if (drawn.step_noise.empty())
        config_error("train", "latents are drawn by a sampler that draws no noise on its way; this model's own does: set {} to pictures",
                     kLatentsFrom);
      return scope.tensor(models::stream_value(stream, drawn.step_noise)).select(1, step);
    };
    options.goes_on = [num_steps = scope.tensor(kDrawnSteps).item<int64_t>()](int64_t step) { return step < num_steps; };
    drawing::Walk walk(denoiser, noise, shown, options);
    while (!walk.is_done() && walk.advance(walk.stage())) continue;
    for (const auto& [stream, tensor] : walk.inputs()) scope.write(models::stream_value(stream, "noisy"), tensor.to(at::kFloat));
  };
  return unit;
}

}  // namespace burnish::train
