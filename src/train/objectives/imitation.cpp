#include "train/objectives/imitation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/take_along_dim.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/limits.h"
#include "drawing/encode.h"
#include "train/objectives/distill.h"

namespace burnish::train {

namespace {

const char* const kStudentSteps = "student_num_inference_steps";
const char* const kTeacherSteps = "teacher_num_inference_steps";
const char* const kTeacherGuidance = "teacher_cfg_scale";

diffusion::SamplerOptions sampler_options(const std::string& spacing, int64_t num_steps, int64_t num_image_tokens) {
  return {.timestep_spacing = spacing, .num_steps = num_steps, .num_image_tokens = num_image_tokens};
}

std::vector<double> times_of(const diffusion::Process& process, const diffusion::SamplerOptions& options) {
  auto sampler = process.sampler(options);
  std::vector<double> times;
  for (int64_t step = 0; step < sampler->num_steps(); ++step) times.push_back(sampler->time(step));
  times.push_back(process.time_at(0));
  return times;
}

const char* const kTrajectory = "trajectory";

/// Names the noise that walks of the model begin in among what a unit reads.
void add_noise_reads(models::Model& model, pipeline::Unit& unit) {
  unit.reads.emplace_back(kTrajectoryNoise);
  if (model.latent_space().streams.size() > 1) unit.reads.emplace_back(kFurtherNoise);
}

/// Reads the noise [B, ...] in which the walks of a batch begin, of every stream, in fp64.
drawing::Walk::Tensors start_of(models::Model& model, pipeline::Scope& scope) {
  drawing::Walk::Tensors start{{models::kLatents, scope.tensor(kTrajectoryNoise).to(at::kDouble)}};
  std::set<std::string> further;
  for (const auto& stream : model.latent_space().streams)
    if (stream.name != models::kLatents) further.insert(stream.name);
  if (further.empty()) return start;
  const auto& lists = scope.lists(kFurtherNoise);
  for (size_t i = 0; const auto& stream : further) {
    std::vector<at::Tensor> of_samples;
    for (const auto& list : lists) of_samples.push_back(list.at(i).to(at::kDouble));
    start[stream] = at::stack(of_samples);
    ++i;
  }
  return start;
}

pipeline::Values conditions_of(pipeline::Scope& scope, const std::vector<std::string>& names, const std::set<std::string>& negative,
                               c10::Device device) {
  pipeline::Values conditions;
  for (const auto& name : names) conditions[name] = scope.value(negative.contains(name) ? kNegative + name : name);
  return pipeline::moved(std::move(conditions), device);
}

}  // namespace

std::vector<models::Option> imitation_options() {
  ImitationOptions otherwise;
  return {{.name = kStudentSteps,
           .help = "steps in which the model shall draw",
           .otherwise = otherwise.num_student_steps,
           .elsewhere = "",
           .least = 1,
           .most = kMostSamplerSteps},
          {.name = kTeacherSteps,
           .help = "steps in which the model as it was before training walks, once a sample",
           .otherwise = otherwise.num_teacher_steps,
           .elsewhere = "",
           .least = 1,
           .most = kMostSamplerSteps},
          {.name = kTeacherGuidance,
           .help = "the teacher's classifier-free guidance; 1 is without",
           .otherwise = otherwise.teacher_cfg_scale,
           .elsewhere = "",
           .least = 0},
          spacing_option()};
}

ImitationOptions imitation_options_of(const models::OptionValues& values) {
  return {values.get<int64_t>(kStudentSteps), values.get<int64_t>(kTeacherSteps), values.get<double>(kTeacherGuidance), spacing_of(values)};
}

std::vector<double> student_times(const ImitationOptions& options, const diffusion::Process& process, int64_t num_image_tokens) {
  return times_of(process, sampler_options(options.spacing, options.num_student_steps, num_image_tokens));
}

std::vector<std::vector<double>> walk_through(const std::vector<double>& times, const std::vector<double>& fine) {
  auto kept = fine;
  for (auto time : times) {
    auto nearest = std::ranges::min_element(kept, {}, [&](double t) { return std::abs(t - time); });
    if (nearest != kept.end()) kept.erase(nearest);
  }
  std::vector<std::vector<double>> walk;
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    walk.push_back({times[i]});
    for (auto t : kept) {
      if (t < times[i] && t > times[i + 1]) walk.back().push_back(t);
    }
    walk.back().push_back(times[i + 1]);
  }
  return walk;
}

