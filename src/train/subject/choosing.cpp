#include "train/subject/choosing.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "loras/lora_file.h"
#include "train/subject/chosen_layers.h"
#include "train/subject/experts_meant.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

/// The experts of these names.
std::vector<models::Expert> experts_called(const std::vector<std::string>& names, const models::Model& model) {
  const auto& all = model.names().experts;
  std::vector<std::string> known;
  for (const auto& expert : all) known.push_back(expert.name);
  for (const auto& name : names) {
    if (all.size() == 1)
      config_error("train", "experts {} is for models of several experts, and this one has a single denoiser; take it out", name);
    if (!contains(known, name)) config_error("train", "experts names '{}', and this model has {}", name, join(known));
  }
  std::vector<models::Expert> experts;
  std::ranges::copy_if(all, std::back_inserter(experts), [&](const auto& expert) { return contains(names, expert.name); });
  return experts;
}

/// The experts that names of a run's parts may mean: those that it names, or else all whose files are there.
std::vector<models::Expert> experts_meant(const TrainedSettings& settings, const models::Model& model) {
  return settings.experts.empty() ? model.experts_there() : experts_called(settings.experts, model);
}

/// The settings with the parts that their names mean, of these experts (meant_by).
TrainedSettings with_parts_of(const std::vector<models::Expert>& experts, TrainedSettings settings, const models::Model& model) {
  for (auto* names : {&settings.whole, &settings.adapted}) {
    std::vector<std::string> all;
    for (const auto& name : *names) {
      const bool is_repeated = std::ranges::count(*names, name) > 1;  // which is refused, unlike "dit,dit_2"
      for (auto& part : meant_by(name, model, experts)) {
        if (is_repeated || !contains(all, part)) all.push_back(std::move(part));
      }
    }
    *names = all;
  }
  std::vector<std::pair<std::string, double>> rates;
  for (const auto& [name, rate] : settings.component_rates) {
    for (const auto& part : meant_by(name, model, experts)) rates.emplace_back(part, rate);
  }
  settings.component_rates = rates;
  for (auto* numbers : {&settings.rank_groups, &settings.alpha_groups}) *numbers = numbers_meant_by(*numbers, model, experts);
  return settings;
}

/// Settles what trains: what is named, and then which layers that is.
/// Tells whether no option says that others than this expert train.
bool may_train(const models::Expert& expert, const TrainedSettings& settings) {
  if (!settings.experts.empty()) return contains(settings.experts, expert.name);
  auto names = settings.whole;
  names.insert(names.end(), settings.adapted.begin(), settings.adapted.end());
  return names.empty() || std::ranges::any_of(names, [&](const auto& name) { return pipeline::component_of(name) == expert.component; });
}

/// The beginning of a path that has the names of `pattern`, in which * stands for any one name; "" where it has others.
std::string part_like(const std::string& path, const std::string& pattern) {
  const auto names = split_list(path, '.'), wanted = split_list(pattern, '.');
  std::string part;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= names.size() || (wanted[i] != "*" && wanted[i] != names[i])) return "";
    part += (i == 0 ? "" : ".") + names[i];
  }
  return part;
}

class Choosing {
 public:
  Choosing(const TrainedSettings& settings, models::Model& model);
  Chosen take() { return std::move(chosen_); }

 private:
  void read_checkpoint_files(const TrainedSettings& given);
  void leave_to_checkpoint(const TrainedSettings& given);
  void check_checkpoint_is_run() const;
  const models::Expert* alone() const;
  std::vector<models::Expert> choose_experts() const;
  void add_whole(const std::string& name);
  std::vector<std::string> paths_called(const std::string& component, const std::string& name);
  void check_rates() const;
  void add_companions();
  void note_whole_parameters();

  TrainedSettings settings_;
  models::Model& model_;
  ComponentTrees trees_;
  Chosen chosen_;
  loras::AdaptersByComponent checkpoint_;  ///< what lora_checkpoint holds
};

