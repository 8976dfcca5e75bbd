#include "train/subject/chosen_layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "adapters/adapter_config.h"
#include "adapters/adapter_tensors.h"
#include "adapters/widen.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/numbers_by_name.h"
#include "base/random_key.h"
#include "base/text.h"
#include "io/checkpoint_files.h"
#include "train/subject/checkpoint_agreement.h"

namespace burnish::train {

namespace {

int64_t whole_rank(double rank) {
  if (rank != std::floor(rank)) config_error("train", "lora_rank_groups must hold whole numbers, not {}", rank);
  return static_cast<int64_t>(rank);
}

/// Settles layers, step by step.
class LayerChoice {
 public:
  LayerChoice(Chosen& chosen, models::Model& model, ComponentTrees& trees, loras::AdaptersByComponent checkpoint)
      : settings_(chosen.settings), model_(model), trees_(trees), chosen_(chosen), checkpoint_(std::move(checkpoint)) {}
  void choose_layers();

 private:
  void check_all_targets_matched();
  void choose_ranks();
  void choose_fused();
  void check_layout() const;
  void read_checkpoint();
  void pad(Chosen::Adapters& adapters) const;
  std::vector<std::string> targeted(const std::string& component);

  const TrainedSettings& settings_;
  models::Model& model_;
  ComponentTrees& trees_;
  Chosen& chosen_;
  loras::AdaptersByComponent checkpoint_;  ///< what lora_checkpoint holds
};

/// The layers that are to carry adapters when no file decides it.
std::vector<std::string> LayerChoice::targeted(const std::string& component) {
  const auto& [skeleton, names] = trees_.of(component);
  return adapters::match_targets(*skeleton, targets_of(settings_, model_, component), names);
}

void LayerChoice::read_checkpoint() {
  auto& by_component = checkpoint_;
  if (chosen_.adapted.empty()) {
    for (const auto& [component, weights] : by_component) add_adapters(chosen_, component);
  }
  auto asked = settings_.adapter;
  // The header says the alpha also where a format has the scale multiplied into the weights.
  auto metadata = io::TensorSource::open({adapters::find_adapter(checkpoint_files(settings_.lora_checkpoint).front()).tensors}).metadata();
  auto given = settings_.given;
  if (metadata["alpha"] == fmt::format("{}", asked.alpha)) {
    asked.alpha = 0;
    std::erase(given, "lora_alpha");
  }
  for (auto& adapters : chosen_.adapted) {
    if (!by_component.contains(adapters.component))
      config_error("train", "lora_base_model names {}, and {} holds no adapters of it; take it out, or give another file",
                   adapters.component, settings_.lora_checkpoint);
    adapters.weights = std::move(by_component.at(adapters.component));
    by_component.erase(adapters.component);
    adapters::check_trainable(*trees_.of(adapters.component).skeleton, adapters.weights, settings_.lora_checkpoint);
    for (const auto& w : adapters.weights) adapters.paths.push_back(w.path);
    check_agreement(asked, given, adapters.weights, settings_.lora_checkpoint);
    bool asks_rank = contains(given, "lora_rank") || asked.rank != adapters::AdapterOptions().rank;
    if (asks_rank) pad(adapters);
    if (settings_.targets) check_same_layers(targeted(adapters.component), adapters.paths, adapters.component, settings_.lora_checkpoint);
  }
  if (!by_component.empty())
    config_error("train", "{} holds adapters of {}, which lora_base_model leaves out; name it too", settings_.lora_checkpoint,
                 by_component.begin()->first);
  chosen_.rank = adapters::rank_of(chosen_.adapted[0].weights[0]);
}

/// Gives the factors of a file the larger rank that is asked for; their scales stay.
void LayerChoice::pad(Chosen::Adapters& adapters) const {
  auto rank = settings_.adapter.rank;
  auto is_smaller = [&](const auto& w) { return adapters::has_rank_to_widen(w) && adapters::rank_of(w) < rank; };
  auto count = std::ranges::count_if(adapters.weights, is_smaller);
  if (count == 0) return;
  auto first = std::ranges::find_if(adapters.weights, is_smaller);
  info("{} on {} layers of {} padded from rank {} to {}: what they add stays, so alpha is {:.6g} now", adapters::kind_name(first->kind),
       count, adapters.component, adapters::rank_of(*first), rank, first->scale * static_cast<double>(rank));
  adapters.weights = adapters::widened(std::move(adapters.weights), rank, settings_.seed ^ mix64(adapters.component));
}

void LayerChoice::choose_layers() {
  chosen_.rank = settings_.adapter.rank;
  for (const auto& whole : chosen_.whole) {
    if (whole.path.empty() || !model_.components().has(whole.component)) continue;
    auto slots = trees_.of(whole.component).skeleton->parameters();
    if (std::none_of(slots.begin(), slots.end(), [&](const auto& slot) { return lies_below(slot.first, whole.path); }))
      config_error("train", "trainable_models names {}, and {} has no such part", whole.name, whole.component);
  }
  if (!settings_.lora_checkpoint.empty()) return read_checkpoint();
  for (auto& adapters : chosen_.adapted) {
    if (model_.components().has(adapters.component)) adapters.paths = targeted(adapters.component);
  }
  if (settings_.targets) check_all_targets_matched();
  choose_ranks();
  choose_fused();
  check_layout();
}

/// A name that is misspelled must not look like layers that train.
void LayerChoice::check_all_targets_matched() {
  std::map<std::string, std::string> nearest;  // of the names that match in no component so far
  bool is_first = true;
  for (const auto& adapters : chosen_.adapted) {
    if (!model_.components().has(adapters.component)) continue;
    const auto& [skeleton, names] = trees_.of(adapters.component);
    auto unmatched = adapters::unmatched_targets(*skeleton, *settings_.targets, names);
    if (is_first) {
      for (const auto& name : unmatched) nearest[name] = "";
    }
    std::erase_if(nearest, [&](const auto& item) { return !contains(unmatched, item.first); });
    for (auto& [name, near] : nearest) {
      if (near.empty()) near = adapters::nearest_target(*skeleton, name, names);
    }
    is_first = false;
  }
  if (nearest.empty()) return;
  const auto& [name, near] = *nearest.begin();
  config_error("train", "lora_target_modules names '{}', and no layer is called so{}; correct it, or take it out", name,
               near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
}

void LayerChoice::choose_ranks() {
  NumbersByName ranks("train", "lora_rank_groups", settings_.rank_groups, 1), alphas("train", "lora_alpha_groups", settings_.alpha_groups);
  for (auto& adapters : chosen_.adapted) {
    for (const auto& path : adapters.paths) {
      auto& options = adapters.options[path] = settings_.adapter;
      auto full = adapters.component + "." + path;
      if (auto rank = ranks.find(full)) options.rank = whole_rank(*rank);
      if (auto alpha = alphas.find(full)) options.alpha = *alpha;
    }
  }
  ranks.check_all_fitted();
  alphas.check_all_fitted();
}

/// After choose_ranks: layers that share an adapter have one rank.
void LayerChoice::choose_fused() {
  for (auto& adapters : chosen_.adapted) {
    if (!model_.components().has(adapters.component)) continue;
    const auto& [skeleton, names] = trees_.of(adapters.component);
    for (const auto& name : adapters::fused_targets(*skeleton, targets_of(settings_, model_, adapters.component), names)) {
      adapters.fused.push_back(model_.names().of(adapters.component).foreign_layer(name));
      const auto& layers = adapters.fused.back();
      const auto& first = adapters.options.at(layers.at(0));
      for (const auto& layer : layers) {
        const auto& own = adapters.options.at(layer);
        if (own.rank != first.rank || own.alpha != first.alpha)
          config_error("train",
                       "lora_target_modules names {}, of which {} and {} share an adapter, and they have different ranks or alphas by "
                       "groups; name the whole of it there, or the single layers as targets",
                       name, layers[0], layer);
      }
    }
  }
}

/// Lays out adapters of rank 1 on layers without weights: what cannot be written is said before anything is computed. Ranks that a layout
/// cannot hold side by side are said when the adapters themselves are there (attach).
void LayerChoice::check_layout() const {
  if (settings_.layout == adapters::Layout::automatic || settings_.adapter.type == "full") return;
  for (const auto& a : chosen_.adapted) {
    if (!model_.components().has(a.component)) continue;
    auto skeleton = model_.components().skeleton(a.component);  // of its own, since it is changed
    auto small = settings_.adapter;
    small.rank = 1;
    if (small.type == "dora") small.type = "lora";  // a magnitude needs the weight
    auto adapted = adapters::attach(
        *skeleton, [&](const std::string&) { return small; }, a.paths, 0, nullptr, a.fused, c10::Device(c10::kCPU));
    adapters::adapter_tensors(adapted, loras::layer_prefixes(model_, a.component), at::kFloat, settings_.layout);
  }
}

}  // namespace

std::vector<std::string> checkpoint_files(const std::string& text) {
  std::error_code ignored;
  return std::filesystem::exists(text, ignored) ? std::vector{text} : split_list(text);
}

void add_adapters(Chosen& chosen, const std::string& component) {
  if (chosen.whole_components().contains(component))
    config_error(
        "train",
        "{} is to train whole (trainable_models) and under an adapter (lora_base_model or lora_checkpoint); take it out of one of them",
        component);
  for (const auto& other : chosen.adapted) {
    if (other.component == component) config_error("train", "lora_base_model names {} twice", component);
  }
  chosen.adapted.push_back({.component = component});
}

void choose_layers(Chosen& chosen, models::Model& model, ComponentTrees& trees, loras::AdaptersByComponent checkpoint) {
  LayerChoice(chosen, model, trees, std::move(checkpoint)).choose_layers();
}

}  // namespace burnish::train
