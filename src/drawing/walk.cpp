#include "drawing/walk.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "models/model/guided_step.h"
#include "models/model/step_end.h"

namespace burnish::drawing {

namespace {

using models::stream_value;
using Tensors = Walk::Tensors;

/// Says where a step is in time.
struct Step {
  double time, time_after;
  bool is_guided;
};

Tensors predict(const pipeline::Units& units, const std::string& time_name, const Tensors& inputs, const Step& step,
                pipeline::Values values) {
  for (const auto& [stream, input] : inputs) values[stream_value(stream, "noisy")] = input.to(at::kFloat);
  const auto& input = inputs.at(models::kLatents);
  auto for_all = [&](double time) { return at::full({input.size(0)}, time, input.options().dtype(at::kFloat)); };
  values[time_name] = for_all(step.time);
  values[models::kStepEnd] = for_all(step.time_after);
  values[models::kIsGuided] = at::scalar_tensor(step.is_guided ? 1.0 : 0.0, at::kDouble);
  pipeline::run(units, values);
  Tensors predictions;
  for (const auto& [stream, tensor] : inputs)
    predictions[stream] = std::get<at::Tensor>(values.at(stream_value(stream, "prediction"))).to(at::kFloat);
  return predictions;
}

}  // namespace

size_t Denoiser::stage_at(double time) const {
  const auto share = process.share_of(time);
  auto distance = [&](const Stage& stage) {
    if (stage.stretch.has(share)) return -1.0;
    return std::min(std::abs(share - stage.stretch.from), std::abs(share - stage.stretch.to));
  };
  return static_cast<size_t>(std::ranges::min_element(stages, {}, distance) - stages.begin());
}

std::vector<std::string> Denoiser::models() const {
  std::vector<std::string> names;
  for (const auto& stage : stages) {
    for (const auto& name : pipeline::models_of(stage.units)) {
      if (!contains(names, name)) names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> Denoiser::condition_names() const {
  std::vector<std::string> names;
  for (const auto& stage : stages) {
    std::vector<std::string> own{process.time_name(), models::kStepEnd, models::kIsGuided};
    for (const auto& stream : streams) own.push_back(stream_value(stream, "noisy"));
    for (const auto& unit : stage.units) {
      for (const auto& name : unit.reads) {
        if (!contains(own, name) && !contains(names, name)) names.push_back(name);
      }
      own.insert(own.end(), unit.writes.begin(), unit.writes.end());
    }
  }
  return names;
}

Denoiser denoiser_of(models::Model& model, const std::vector<models::Expert>& experts, UnitsFor use) {
  Denoiser denoiser{model.process(), {}, model.guide(), {}};
  if (use == UnitsFor::looking)
    denoiser.guidance_at = [&model](double scale, int64_t step, int64_t num_steps) { return model.guidance_at(scale, step, num_steps); };
  for (const auto& stream : model.latent_space().streams) {
    denoiser.streams.push_back(stream.name);
    if (!stream.held.name.empty()) denoiser.held[stream.name] = stream.held.name;
  }
  for (const auto& expert : experts) {
    auto groups = model.units_of(expert);
    if (use == UnitsFor::looking) denoiser.stages.push_back({expert.stretch, groups.drawing(), groups.draw_away});
    else denoiser.stages.push_back({expert.stretch, groups.denoise});
  }
  return denoiser;
}

Walk::Walk(const Denoiser& denoiser, const pipeline::Values& noise, pipeline::Values conditions, WalkOptions options)
    : denoiser_(denoiser), conditions_(std::move(conditions)), options_(std::move(options)) {
  const auto& process = denoiser.process;
  samplers_[models::kLatents] = process.sampler(options_.sampler);
  for (const auto& [stream, start] : noise) {
    if (stream != models::kLatents)
      samplers_[stream] = process.shift_of(stream) == 1 ? process.sampler(options_.sampler) : sampler_of(stream);
    latents_[stream] = samplers_.at(stream)->start(std::get<at::Tensor>(start));
  }
}

/// Makes the sampler of a stream whose noise is of other levels than that of the first.
std::unique_ptr<diffusion::Sampler> Walk::sampler_of(const std::string& stream) const {
  auto own = options_.sampler;
  own.times.clear();
  for (int64_t step = 0; step < first().num_steps(); ++step) own.times.push_back(denoiser_.process.level(stream, first().time(step)));
  const auto& given = options_.sampler.times;
  own.times.push_back(denoiser_.process.level(stream, given.empty() ? denoiser_.process.time_at(0) : given.back()));
  return denoiser_.process.sampler(own);
}

/// The time at which the next step ends; the last one's is without noise, unless the walk ends before that.
double Walk::time_after() const {
  const auto& given = options_.sampler.times;
  if (!given.empty()) return given.at(static_cast<size_t>(step_) + 1);
  return step_ + 1 < first().num_steps() ? first().time(step_ + 1) : denoiser_.process.time_at(0);
}

Walk::Tensors Walk::inputs() const {
  Tensors inputs;
  for (const auto& [stream, sampler] : samplers_) inputs[stream] = sampler->model_input(latents_.at(stream), step_);
  return inputs;
}

void Walk::take_step() {
  const Step step{first().time(step_), time_after(), options_.guidance.has_value()};
  const auto& [stretch, units, away_units] = denoiser_.stages.at(denoiser_.stage_at(step.time));
  const auto name = denoiser_.process.time_name();
  const auto inputs = this->inputs();
  auto predictions = predict(units, name, inputs, step, conditions_);
  if (const auto& guidance = options_.guidance) {
    auto away = predict(away_units.empty() ? units : away_units, name, inputs, step, guidance->negative);
    const auto& scale_at = denoiser_.guidance_at;
    const double scale = scale_at ? scale_at(guidance->scale, step_, first().num_steps()) : guidance->scale;
    for (auto& [stream, prediction] : predictions) prediction = denoiser_.guide(prediction, away.at(stream), scale, guidance->rescale);
  }
  for (const auto& [stream, sampler] : samplers_)
    latents_[stream] =
        sampler->update(latents_.at(stream), predictions.at(stream), step_, [&] { return options_.step_noise(step_, stream); });
  ++step_;
  if (is_done()) put_held();
}

/// Samplers that look back at earlier steps do not end on what is held by themselves (diffusers: pipeline_wan_i2v.py, expand_timesteps).
void Walk::put_held() {
  for (const auto& [stream, name] : denoiser_.held) {
    auto& latents = latents_.at(stream);
    const auto held = std::get<at::Tensor>(conditions_.at(name)).to(latents.options());
    latents = at::cat({held, latents.narrow(2, held.size(2), latents.size(2) - held.size(2))}, 2);
  }
}

bool Walk::advance(size_t stage) {
  constexpr int64_t kRehearsed = 3;  // steps, behind which a sampler remembers as much as it ever does
  const bool is_rehearsal = latents_.at(models::kLatents).is_meta() && !at::GradMode::is_enabled();
  const auto is_last_of_stage = [&] { return step_ + 1 == first().num_steps() || denoiser_.stage_at(first().time(step_ + 1)) != stage; };
  for (int64_t num_taken = 0; !is_done() && this->stage() == stage; ++num_taken) {
    if (options_.goes_on && !options_.goes_on(step_)) return false;
    // Without numbers, and without gradients that would be kept, one step between the first and the last is like another.
    while (is_rehearsal && num_taken >= kRehearsed && !is_last_of_stage()) ++step_;
    take_step();
  }
  return true;
}

pipeline::Values walk(const Denoiser& denoiser, const pipeline::Values& noise, const pipeline::Values& conditions,
                      const WalkOptions& options) {
  Walk walk(denoiser, noise, conditions, options);
  while (!walk.is_done()) {
    if (!walk.advance(walk.stage())) return {};
  }
  return {walk.latents().begin(), walk.latents().end()};
}

at::Tensor walk(const Denoiser& denoiser, const at::Tensor& noise, const pipeline::Values& conditions, const WalkOptions& options) {
  auto latents = walk(denoiser, pipeline::Values{{models::kLatents, noise}}, conditions, options);
  return latents.empty() ? at::Tensor() : std::get<at::Tensor>(latents.at(models::kLatents));
}

}  // namespace burnish::drawing
