// Trajectory imitation as an objective: a few-step model learns from samples and still draws in few steps.
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/limits.h"
#include "base/random_key.h"
#include "base/text.h"
#include "diffusion/flow_match.h"
#include "train/objectives/distill.h"
#include "train/objectives/imitation.h"
#include "train/objectives/objective.h"
#include "train/objectives/reference.h"
#include "train/objectives/sample_loss.h"
#include "train/samples/draws.h"

namespace burnish::train {

namespace {

RandomKey trajectory_key(const Sample& sample) {
  return {0, static_cast<uint64_t>(sample.number), mix64(sample.row.prompt), Purpose::trajectory};
}

std::string trajectory_noise_content(const Samples& samples, const Pick& pick, const data::RowHashes&) {
  if (pick.row == kNoRow) return "";
  const auto& sample = samples.at(pick.row);
  auto content = fmt::format("noise {} [{}]", trajectory_key(sample).value(), fmt::join(sample.latent_shape, ","));
  for (const auto& [stream, shape] : sample.further_latents) content += fmt::format(" {} [{}]", stream, fmt::join(shape, ","));
  return content;
}

/// Draws the noise in which a sample's trajectory begins: one at all of its visits, another for every row.
pipeline::Value load_trajectory_noise(const Samples& samples, const Pick& pick) {
  const auto& sample = samples.at(pick.row);
  return diffusion::normal_noise(trajectory_key(sample).value(), sample.latent_shape).unsqueeze(0);
}

/// Draws that of further streams, a list in the order of their names.
pipeline::Value load_further_noise(const Samples& samples, const Pick& pick) {
  const auto& sample = samples.at(pick.row);
  std::vector<at::Tensor> list;
  for (const auto& [stream, shape] : sample.further_latents)
    list.push_back(diffusion::normal_noise(models::stream_key(trajectory_key(sample).value(), stream), shape));
  return pipeline::TensorLists{list};
}

std::vector<Input> imitation_inputs(const models::OptionValues&) {
  return {{kTrajectoryNoise, true, trajectory_noise_content, load_trajectory_noise},
          {kFurtherNoise, true, trajectory_noise_content, load_further_noise}};
}

/// Makes the encoders, the walk of the model as it was before training, and one step of the student on it.
pipeline::Units imitation_units(const ObjectiveSettings& settings, const Subject& subject) {
  auto groups = subject.units();
  auto units = groups.encode_prompt;
  auto add = [&](const pipeline::Units& more) { units.insert(units.end(), more.begin(), more.end()); };
  add(groups.encode_image);  // which leads to the loss where the family weighs it by what a picture is
  add(groups.encode_references);
  add(groups.encode_size);
  std::set<std::string> negative;
  if (imitation_options_of(settings.own).teacher_cfg_scale != 1) {
    add(pipeline::twins(groups.encode_prompt, {.prefix = kNegative, .values = {"prompt"}}));
    for (const auto& name : drawing::denoiser_of(*subject, (*subject).experts_there(), drawing::UnitsFor::training).condition_names()) {
      if (std::ranges::any_of(groups.encode_prompt, [&](const auto& unit) { return contains(unit.writes, name); })) negative.insert(name);
    }
  }
  add({walk_unit(*subject, settings, negative)});
  auto reference = reference_units(units, subject);
  bool has_own = pipeline::has_unit(reference, kReference + "walk");
  add(reference);
  add({place_unit(*subject, settings, has_own ? kReference : "")});
  add(groups.denoise);
  add(loss_units(*subject, settings.sample_loss, "loss", {.judged = Judged::drawings}));
  return pipeline::leading_to(units, {"loss"});
}

class Imitation final : public Objective {
 public:
  Imitation(ObjectiveSettings settings, const Subject& subject)
      : seed_(settings.seed),
        own_(imitation_options_of(settings.own)),
        model_(*subject),
        experts_(subject.chosen.experts),
        units_(imitation_units(settings, subject)) {
    if (settings.loss.weighting == "default") settings.loss.weighting = "uniform";
    weighing_ = make_sft(settings, subject);
  }

  pipeline::Units units() const override { return units_; }

