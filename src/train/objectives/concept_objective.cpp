// Sliders and erased concepts as objectives: what a concept's own predictions differ in is learned, of pictures or of latents that the
// model draws itself.
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/text.h"
#include "drawing/encode.h"
#include "train/objectives/concept.h"
#include "train/objectives/drawn_latents.h"
#include "train/objectives/objective.h"
#include "train/objectives/sample_loss.h"
#include "train/samples/draws.h"

namespace burnish::train {

namespace {

std::vector<Pass> passes_of(const Concept& learned, const DrawnLatents& drawn) {
  auto passes = passes_of(learned.terms);
  if (drawn.on && drawn.guidance != 1) passes.push_back({.prompt = kNegative, .before_training = true});
  return passes;
}

/// Puts the unit that draws latents behind what it reads, and before all that sees them.
pipeline::Units with_drawing(const pipeline::Units& units, const Subject& subject, const Concept& learned, const DrawnLatents& drawn) {
  std::set<std::string> written;
  for (const auto& unit : units) written.insert(unit.writes.begin(), unit.writes.end());
  auto under = [=](const std::string& prompt) {
    return [=](const std::string& name) {
      for (const auto& prefix : {learned.drawn_strength == 0 ? kReference + prompt : prompt, prompt}) {
        if (written.contains(prefix + name)) return prefix + name;
      }
      return name;
    };
  };
  auto draws = drawing_unit(*subject, drawn, {under(learned.drawn), under(kNegative), learned.drawn_strength});
  auto all = pipeline::leading_to(units, {draws.reads.begin(), draws.reads.end()});
  const auto before = all;
  all.push_back(std::move(draws));
  std::ranges::copy_if(units, std::back_inserter(all), [&](const auto& unit) { return !pipeline::has_unit(before, unit.name); });
  return all;
}

pipeline::Units concept_units(const ObjectiveSettings& settings, const Subject& subject, const Concept& learned) {
  const auto drawn = drawn_latents_of(settings.own);
  auto groups = subject.units();
  pipeline::Units units;
  auto add = [&](const pipeline::Units& more) { units.insert(units.end(), more.begin(), more.end()); };
  for (const auto* group : {&groups.encode_prompt, &groups.encode_image, &groups.encode_references, &groups.encode_size}) add(*group);
  if (!drawn.on) add(groups.add_noise);
  add(groups.denoise);
  units = with_passes(units, subject, passes_of(learned, drawn));
  if (drawn.on) units = with_drawing(units, subject, learned, drawn);
  add(weighing_units(*subject, settings.sample_loss));
  for (const auto& term : learned.terms) add(term_units(*subject, term));
  add({total_unit("loss", "loss", learned.terms)});
  return pipeline::leading_to(units, {"loss"});
}

class OfConcept final : public Objective {
 public:
  OfConcept(ObjectiveSettings settings, const Subject& subject, Concept learned)
      : seed_(settings.seed),
        drawn_(drawn_latents_of(settings.own)),
        learned_(std::move(learned)),
        model_(*subject),
        experts_(subject.chosen.experts),
        units_(concept_units(settings, subject, learned_)) {
    if (settings.loss.weighting == "default") settings.loss.weighting = "uniform";
    visits_ = make_sft(settings, subject);
  }

  pipeline::Units units() const override { return units_; }
  std::set<std::string> without_gradient() const override {
    auto names = units_without_gradient(units_, passes_of(learned_, drawn_));
    names.insert(kDrawLatents);
    return names;
  }
  std::vector<std::string> logged() const override { return names_of(learned_.terms); }

  pipeline::Values draws(const DrawRequest& request) const override {
    auto draws = visits_->draws(request);
    if (!drawn_.on) return draws;
    const auto choices = choices_of(*request.samples.at(0));
    CounterRandom random(key_of(request.lead, seed_, Purpose::timestep));  // all of a batch are drawn equally far
    return at_step(std::move(draws), request, choices.at(random.below(choices.size())));
  }
  int64_t num_held_out_draws() const override { return visits_->num_held_out_draws(); }
  pipeline::Values held_out_draws(const DrawRequest& request, int64_t number) const override {
    auto draws = visits_->held_out_draws(request, number);
    if (!drawn_.on) return draws;
    const auto choices = choices_of(*request.samples.at(0));
    return at_step(std::move(draws), request, choices.at(static_cast<size_t>(number * std::ssize(choices) / num_held_out_draws())));
  }
  void complete(pipeline::Values& draws) const override {
    if (drawn_.on) draws[kDrawnSteps] = steps_of(draws);
    visits_->complete(draws);
  }
  std::vector<Counted> counted(const pipeline::Values& draws) const override { return visits_->counted(draws); }

