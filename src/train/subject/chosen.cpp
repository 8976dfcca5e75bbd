#include "train/subject/chosen.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/count.h"
#include "base/text.h"
#include "train/subject/training_units.h"

namespace burnish::train {

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

}  // namespace burnish::train