pipeline::Unit walk_unit(models::Model& model, const ObjectiveSettings& settings, const std::set<std::string>& negative) {
  auto denoiser = drawing::denoiser_of(model, model.experts_there(), drawing::UnitsFor::training);
  auto names = denoiser.condition_names();
  pipeline::Unit unit{"walk", names, {}, denoiser.models(), {}};
  add_noise_reads(model, unit);
  for (const auto& stream : model.latent_space().streams) unit.writes.push_back(stream.value(kTrajectory));
  for (const auto& name : negative) unit.reads.push_back(kNegative + name);
  auto own = imitation_options_of(settings.own);
  if (!negative.empty() && !drawing::guides_by_prompts(model))
    config_error("train", "{} is {}, and guidance of this model leads away from what training does not run; set it to 1", kTeacherGuidance,
                 own.teacher_cfg_scale);
  unit.settings = fmt::format("{} {}, {} {}, {} {}, {} {}", kStudentSteps, own.num_student_steps, kTeacherSteps, own.num_teacher_steps,
                              kTeacherGuidance, own.teacher_cfg_scale, kSpacing, own.spacing);
  unit.run = [&model, denoiser, settings, own, names, negative, models = unit.models](pipeline::Scope& scope) {
    // The walk is computed in fp64, so that a velocity is found again exactly between the places that it leads to.
    auto places = start_of(model, scope);
    for (auto& [stream, x] : places) x = x.to(settings.device);
    auto num_tokens = model.latent_space().num_tokens(places.at(models::kLatents).sizes().slice(1));
    auto times = student_times(own, denoiser.process, num_tokens);
    auto fine = times_of(denoiser.process, sampler_options(own.spacing, own.num_teacher_steps, num_tokens));
    auto conditions = conditions_of(scope, names, {}, settings.device);
    drawing::WalkOptions options;
    if (!negative.empty()) options.guidance = {conditions_of(scope, names, negative, settings.device), own.teacher_cfg_scale};
    for (const auto& name : models) scope.uses(name);
    std::map<std::string, std::vector<at::Tensor>> velocities;
    for (auto& steps : walk_through(times, fine)) {
      const auto from = places;
      const auto begin = steps.front(), end = steps.back();
      options.sampler.times = std::move(steps);
      for (const auto& [stream, x] : drawing::walk(denoiser, {from.begin(), from.end()}, conditions, options))
        places[stream] = std::get<at::Tensor>(x);
      for (const auto& stream : model.latent_space().streams) {
        const auto moved = places.at(stream.name) - from.at(stream.name);
        velocities[stream.name].push_back(
            (moved / (model.process().level(stream.name, end) - model.process().level(stream.name, begin))).to(at::kFloat));
      }
    }
    for (const auto& [stream, of_steps] : velocities) scope.write(models::stream_value(stream, kTrajectory), at::stack(of_steps, 1));
  };
  return unit;
}

pipeline::Unit place_unit(models::Model& model, const ObjectiveSettings& settings, const std::string& prefix) {
  auto run = [&model, own = imitation_options_of(settings.own), prefix](pipeline::Scope& scope) {
    const auto& step_B = scope.tensor("trajectory_step");
    const auto start = start_of(model, scope);
    const auto times = student_times(own, model.process(), model.latent_space().num_tokens(start.at(models::kLatents).sizes().slice(1)));
    for (const auto& stream : model.latent_space().streams) {
      const auto& velocity_BS = scope.tensor(prefix + stream.value(kTrajectory));
      auto level = [&](double time) { return model.process().level(stream.name, time); };
      auto x = start.at(stream.name).to(velocity_BS.device());
      std::vector<at::Tensor> places;
      for (int64_t k = 0; k < velocity_BS.size(1); ++k) {
        auto i = static_cast<size_t>(k);
        places.push_back(x.to(at::kFloat));
        x = x + velocity_BS.select(1, k).to(at::kDouble) * (level(times.at(i + 1)) - level(times.at(i)));
      }
      std::vector<int64_t> shape(static_cast<size_t>(velocity_BS.dim()), 1);
      shape[0] = step_B.size(0);
      auto of_step = [&](const at::Tensor& all_BS) { return at::take_along_dim(all_BS, step_B.view(shape), 1).squeeze(1); };
      scope.write(stream.value("noisy"), of_step(at::stack(places, 1)));
      scope.write(stream.value("target"), of_step(velocity_BS));
    }
  };
  pipeline::Unit unit{"place", {"trajectory_step"}, {}, {}, run};
  add_noise_reads(model, unit);
  for (const auto& stream : model.latent_space().streams) {
    unit.reads.push_back(prefix + stream.value(kTrajectory));
    unit.writes.insert(unit.writes.end(), {stream.value("noisy"), stream.value("target")});
  }
  return unit;
}

}  // namespace burnish::train
