#include "train/subject/chosen.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "adapters/adapter_config.h"
#include "adapters/adapter_tensors.h"
#include "adapters/widen.h"
#include "base/count.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/numbers_by_name.h"
#include "base/random_key.h"
#include "base/text.h"
#include "io/checkpoint_files.h"
#include "loras/lora_file.h"
#include "models/parts/word_units.h"
#include "train/subject/checkpoint_agreement.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

std::string targets_of(const TrainedSettings& settings, const models::Model& model, const std::string& component) {
  return settings.targets ? *settings.targets : model.names().of(component).lora_targets;
}

int64_t whole_rank(double rank) {
  if (rank != std::floor(rank)) config_error("train", "lora_rank_groups must hold whole numbers, not {}", rank);
  return static_cast<int64_t>(rank);
}

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

/// The files of lora_checkpoint: one, or one for each expert.
std::vector<std::string> checkpoint_files(const std::string& text) {
  std::error_code ignored;
  return std::filesystem::exists(text, ignored) ? std::vector{text} : split_list(text);
}

/// A component as its file headers have it.
struct Tree {
  std::unique_ptr<nn::Module> skeleton;  ///< null while the files are not there
  adapters::AliasesOf names;             ///< by which targets call a layer
};

/// The settings for a model of which the files of one expert alone are there, and not the first: as a component the first stands for it, as
/// in DiffSynth-Studio's commands, which call the expert of the run dit, and what is beside the first for what is beside it.
TrainedSettings for_expert_there(TrainedSettings settings, const models::Model& model) {
  const auto there = model.experts_there();
  const auto& first = model.names().experts.front().component;
  if (there.size() != 1 || there[0].component == first || !there[0].component.starts_with(first)) return settings;
  const auto ending = there[0].component.substr(first.size());
  auto is_there = [&](const std::string& name) { return model.names().components.contains(name) && model.components().has(name); };
  for (auto* names : {&settings.whole, &settings.adapted}) {
    for (auto& name : *names) {
      const auto component = pipeline::component_of(name);
      if (!is_there(component) && is_there(component + ending)) name.insert(component.size(), ending);
    }
  }
  return settings;
}

/// Settles what trains, step by step: what is named, which layers that is, and how their adapters look.
class Choosing {
 public:
  Choosing(const TrainedSettings& settings, models::Model& model);
  Chosen take() { return std::move(chosen_); }

 private:
  void read_checkpoint_files();
  bool may_train(const models::Expert& expert) const;
  std::vector<models::Expert> choose_experts() const;
  void add_whole(const std::string& name);
  std::vector<std::string> paths_called(const std::string& component, const std::string& name);
  void add_adapters(const std::string& component);
  void check_rates() const;
  void add_companions();
  void choose_layers();
  void check_all_targets_matched();
  void choose_ranks();
  void choose_fused();
  void check_layout() const;
  void read_checkpoint();
  void pad(Chosen::Adapters& adapters) const;
  std::vector<std::string> targeted(const std::string& component);
  const Tree& tree(const std::string& component);
  void note_whole_parameters();

  const TrainedSettings settings_;
  models::Model& model_;
  Chosen chosen_;
  loras::AdaptersByComponent checkpoint_;  ///< what lora_checkpoint holds
  std::map<std::string, Tree> trees_;      ///< each made once
};