Choosing::Choosing(const TrainedSettings& settings, models::Model& model)
    : settings_(with_parts_of(experts_meant(settings, model), settings, model)), model_(model), trees_(model) {
  bool from_file = !settings.lora_checkpoint.empty() && settings_.adapted.empty();  // then the file decides
  if (from_file && !settings_.whole.empty())
    config_error("train",
                 "trainable_models and lora_checkpoint are given, and lora_base_model does not say what carries the adapters; name it, or "
                 "give one of them");
  read_checkpoint_files(settings);
  leave_to_checkpoint(settings);
  chosen_.settings = settings_;
  chosen_.experts = choose_experts();
  chosen_.components = pipeline::components_of(training_units(model, chosen_.experts));
  check_checkpoint_is_run();
  for (const auto& name : settings_.whole) add_whole(name);
  chosen_.words = choose_words(settings_.words, model, chosen_.components);
  for (const auto& name : settings_.adapted) add_adapters(chosen_, component_called(name, chosen_.components));
  for (const auto& expert : chosen_.experts) {
    if (settings.from_scratch && !chosen_.whole_components().contains(expert.component))
      config_error("train", "init random needs trainable_models {}; a LoRA on random weights teaches nothing", expert.component);
  }
  if (chosen_.whole.empty() && chosen_.adapted.empty() && !from_file && chosen_.words.empty()) {
    for (const auto& expert : chosen_.experts) add_adapters(chosen_, expert.component);
  }
  check_rates();
  add_companions();
  choose_layers(chosen_, model_, trees_, std::move(checkpoint_));
  note_whole_parameters();
}

/// Returns the expert that trains alone; null where several do.
const models::Expert* Choosing::alone() const {
  const models::Expert* found = nullptr;
  for (const auto& expert : model_.names().experts) {
    if (!may_train(expert, settings_) || !model_.components().has(expert.component)) continue;
    if (found != nullptr) return nullptr;
    found = &expert;
  }
  return found;
}

/// Reads the files that are named, and of a pair for two experts, of which one is named, also the other, unless options name the first
/// expert's part and not the other's.
void Choosing::read_checkpoint_files(const TrainedSettings& given) {
  if (settings_.lora_checkpoint.empty()) return;
  auto files = checkpoint_files(settings_.lora_checkpoint);
  for (const auto& [path, expert, beside] : loras::siblings(model_, files)) {
    if (!may_train(expert, given) || !model_.components().has(expert.component)) continue;
    info("{}: {} lies beside it, for another expert, which starts from it", files[beside], path);
    files.push_back(path);
  }
  for (const auto& file : files) {
    for (auto& [component, weights] : loras::read(model_, file, loras::Absent::refused, alone())) {
      if (!checkpoint_.emplace(component, std::move(weights)).second)
        config_error("train", "two files of lora_checkpoint adapt {}; name one of them", component);
    }
  }
}

/// Has a name that may mean several experts mean those of the file to start from, where options do not say which.
void Choosing::leave_to_checkpoint(const TrainedSettings& given) {
  if (!given.experts.empty()) return;
  std::vector<models::Expert> experts;
  std::ranges::copy_if(model_.experts_there(), std::back_inserter(experts),
                       [&](const auto& expert) { return checkpoint_.contains(expert.component); });
  if (!experts.empty()) settings_ = with_parts_of(experts, given, model_);
}

/// Refuses adapters of what the run does not compute: they would begin from a file and never train.
void Choosing::check_checkpoint_is_run() const {
  for (const auto& [component, weights] : checkpoint_) {
    if (contains(chosen_.components, component)) continue;
    const auto* of = model_.names().expert_of(component);
    config_error("train",
                 "lora_checkpoint {} adapts {}{}, which this run does not train; give the file of what trains ({}), or name others",
                 settings_.lora_checkpoint, component, of != nullptr && !of->name.empty() ? fmt::format(" ({})", of->name) : "",
                 chosen_.experts.front().name.empty() ? chosen_.experts.front().component : chosen_.experts.front().name);
  }
}

/// Those that options name, by themselves or as components that train; else those that adapters of a file to start from are for; else all
/// whose files are there. What guidance leads away from trains where it is named, alone.
std::vector<models::Expert> Choosing::choose_experts() const {
  if (!settings_.experts.empty()) return experts_called(settings_.experts, model_);
  auto names = settings_.whole;
  names.insert(names.end(), settings_.adapted.begin(), settings_.adapted.end());
  auto is_named = [&](const models::Expert& expert) {
    auto of_expert = [&](const auto& name) {
      return pipeline::component_of(name) == expert.component || pipeline::component_of(name) == expert.component + "_1";
    };
    return std::ranges::any_of(names, of_expert) || (names.empty() && checkpoint_.contains(expert.component));
  };
  std::vector<models::Expert> experts;
  std::ranges::copy_if(model_.names().experts, std::back_inserter(experts), is_named);
  if (const auto& away = model_.names().away; away && is_named(*away)) {
    if (!experts.empty())
      config_error("train", "{} predicts what guidance leads away from and has a loss of its own; train it and {} in two runs",
                   away->component, experts.front().component);
    return {*away};
  }
  return experts.empty() ? model_.experts_there() : experts;
}

