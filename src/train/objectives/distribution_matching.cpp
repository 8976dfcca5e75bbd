// Distribution matching distillation as an objective: steps of the student, and of what judges it, in turns.
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/random_key.h"
#include "base/text.h"
#include "drawing/encode.h"
#include "drawing/walk.h"
#include "models/model/columns.h"
#include "train/objectives/discriminator.h"
#include "train/objectives/dmd2.h"
#include "train/objectives/drawn_latents.h"
#include "train/objectives/objective.h"
#include "train/objectives/sample_loss.h"
#include "train/samples/draws.h"

namespace burnish::train {

namespace {

/// Returns the way in which the student draws.
DrawnLatents drawn_by(const Dmd2Options& options) {
  return {.on = true,
          .sampler = {.name = options.draws_noise ? "lcm" : "euler", .times = options.student_sigmas},
          .step_noise = options.draws_noise ? kStepNoise : ""};
}

/// Makes the encoders, those of no prompt under guidance, what draws as the student does, and the step.
pipeline::Units dmd2_units(const Subject& subject, const Dmd2Options& options) {
  auto groups = subject.units();
  auto units = groups.encode_prompt;
  auto add = [&](const pipeline::Units& more) { units.insert(units.end(), more.begin(), more.end()); };
  add(groups.encode_image);
  add(groups.encode_references);
  add(groups.encode_size);
  std::set<std::string> negative;
  if (options.teacher_cfg_scale != 1) {
    auto twins = pipeline::twins(groups.encode_prompt, {.prefix = kNegative, .values = {"prompt"}});
    add(twins);
    for (const auto& name : drawing::denoiser_of(*subject, subject.chosen.experts, drawing::UnitsFor::training).condition_names()) {
      if (std::ranges::any_of(twins, [&](const auto& unit) { return contains(unit.writes, kNegative + name); })) negative.insert(name);
    }
  }
  if (options.simulates) {
    auto same = [](const std::string& name) { return name; };
    add({drawing_unit(*subject, drawn_by(options), {same, same})});
  }
  add({dmd2_unit(subject, options, negative)});
  return pipeline::leading_to(units, {"loss"});
}

class DistributionMatching final : public Objective {
 public:
  DistributionMatching(const ObjectiveSettings& settings, const Subject& subject, Dmd2Options own)
      : seed_(settings.seed), own_(std::move(own)), space_(subject.model->latent_space()), units_(dmd2_units(subject, own_)) {}

  pipeline::Units units() const override { return units_; }
  std::set<std::string> without_gradient() const override { return {kDrawLatents}; }
  int64_t num_phases() const override { return own_.student_update_freq > 1 ? 2 : 1; }
  int64_t phase_of(int64_t step) const override { return step % own_.student_update_freq == 0 ? student_steps : critic_steps; }
  /// Clips the student's gradients by its own limit; those of other steps are clipped where the run asks for it.
  double max_grad_norm(int64_t phase, double of_run) const override {
    const auto own = phase == student_steps ? own_.student_max_grad_norm : 0;
    return own > 0 && of_run > 0 ? std::min(own, of_run) : std::max(own, of_run);
  }
  std::vector<std::string> logged() const override { return kDmd2Losses; }

  pipeline::Values draws(const DrawRequest& request) const override {
    const auto& sample = *request.samples.at(0);
    std::vector<double> starts, sigmas;
    for (const auto& visit : request.visits) {
      starts.push_back(own_.student_sigmas.at(student_step(own_.simulates ? request.lead : visit)));
      sigmas.push_back(matching_sigma(visit));
    }
    const auto options = at::TensorOptions().dtype(at::kFloat);
    pipeline::Values draws{{"sigma", at::tensor(starts, options)}, {kMatchingSigma, at::tensor(sigmas, options)}};
    if (request.names.contains(kRegularisingNoise))
      draws[kRegularisingNoise] = normal_noise(request.visits, sample.latent_shape, seed_, Purpose::noise, kRegularisingNoise);
    if (own_.simulates)
      draws[kDrawnSteps] = at::scalar_tensor(static_cast<int64_t>(student_step(request.lead)), at::TensorOptions().dtype(at::kLong));
    for (const auto& stream : space_.streams) {
      auto add = [&](const char* what, at::IntArrayRef shape, const std::string& of) {
        const auto name = stream.value(what);
        if (request.names.contains(name)) draws[name] = normal_noise(request.visits, shape, seed_, Purpose::noise, of);
      };
      const auto& shape = shape_of(sample, stream.name);
      add("noise", shape, stream.name);
      add(kMatchingNoise, shape, stream.value(kMatchingNoise));
      auto of_steps = shape;
      of_steps.insert(of_steps.begin(), std::ssize(own_.student_sigmas) - 2);
      add(kStepNoise, of_steps, stream.value(kStepNoise));
    }
    return draws;
  }

  /// A run of it has no held-out samples (check_dmd2).
  pipeline::Values held_out_draws(const DrawRequest& request, int64_t /*number*/) const override { return draws(request); }

 private:
  size_t student_step(const data::Visit& visit) const {
    return CounterRandom(key_of(visit, seed_, Purpose::timestep)).below(own_.student_sigmas.size() - 1);
  }
  double matching_sigma(const data::Visit& visit) const {
    CounterRandom random(mix64(key_of(visit, seed_, Purpose::timestep) ^ mix64(kMatchingSigma)));
    const auto& [least, most, is_logit_normal, mean, deviation] = own_.matching;
    const auto share = is_logit_normal ? 1 / (1 + std::exp(-(random.normal() * deviation + mean))) : random.uniform();
    return least + share * (most - least);
  }