Choosing::Choosing(const TrainedSettings& settings, models::Model& model)
    : settings_(for_expert_there(settings, model)), model_(model), chosen_{.settings = settings_} {
  bool from_file = !settings.lora_checkpoint.empty() && settings_.adapted.empty();  // then the file decides
  if (from_file && !settings_.whole.empty())
    config_error("train",
                 "trainable_models and lora_checkpoint are given, and lora_base_model does not say what carries the adapters; name it, or "
                 "give one of them");
  read_checkpoint_files();
  chosen_.experts = choose_experts();
  chosen_.components = pipeline::components_of(training_units(model, chosen_.experts));
  for (const auto& name : settings_.whole) add_whole(name);
  chosen_.words = choose_words(settings_.words, model, chosen_.components);
  for (const auto& name : settings_.adapted) add_adapters(component_called(name, chosen_.components));
  for (const auto& expert : chosen_.experts) {
    if (settings.from_scratch && !chosen_.whole_components().contains(expert.component))
      config_error("train", "init random needs trainable_models {}; a LoRA on random weights teaches nothing", expert.component);
  }
  if (chosen_.whole.empty() && chosen_.adapted.empty() && !from_file && chosen_.words.empty()) {
    for (const auto& expert : chosen_.experts) add_adapters(expert.component);
  }
  check_rates();
  add_companions();
  choose_layers();
  note_whole_parameters();
}

/// Tells whether no option says that others than this expert train.
bool Choosing::may_train(const models::Expert& expert) const {
  if (!settings_.experts.empty()) return contains(settings_.experts, expert.name);
  auto names = settings_.whole;
  names.insert(names.end(), settings_.adapted.begin(), settings_.adapted.end());
  return names.empty() || std::ranges::any_of(names, [&](const auto& name) { return pipeline::component_of(name) == expert.component; });
}

/// Reads the files that are named, and of a pair for two experts, of which one is named, also the other.
void Choosing::read_checkpoint_files() {
  if (settings_.lora_checkpoint.empty()) return;
  auto files = checkpoint_files(settings_.lora_checkpoint);
  for (const auto& [path, expert, beside] : loras::siblings(model_, files)) {
    if (!may_train(expert)) continue;
    info("{}: {} lies beside it, for another expert, which starts from it", files[beside], path);
    files.push_back(path);
  }
  for (const auto& file : files) {
    for (auto& [component, weights] : loras::read(model_, file)) {
      if (!checkpoint_.emplace(component, std::move(weights)).second)
        config_error("train", "two files of lora_checkpoint adapt {}; name one of them", component);
    }
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

/// Our paths of what of a component is called so: a part of it by its path, or else layers by a whole name that targets know them by.
std::vector<std::string> Choosing::paths_called(const std::string& component, const std::string& name) {
  const auto& [skeleton, names] = tree(component);
  auto is_there = [&](const auto& slot) { return lies_below(slot.first, name); };
  if (!skeleton || std::ranges::any_of(skeleton->parameters(), is_there)) return {name};
  std::vector<std::string> paths;
  for (const auto& [path, layer] : adapters::all_layers(*skeleton)) {
    if (contains(names(path), name)) paths.push_back(path);
  }
  return paths.empty() ? std::vector{name} : paths;
}

void Choosing::add_adapters(const std::string& component) {
  if (chosen_.whole_components().contains(component))
    config_error(
        "train",
        "{} is to train whole (trainable_models) and under an adapter (lora_base_model or lora_checkpoint); take it out of one of them",
        component);
  for (const auto& other : chosen_.adapted) {
    if (other.component == component) config_error("train", "lora_base_model names {} twice", component);
  }
  chosen_.adapted.push_back({.component = component});
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
      if (chosen_.adapted.empty()) add_adapters(denoiser);
    }
    add_adapters(companion.name);
  }
}

const Tree& Choosing::tree(const std::string& component) {
  auto [entry, is_new] = trees_.try_emplace(component);
  if (!is_new) return entry->second;
  if (model_.components().has(component)) entry->second.skeleton = model_.components().skeleton(component);
  entry->second.names = [&names = model_.names().of(component)](const std::string& path) { return names.target_names(path); };
  return entry->second;
}

/// The layers that are to carry adapters when no file decides it.
std::vector<std::string> Choosing::targeted(const std::string& component) {
  const auto& [skeleton, names] = tree(component);
  return adapters::match_targets(*skeleton, targets_of(settings_, model_, component), names);
}

