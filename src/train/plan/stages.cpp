#include "train/plan/stages.h"

#include <algorithm>

#include "base/input_error.h"
#include "nn/token_shares.h"
#include "train/step/blocks_on_disk.h"

namespace burnish::train {

std::string part_in_the_way(const pipeline::Schedule& schedule, const Subject& subject) {
  const auto& components = subject.model->components();
  if (!schedule.ahead.units.empty() || !subject.first_blocks.empty()) return "";
  for (const auto& part : schedule.trained) {
    const auto component = pipeline::component_of(part);
    auto others = schedule.trained;
    for (const auto& each : components.parts(component)) others.insert(each);
    others.erase(part);
    if (others.empty() || !components.has(component)) continue;
    if (!pipeline::schedule(schedule.units, schedule.inputs, others, schedule.policy, schedule.padded).ahead.units.empty()) return part;
  }
  return "";
}

namespace {

/// A layer that trains, of a part of a component.
std::string trained_layer(const std::string& part, const Subject& subject) {
  for (const auto& [path, slot] : subject.model->components().skeleton(part)->parameters()) {
    if (subject.chosen.trains(pipeline::component_of(part), path)) return path.substr(0, path.rfind('.'));
  }
  return part;
}

/// Checks that what is to be computed ahead in any case can be.
void check_ahead(const pipeline::Schedule& schedule, const Subject& subject) {
  if (schedule.ahead.units.empty() && subject.first_blocks.empty()) {
    if (auto part = part_in_the_way(schedule, subject); !part.empty())
      config_error("train",
                   "precompute_timesteps on finds nothing to compute ahead: what sees sample and timestep alone trains, {} for one; take "
                   "such layers out of what trains (lora_target_modules), or leave it at auto",
                   trained_layer(part, subject));
    config_error("train",
                 "precompute_timesteps on finds nothing to compute ahead: no layers of this model see sample and timestep alone and are "
                 "frozen; leave it at auto");
  }
  if (subject.first_blocks.empty()) return;
  for (const auto& model : pipeline::models_of(schedule.live.units)) {
    if (!pipeline::is_trained(model, {subject.first_blocks})) continue;
    config_error("train",
                 "precompute_timesteps blocks: what the first blocks read is not known before training, because a text encoder or an "
                 "autoencoder trains or the denoiser reads its own output (direct_distill); leave it at auto");
  }
}

/// Checks that units with the weights which training begins with run before it.
void check_initial(const pipeline::Schedule& schedule, bool always_ahead) {
  for (const auto& unit : schedule.after_once()) {
    if (unit.weights != pipeline::Weights::initial || unit.models.empty()) continue;
    if (always_ahead && !pipeline::has_unit(schedule.live.units, unit.name)) continue;
    const auto trained =
        std::ranges::find_if(unit.models, [&](const auto& model) { return pipeline::is_trained(model, schedule.trained); });
    config_error("train",
                 "this objective compares with the model as it was before training, and {} trains whole, so that its predictions for every "
                 "visit have to be computed ahead: set precompute_timesteps on (precompute stays all), or train an adapter, which can be "
                 "switched off",
                 pipeline::component_of(trained == unit.models.end() ? unit.models[0] : *trained));
  }
}

void check_blocks_on_disk(const Settings& settings, const Subject& subject) {
  if (settings.step.memory.blocks_on_disk == 0) return;
  auto why = why_not_on_disk(subject, settings.model.options.dtype);
  if (why.empty()) return;
  config_error(
      "train",
      "blocks_on_disk reads frozen weights from their file as they are computed with, and {}; take it out, or have a file written of "
      "what the run holds (burnish convert, --weight_format)",
      why);
}

/// Checks that the denoiser's tokens can be shared out.
void check_sequence(const Settings& settings, const Subject& subject) {
  const auto num_places = settings.course.portion.num_places;
  if (num_places == 1) return;
  for (const auto& denoiser : subject.model->names().denoisers()) {
    const auto num_heads = nn::heads_to_share(*subject.model->components().skeleton(denoiser));
    if (num_heads == 0)
      config_error("train",
                   "sequence_size {} shares out the tokens of a transformer, and this model's {} has none (a UNet); take it out: more "
                   "processes take more samples",
                   num_places, denoiser);
    if (num_heads % num_places != 0)
      config_error("train", "sequence_size {} does not divide the {} heads of attention in the {}, which processes share out; take another",
                   num_places, num_heads, denoiser);
  }
}

void check_files(models::Model& model, const pipeline::Units& units) {
  for (const auto& component : pipeline::models_of(units)) model.components().check(component);
}

}  // namespace

pipeline::Schedule plan_schedule(const Settings& settings, const Subject& subject, const Objective& objective) {
  auto units = objective.units();
  auto labels = settings.data.inputs->labels(captions_vary(settings.data));
  for (const auto& stream : subject.model->latent_space().streams) {
    for (const auto& drawn : kDrawnByStream) labels[stream.value(drawn)].timestep = true;
    for (const auto& drawn : kLearnedByStream) labels[stream.value(drawn)] = {.timestep = true, .trained = true};
  }
  std::set<std::string> inputs;
  for (const auto& [name, of_input] : labels) inputs.insert(name);
  pipeline::check(units, inputs);

  bool trains = !settings.makes_cache;
  pipeline::Policy policy{{}, trains && settings.schedule.ahead != AheadChoice::off};
  if (settings.schedule.everything_live) {
    for (const auto& unit : units) policy.at_every_visit.insert(unit.name);
  }
  auto schedule = pipeline::schedule(units, labels, subject.chosen.models(*subject), policy, subject.model->names().padded_values(),
                                     objective.without_gradient());
  if (trains) check_initial(schedule, settings.schedule.always_ahead());
  if (trains && settings.schedule.always_ahead()) check_ahead(schedule, subject);
  if (trains) check_blocks_on_disk(settings, subject);
  if (trains) check_sequence(settings, subject);

  bool has_pictures = settings.data.from_pictures || !settings.data.held_out.subsets.empty();
  if (has_pictures) check_files(*subject, schedule.once.units);
  if (trains) check_files(*subject, schedule.after_once());
  return schedule;
}

}  // namespace burnish::train