  pipeline::Values draws(const DrawRequest& request) const override {
    const auto& sample = *request.samples.at(0);
    auto choices = steps_of(experts_, sample);
    auto drawn = [&](const data::Visit& visit, Purpose purpose) {
      return choices.at(CounterRandom(key_of(visit, seed_, purpose)).below(choices.size()));
    };
    if (experts_.size() > 1) {  // all of a batch are one expert's
      auto lead = share_of(drawn(request.lead, Purpose::expert), sample);
      choices = steps_of({model_.names().experts.at(model_.names().expert_at(lead))}, sample);
    }
    std::vector<int64_t> steps;
    for (const auto& visit : request.visits) steps.push_back(drawn(visit, Purpose::timestep));
    return draws_of(steps, sample);
  }
  /// Held-out samples are judged on each of the student's steps.
  int64_t num_held_out_draws() const override { return own_.num_student_steps; }
  pipeline::Values held_out_draws(const DrawRequest& request, int64_t number) const override {
    const auto choices = steps_of(experts_, *request.samples.at(0));
    return draws_of({choices.at(static_cast<size_t>(number) % choices.size())}, *request.samples.at(0));
  }

  // Losses count as in supervised fine-tuning at these times: all equally, unless weights are asked for.
  void complete(pipeline::Values& draws) const override { weighing_->complete(draws); }
  std::vector<Counted> counted(const pipeline::Values& draws) const override { return weighing_->counted(draws); }

 private:
  std::vector<double> times_of(const Sample& sample) const {
    return student_times(own_, model_.process(), model_.latent_space().num_tokens(sample.latent_shape));
  }
  double share_of(int64_t step, const Sample& sample) const {
    return model_.process().share_of(times_of(sample).at(static_cast<size_t>(step)));
  }
  /// Returns the student's steps that begin where one of these experts predicts.
  std::vector<int64_t> steps_of(const std::vector<models::Expert>& experts, const Sample& sample) const {
    std::vector<int64_t> steps;
    const auto times = times_of(sample);
    for (int64_t step = 0; step < own_.num_student_steps; ++step) {
      auto share = model_.process().share_of(times.at(static_cast<size_t>(step)));
      if (std::ranges::any_of(experts, [&](const auto& expert) { return expert.stretch.has(share); })) steps.push_back(step);
    }
    if (steps.empty())
      config_error("train", "none of the student's {} steps begins where the trained expert predicts; take more", times.size() - 1);
    return steps;
  }
  pipeline::Values draws_of(const std::vector<int64_t>& steps, const Sample& sample) const {
    const auto& process = model_.process();
    auto times = times_of(sample);
    std::vector<double> time;
    for (auto step : steps) time.push_back(times.at(static_cast<size_t>(step)));
    return {{"trajectory_step", at::tensor(steps)}, {process.time_name(), at::tensor(time, at::TensorOptions().dtype(at::kFloat))}};
  }

  uint64_t seed_;
  ImitationOptions own_;
  models::Model& model_;
  std::vector<models::Expert> experts_;
  pipeline::Units units_;
  std::unique_ptr<Objective> weighing_;
};

void check_imitation(const RunForObjective& run) {
  auto own = imitation_options_of(run.own);
  if (own.num_teacher_steps < own.num_student_steps)
    config_error("train", "teacher_num_inference_steps {} is less than the student's {}; the teacher takes at least as many",
                 own.num_teacher_steps, own.num_student_steps);
  if (run.augments || run.draws_latents || run.noise_offset != 0)
    config_error("train",
                 "trajectory_imitation starts from noise alone and takes of a picture its size; take random_crop, random_flip, latents and "
                 "noise_offset out");
  if (run.replays) config_error("train", "trajectory_imitation has noise and times of its own; take replay out");
}

std::string imitation_fingerprint(const models::OptionValues& values) {
  auto own = imitation_options_of(values);
  return fmt::format("{} {} {} {}", own.num_student_steps, own.num_teacher_steps, own.teacher_cfg_scale, own.spacing);
}

std::unique_ptr<Objective> make_imitation(const ObjectiveSettings& settings, const Subject& subject) {
  subject.model->process().sampler({.times = {1, 0}});  // refuses a model that does not flow
  return std::make_unique<Imitation>(settings, subject);
}

}  // namespace

const ObjectiveKind& trajectory_imitation() {
  static const ObjectiveKind kind{.word = "trajectory_imitation",
                                  .drawn = {{"trajectory_step"}},
                                  .inputs = imitation_inputs,
                                  .options = imitation_options(),
                                  .check = check_imitation,
                                  .fingerprint = imitation_fingerprint,
                                  .make = make_imitation};
  return kind;
}

}  // namespace burnish::train