void Choosing::read_checkpoint() {
  auto& by_component = checkpoint_;
  if (chosen_.adapted.empty()) {
    for (const auto& [component, weights] : by_component) add_adapters(component);
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
    adapters::check_trainable(*tree(adapters.component).skeleton, adapters.weights, settings_.lora_checkpoint);
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
void Choosing::pad(Chosen::Adapters& adapters) const {
  auto rank = settings_.adapter.rank;
  auto is_smaller = [&](const auto& w) { return adapters::has_rank_to_widen(w) && adapters::rank_of(w) < rank; };
  auto count = std::ranges::count_if(adapters.weights, is_smaller);
  if (count == 0) return;
  auto first = std::ranges::find_if(adapters.weights, is_smaller);
  info("{} on {} layers of {} padded from rank {} to {}: what they add stays, so alpha is {:.6g} now", adapters::kind_name(first->kind),
       count, adapters.component, adapters::rank_of(*first), rank, first->scale * static_cast<double>(rank));
  adapters.weights = adapters::widened(std::move(adapters.weights), rank, settings_.seed ^ mix64(adapters.component));
}

void Choosing::choose_layers() {
  chosen_.rank = settings_.adapter.rank;
  for (const auto& whole : chosen_.whole) {
    if (whole.path.empty() || !model_.components().has(whole.component)) continue;
    auto slots = tree(whole.component).skeleton->parameters();
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
void Choosing::check_all_targets_matched() {
  std::map<std::string, std::string> nearest;  // of the names that match in no component so far
  bool is_first = true;
  for (const auto& adapters : chosen_.adapted) {
    if (!model_.components().has(adapters.component)) continue;
    const auto& [skeleton, names] = tree(adapters.component);
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

void Choosing::choose_ranks() {
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
void Choosing::choose_fused() {
  for (auto& adapters : chosen_.adapted) {
    if (!model_.components().has(adapters.component)) continue;
    const auto& [skeleton, names] = tree(adapters.component);
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
void Choosing::check_layout() const {
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

void Choosing::note_whole_parameters() {
  for (const auto& whole : chosen_.whole) {
    const auto& skeleton = tree(whole.component).skeleton;
    if (!skeleton) continue;
    for (const auto& [path, slot] : skeleton->parameters()) {
      if (lies_below(path, whole.path)) chosen_.whole_parameters.push_back(whole.component + "." + path);
    }
  }
}

}  // namespace

Chosen choose(const TrainedSettings& settings, models::Model& model) { return Choosing(settings, model).take(); }

const Companion* Chosen::companion(const std::string& component) const {
  auto it = std::ranges::find(settings.companions, component, &Companion::name);
  return it == settings.companions.end() ? nullptr : &*it;
}

std::set<std::string> Chosen::whole_components() const {
  std::set<std::string> components;
  for (const auto& part : whole) components.insert(part.component);
  return components;
}

std::map<std::string, std::vector<std::string>> Chosen::whole_paths() const {
  std::map<std::string, std::vector<std::string>> paths;
  for (const auto& part : whole) paths[part.component].push_back(part.path);
  return paths;
}

void Chosen::check_groups(const models::Model& model, const optim::GroupOptions& groups) const {
  optim::ParameterList named;  // by name alone
  for (const auto& a : adapted) {
    if (!model.components().has(a.component)) return;
    for (const auto& w : a.weights) {
      for (const auto& [name, value] : w.parameters) named.push_back({a.component + "." + w.path + "." + name, {}});
      if (w.magnitude.m.defined()) named.push_back({a.component + "." + w.path + ".lora_magnitude_vector", {}});
    }
    for (const auto& [path, options] : a.options) {
      for (const auto& name : adapters::parameter_names(options)) named.push_back({a.component + "." + path + "." + name, {}});
    }
  }
  if (std::ranges::any_of(whole, [&](const auto& part) { return !model.components().has(part.component); })) return;
  for (const auto& name : whole_parameters) named.push_back({name, {}});
  for (const auto& [word, encoders] : words) {
    for (const auto& encoder : encoders) named.push_back({word_parameter(word, model, encoder), {}});
  }
  optim::apply_groups(named, groups, settings.learning_rate);
}

namespace {

/// The ranks that a component's adapters have, in the order of their layers.
std::string ranks_of(const Chosen& chosen, const Chosen::Adapters& adapters) {
  std::vector<std::string> ranks;
  for (const auto& path : adapters.paths) {
    auto it = adapters.options.find(path);
    auto rank = std::to_string(it == adapters.options.end() ? chosen.rank : it->second.rank);
    if (!contains(ranks, rank)) ranks.push_back(rank);
  }
  return ranks.empty() ? std::to_string(chosen.rank) : join(ranks, "/");
}

}  // namespace

std::set<std::string> Chosen::models(const models::Model& model) const {
  std::set<std::string> all, of = whole_components();
  for (const auto& a : adapted) of.insert(a.component);
  for (const auto& [word, encoders] : words) {
    if (word.is_output) all.insert(models::kWords);
    else all.insert(encoders.begin(), encoders.end());
  }
  for (const auto& component : of) {
    auto parts = model.components().parts(component);
    for (const auto& part : parts) {
      if (parts.size() == 1 || !model.components().has(component)) {
        all.insert(part);
        continue;
      }
      auto skeleton = model.components().skeleton(part);
      if (std::ranges::any_of(skeleton->parameters(), [&](const auto& slot) { return trains(component, slot.first); })) all.insert(part);
    }
  }
  return all;
}

bool Chosen::trains(const std::string& component, const std::string& path) const {
  auto layer = path.substr(0, path.rfind('.'));
  return std::ranges::any_of(whole, [&](const auto& w) { return w.component == component && lies_below(path, w.path); }) ||
         std::ranges::any_of(adapted, [&](const auto& a) { return a.component == component && contains(a.paths, layer); });
}

diffusion::Stretch Chosen::stretch() const {
  diffusion::Stretch all{1, 0};
  for (const auto& expert : experts) all = {std::min(all.from, expert.stretch.from), std::max(all.to, expert.stretch.to)};
  return all;
}

const models::Expert& Chosen::expert_at(double share) const {
  auto it = std::ranges::find_if(experts, [&](const auto& expert) { return expert.stretch.has(share); });
  return it == experts.end() ? experts.at(0) : *it;
}

std::string Chosen::text(const models::Names& names) const {
  const auto denoiser = names.experts.size() == 1 ? names.experts.front().component : "";
  std::vector<std::string> texts;
  for (const auto& part : whole) texts.push_back(part.name == denoiser ? "full" : "full " + part.name);
  for (const auto& a : adapted) {
    auto where = a.component == denoiser ? "" : " of " + a.component;
    bool has_rank = settings.adapter.type != "full";
    texts.push_back(fmt::format("{} on {} layers{}", has_rank ? settings.adapter.type + " rank " + ranks_of(*this, a) : "full deltas",
                                a.paths.size(), where));
  }
  for (const auto& [word, encoders] : words)
    texts.push_back(
        fmt::format("{} of {} {} {}", word.text, count_of(word.num_tokens, "token"), word.is_output ? "behind" : "in", join(encoders)));
  return join(texts);
}

std::string targets_outside(const std::string& part, const TrainedSettings& settings, models::Model& model) {
  auto component = pipeline::component_of(part);
  if (!settings.lora_checkpoint.empty() || !model.components().has(component)) return "";
  auto skeleton = model.components().skeleton(part);
  auto names = [&](const std::string& path) { return model.names().of(component).target_names(path); };
  return join(adapters::unmatched_targets(*skeleton, targets_of(settings, model, component), names), ",");
}

}  // namespace burnish::train