  uint64_t seed_;
  Dmd2Options own_;
  const models::LatentSpace& space_;
  pipeline::Units units_;
};

void check_dmd2(const RunForObjective& run) {
  dmd2_options_of(run.own);
  if (run.loss_type != "l2") config_error("train", "dmd2 has losses of its own; take loss_type {} out", run.loss_type);
  if (run.is_weighed) config_error("train", "dmd2 has no loss weights by time; take loss_weighting and min_snr_gamma out");
  if (run.has_masks) config_error("train", "dmd2 judges whole pictures; take masked_loss out");
  if (run.noise_offset != 0) config_error("train", "dmd2 learns from noise as it is drawn with; take noise_offset out");
  if (run.validates)
    config_error("train",
                 "dmd2 has no loss that says how good a student is, and held-out samples are judged by one; take validation_metadata_path "
                 "out, and look at previews (preview_prompts)");
}

std::string dmd2_fingerprint(const models::OptionValues& own) { return given_options(dmd2_options(), own); }

std::vector<Companion> dmd2_companions(const models::OptionValues& own, bool trains_whole) {
  using Trains = Companion::Trains;
  const auto options = dmd2_options_of(own);
  const bool is_whole = options.fake_score == "whole" || (options.fake_score == "auto" && trains_whole);
  std::vector<Companion> companions;
  companions.push_back({.name = kTeacher, .shares_weights = !trains_whole});
  companions.push_back({.name = kFakeScore,
                        .trains = is_whole ? Trains::whole : Trains::adapter,
                        .learning_rate = options.fake_score_rate,
                        .of = trains_whole && !is_whole ? kTeacher : "",
                        .shares_weights = !is_whole});
  if (!options.adversarial.is_on()) return companions;
  companions.push_back({.name = kDiscriminator, .trains = Trains::whole, .learning_rate = options.adversarial.learning_rate});
  companions.back().recipe = [adversarial = options.adversarial](const models::Model& model, uint64_t seed) {
    const auto width = model.names().tokens ? model.names().tokens->width : 1;
    return discriminator_recipe(kDiscriminator, width, std::ssize(features_of(adversarial, model)), mix64(kDiscriminator) ^ seed);
  };
  return companions;
}

DrawnBy drawn_by_student(const models::OptionValues& own) {
  const auto sampler = drawn_by(dmd2_options_of(own)).sampler;
  return {sampler.name, sampler.times};
}

/// Refuses a run in which more trains than the denoiser and what judges it.
void check_trained(const Subject& subject) {
  auto trained = subject.chosen.whole_components();
  for (const auto& adapters : subject.chosen.adapted) trained.insert(adapters.component);
  for (const auto& component : trained) {
    if (component != (*subject).names().experts.front().component && subject.chosen.companion(component) == nullptr)
      config_error("train", "dmd2 trains the denoiser alone, and {} is to train as well; take it out of what trains", component);
  }
}

std::unique_ptr<Objective> make_dmd2(const ObjectiveSettings& settings, const Subject& subject) {
  auto own = dmd2_options_of(settings.own);
  auto& model = *subject;
  if (model.process().time_name() != "sigma")
    config_error("train", "dmd2 distils models that flow, and {} has discrete timesteps; choose direct_distill", model.names().variant);
  if (model.names().experts.size() > 1) config_error("train", "dmd2 distils one denoiser, and this model has more; choose sft");
  if (!written_maps(model, Judged::drawings).empty())
    config_error("train", "dmd2 judges whole latents, and of this model's not all count; choose sft");
  if (own.teacher_cfg_scale != 1 && !drawing::guides_by_prompts(model))
    config_error("train",
                 "dmd2_teacher_cfg_scale is {}, and guidance of this model leads away from what training does not run; set it to 1",
                 own.teacher_cfg_scale);
  check_trained(subject);
  if (own.adversarial.is_on()) {
    if (!model.names().tokens || find_read_as(models::columns_of(model), kReferences) != nullptr)
      config_error("train",
                   "dmd2's discriminator reads a picture's tokens behind blocks, which cannot be told {}; set dmd2_gan_loss_weight 0",
                   model.names().tokens ? "from those of reference pictures" : "in this model");
    if (model.components().has(model.names().experts.front().component)) own.adversarial.features = features_of(own.adversarial, model);
  }
  return std::make_unique<DistributionMatching>(settings, subject, std::move(own));
}

}  // namespace

const ObjectiveKind& dmd2() {
  static const ObjectiveKind kind{.word = "dmd2",
                                  .drawn = {{kMatchingSigma},
                                            {kMatchingNoise, /*is_noise=*/true},
                                            {kRegularisingNoise, /*is_noise=*/true},
                                            {kDrawnSteps},
                                            {kStepNoise, /*is_noise=*/true}},
                                  .options = dmd2_options(),
                                  .conditions = dmd2_conditions(),
                                  .check = check_dmd2,
                                  .fingerprint = dmd2_fingerprint,
                                  .companions = dmd2_companions,
                                  .drawn_by = drawn_by_student,
                                  .make = make_dmd2};
  return kind;
}

}  // namespace burnish::train