void Choosing::add_whole(const std::string& name) {
  auto dot = name.find('.');
  auto component = component_called(name.substr(0, dot), chosen_.components);
  for (const auto& path : dot == name.npos ? std::vector<std::string>{""} : paths_called(component, name.substr(dot + 1))) {
    auto full = path.empty() ? component : component + "." + path;
    for (const auto& other : chosen_.whole) {
      if (pipeline::overlap(other.name, full))
        config_error("train", "trainable_models names {} and {}, which are the same weights", other.name, full);
    }
    chosen_.whole.push_back({full, component, path});
  }
}

/// Our paths of what of a component is called so: a part of it by its path, in which * stands for any one name, or else layers by a whole
/// name that targets know them by.
std::vector<std::string> Choosing::paths_called(const std::string& component, const std::string& name) {
  const auto& [skeleton, names] = trees_.of(component);
  if (skeleton && name.find('*') != name.npos) {
    std::vector<std::string> parts;
    for (const auto& [path, slot] : skeleton->parameters()) {
      if (auto part = part_like(path, name); !part.empty() && !contains(parts, part)) parts.push_back(part);
    }
    return parts.empty() ? std::vector{name} : parts;
  }
  auto is_there = [&](const auto& slot) { return lies_below(slot.first, name); };
  if (!skeleton || std::ranges::any_of(skeleton->parameters(), is_there)) return {name};
  std::vector<std::string> paths;
  for (const auto& [path, layer] : adapters::all_layers(*skeleton)) {
    if (contains(names(path), name)) paths.push_back(path);
  }
  return paths.empty() ? std::vector{name} : paths;
}

void Choosing::check_rates() const {
  for (const auto& [name, rate] : settings_.component_rates) {
    if (name.empty()) continue;
    auto component = component_called(name, chosen_.components);
    bool trains = chosen_.whole_components().contains(component) ||
                  std::any_of(chosen_.adapted.begin(), chosen_.adapted.end(), [&](const auto& a) { return a.component == component; });
    if (!trains && settings_.lora_checkpoint.empty())
      config_error("train",
                   "text_encoder_lr gives a learning rate for {}, which does not train; name it in lora_base_model or trainable_models",
                   name);
  }
}

/// Their adapters are on the denoiser's layers, and begin as the denoiser's where those begin from a file.
void Choosing::add_companions() {
  for (const auto& companion : settings_.companions) {
    chosen_.components.push_back(companion.name);
    if (companion.trains == Companion::Trains::whole) chosen_.whole.push_back({companion.name, companion.name, ""});
    if (companion.trains != Companion::Trains::adapter) continue;
    const auto& denoiser = chosen_.experts.front().component;
    if (auto it = checkpoint_.find(denoiser); it != checkpoint_.end()) {
      auto weights = it->second;
      for (auto& one : weights) {
        for (auto& [name, value] : one.parameters) value = value.clone();
        if (one.magnitude.m.defined()) one.magnitude.m = one.magnitude.m.clone();
      }
      checkpoint_[companion.name] = std::move(weights);
      if (chosen_.adapted.empty()) add_adapters(chosen_, denoiser);
    }
    add_adapters(chosen_, companion.name);
  }
}

void Choosing::note_whole_parameters() {
  for (const auto& whole : chosen_.whole) {
    const auto& skeleton = trees_.of(whole.component).skeleton;
    if (!skeleton) continue;
    for (const auto& [path, slot] : skeleton->parameters()) {
      if (lies_below(path, whole.path)) chosen_.whole_parameters.push_back(whole.component + "." + path);
    }
  }
}

}  // namespace

Chosen choose(const TrainedSettings& settings, models::Model& model) { return Choosing(settings, model).take(); }

std::string targets_outside(const std::string& part, const TrainedSettings& settings, models::Model& model) {
  auto component = pipeline::component_of(part);
  if (!settings.lora_checkpoint.empty() || !model.components().has(component)) return "";
  auto skeleton = model.components().skeleton(part);
  auto names = [&](const std::string& path) { return model.names().of(component).target_names(path); };
  return join(adapters::unmatched_targets(*skeleton, targets_of(settings, model, component), names), ",");
}

}  // namespace burnish::train
