#include "drawing/walk.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace burnish::drawing {

namespace {

at::Tensor predict(const pipeline::Units& units, const std::string& time_name, const at::Tensor& input, double time,
                   pipeline::Values values) {
  values["noisy"] = input.to(at::kFloat);
  values[time_name] = at::full({input.size(0)}, time, input.options().dtype(at::kFloat));
  pipeline::run(units, values);
  return std::get<at::Tensor>(values.at("prediction")).to(at::kFloat);
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
    std::vector<std::string> own{"noisy", process.time_name()};
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
  Denoiser denoiser{model.process(), {}, model.guide()};
  for (const auto& expert : experts) {
    auto groups = model.units_of(expert);
    denoiser.stages.push_back({expert.stretch, use == UnitsFor::looking ? groups.drawing() : groups.denoise});
  }
  return denoiser;
}

Walk::Walk(const Denoiser& denoiser, const at::Tensor& noise, pipeline::Values conditions, WalkOptions options)
    : denoiser_(denoiser),
      conditions_(std::move(conditions)),
      options_(std::move(options)),
      sampler_(denoiser.process.sampler(options_.sampler)),
      latents_(sampler_->start(noise)) {}

void Walk::take_step() {
  const auto time = sampler_->time(step_);
  const auto& units = denoiser_.stages.at(denoiser_.stage_at(time)).units;
  const auto name = denoiser_.process.time_name();
  auto input = sampler_->model_input(latents_, step_);
  auto prediction = predict(units, name, input, time, conditions_);
  if (const auto& guidance = options_.guidance) {
    auto away = predict(units, name, input, time, guidance->negative);
    prediction = denoiser_.guide(prediction, away, guidance->scale, guidance->rescale);
  }
  latents_ = sampler_->update(latents_, prediction, step_, [&] { return options_.step_noise(step_); });
  ++step_;
}

bool Walk::advance(size_t stage) {
  while (!is_done() && this->stage() == stage) {
    if (options_.goes_on && !options_.goes_on(step_)) return false;
    take_step();
  }
  return true;
}

at::Tensor walk(const Denoiser& denoiser, const at::Tensor& noise, const pipeline::Values& conditions, const WalkOptions& options) {
  Walk walk(denoiser, noise, conditions, options);
  while (!walk.is_done()) {
    if (!walk.advance(walk.stage())) return {};
  }
  return walk.latents();
}

}  // namespace burnish::drawing