 private:
  /// Returns the numbers of steps after which what trains predicts the next one.
  std::vector<int64_t> choices_of(const Sample& sample) const {
    std::vector<int64_t> choices;
    for (int64_t steps = 0; steps < drawn_.sampler.num_steps; ++steps) {
      const auto share = model_.process().share_of(time_after_steps(drawn_, model_, sample, steps));
      if (std::ranges::any_of(experts_, [&](const auto& expert) { return expert.stretch.has(share); })) choices.push_back(steps);
    }
    if (choices.empty())
      config_error("train", "none of the {} steps of a drawing begins where the trained expert predicts; raise max_denoising_steps",
                   drawn_.sampler.num_steps);
    return choices;
  }

  /// Returns the number of steps of recorded draws, which say it beside the time.
  at::Tensor steps_of(const pipeline::Values& draws) const {
    const auto found = draws.find(kDrawnSteps);
    if (found == draws.end())
      data_error("train",
                 "the replay file holds no '{}' beside a time; record after how many steps of a drawing it is, or set concept_latents to "
                 "pictures",
                 kDrawnSteps);
    const auto steps = std::get<at::Tensor>(found->second).item<double>();
    if (steps != std::floor(steps) || steps < 0 || steps >= static_cast<double>(drawn_.sampler.num_steps))
      data_error("train", "'{}' of the replay file is {}; it must be a whole number below max_denoising_steps, which is {}", kDrawnSteps,
                 steps, drawn_.sampler.num_steps);
    return at::scalar_tensor(steps, at::kLong);
  }

  pipeline::Values at_step(pipeline::Values draws, const DrawRequest& request, int64_t num_steps) const {
    draws[kDrawnSteps] = at::scalar_tensor(num_steps, at::kLong);
    auto time = time_after_steps(drawn_, model_, *request.samples.at(0), num_steps);
    draws[model_.process().time_name()] = at::full({std::ssize(request.samples)}, time, at::kFloat);
    return draws;
  }

  uint64_t seed_;
  DrawnLatents drawn_;
  Concept learned_;
  models::Model& model_;
  std::vector<models::Expert> experts_;
  pipeline::Units units_;
  std::unique_ptr<Objective> visits_;
};

std::unique_ptr<Objective> make(const ObjectiveSettings& settings, const Subject& subject, Concept learned) {
  const auto drawn = drawn_latents_of(settings.own);
  if (drawn.on && !subject.chosen.whole.empty())
    config_error("train",
                 "latents that are drawn while weights train whole cannot be compared with what the model was before; train an adapter, or "
                 "set concept_latents to pictures");
  if (drawn.on && drawn.guidance != 1 && !drawing::guides_by_prompts(*subject))
    config_error("train", "guidance of this model leads away from what training does not run; set denoising_cfg_scale to 1");
  return std::make_unique<OfConcept>(settings, subject, std::move(learned));
}

std::unique_ptr<Objective> make_slider(const ObjectiveSettings& settings, const Subject& subject) {
  return make(settings, subject, slider_of(concepts_of(settings.own), settings.sample_loss));
}

std::unique_ptr<Objective> make_erasing(const ObjectiveSettings& settings, const Subject& subject) {
  return make(settings, subject, erased_of(concepts_of(settings.own), settings.sample_loss));
}

std::vector<models::Option> with_common(std::vector<models::Option> options) {
  for (const auto& more : {concept_options(), drawn_latents_options()}) options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::vector<OwnCondition> conditions() {
  auto all = concept_conditions();
  for (const auto& condition : drawn_latents_conditions()) all.push_back(condition);
  return all;
}

bool needs_pictures(const models::OptionValues& own) { return !drawn_latents_of(own).on; }

std::string slider_fingerprint(const models::OptionValues& own) { return concept_fingerprint(slider().options, own); }
std::string erasing_fingerprint(const models::OptionValues& own) { return concept_fingerprint(erase().options, own); }

}  // namespace

const ObjectiveKind& slider() {
  static const ObjectiveKind kind{.word = "slider",
                                  .drawn = {{kDrawnSteps}},
                                  .inputs = concept_inputs,
                                  .needs_pictures = needs_pictures,
                                  .shares = concept_shares,
                                  .options = with_common(slider_options()),
                                  .files = {kConceptConfig},
                                  .conditions = conditions(),
                                  .check = check_slider,
                                  .fingerprint = slider_fingerprint,
                                  .make = make_slider};
  return kind;
}

const ObjectiveKind& erase() {
  static const ObjectiveKind kind{.word = "erase",
                                  .needs_pictures = needs_pictures,
                                  .shares = concept_shares,
                                  .options = with_common(erasing_options()),
                                  .files = {kConceptConfig},
                                  .check = check_erasing,
                                  .fingerprint = erasing_fingerprint,
                                  .make = make_erasing};
  return kind;
}

}  // namespace burnish::train
