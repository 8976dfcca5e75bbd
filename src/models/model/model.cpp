#include "models/model/model.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>

#include "base/text.h"

namespace burnish::models {

namespace {

void add_missing(std::vector<std::string>& names, const std::vector<std::string>& more) {
  for (const auto& name : more) {
    if (!contains(names, name)) names.push_back(name);
  }
}

/// The units of several experts as those of one denoiser: each runs the one of the expert that kExpert names. All have the same units but
/// for the models that these run. `experts` by their numbers.
pipeline::Units told_by_number(const std::map<int64_t, pipeline::Units>& experts) {
  auto all = experts.begin()->second;
  for (size_t i = 0; i < all.size(); ++i) {
    std::map<int64_t, std::function<void(pipeline::Scope&)>> runs;
    for (const auto& [number, units] : experts) {
      if (units.size() != all.size() || units[i].name != all[i].name || units[i].writes != all[i].writes)
        throw std::logic_error("experts of a model have different units");
      add_missing(all[i].reads, units[i].reads);
      add_missing(all[i].models, units[i].models);
      runs[number] = units[i].run;
    }
    if (experts.begin()->second[i].models.empty()) continue;  // the same for every expert
    all[i].reads.push_back(kExpert);
    all[i].run = [runs](pipeline::Scope& s) { runs.at(s.tensor(kExpert).item<int64_t>())(s); };
  }
  return all;
}

}  // namespace

UnitGroups Model::units_of(const std::vector<Expert>& experts) {
  auto groups = units_of(experts.at(0));
  if (experts.size() == 1) return groups;
  std::map<int64_t, pipeline::Units> denoise, draw, draw_away;
  for (const auto& expert : experts) {
    auto of_expert = units_of(expert);
    auto number = std::ranges::find(names_.experts, expert.component, &Expert::component) - names_.experts.begin();
    denoise[number] = of_expert.denoise;
    draw[number] = of_expert.draw;
    draw_away[number] = of_expert.draw_away;
  }
  groups.denoise = told_by_number(denoise);
  groups.draw = told_by_number(draw);
  groups.draw_away = told_by_number(draw_away);
  return groups;
}

void Model::add(const Recipe& recipe, const ComponentNames& names) {
  names_.components[recipe.name] = names;
  components_.add(recipe);
  const bool learns_words = recipe.tokenizer && !recipe.tokenizer->table.empty();
  if (!learns_words || names_.components.contains(kWords)) return;
  add({.name = kWords,
       .what = "words' vectors",
       .build = [](const auto&, const auto&) { return std::make_unique<nn::Module>(); },
       .weights_from = WeightsFrom::nowhere},
      plain_names(kWords));
}

void add_beside(Model& model, const Recipe& recipe) {
  model.add(recipe, recipe.copy_of.empty() ? plain_names(recipe.name) : model.names().of(recipe.copy_of));
}

std::vector<Expert> Model::experts_there() const {
  std::vector<Expert> there;
  std::ranges::copy_if(names_.experts, std::back_inserter(there), [&](const auto& expert) { return components_.has(expert.component); });
  return there.empty() ? names_.experts : there;
}

}  // namespace burnish::models
