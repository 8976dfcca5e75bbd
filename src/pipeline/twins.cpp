#include "pipeline/twins.h"

#include <algorithm>

#include "pipeline/labels.h"

namespace burnish::pipeline {

namespace {

/// Names on the first way and on the second.
using Names = std::vector<std::pair<std::string, std::string>>;

bool runs_any(const Unit& unit, const std::set<std::string>& models) {
  return std::any_of(unit.models.begin(), unit.models.end(), [&](const auto& model) { return is_trained(model, models); });
}

std::vector<std::string> second(const Names& names) {
  std::vector<std::string> list;
  for (const auto& [first, other] : names) list.push_back(other);
  return list;
}

/// Runs the unit on values under its own names.
void run_as(const Unit& unit, const Names& reads, const Names& writes, Scope& scope) {
  Values values;
  for (const auto& [name, other] : reads) values[name] = scope.value(other);
  for (const auto& model : unit.models) scope.uses(model);
  Scope own(unit, values);
  unit.run(own);
  for (const auto& [name, other] : writes) scope.write(other, std::move(values.at(name)));
}

}  // namespace

Units twins(const Units& units, const Difference& difference) {
  auto apart = difference.values;  // values of which the second way has its own
  std::set<std::string> initial;   // and of these, those that are known before training alone
  Units all;
  for (const auto& unit : units) {
    bool from_twins = std::any_of(unit.reads.begin(), unit.reads.end(), [&](const auto& name) { return apart.contains(name); });
    bool from_initial = std::any_of(unit.reads.begin(), unit.reads.end(), [&](const auto& name) { return initial.contains(name); });
    bool is_initial = runs_any(unit, difference.initial) || (from_initial && unit.models.empty());
    bool is_frozen = runs_any(unit, difference.frozen);
    if (!from_twins && !is_initial && !is_frozen && !runs_any(unit, difference.turned)) {
      for (const auto& name : unit.writes) apart.erase(name);
      continue;
    }
    Names reads, writes;
    for (const auto& name : unit.reads) reads.emplace_back(name, apart.contains(name) ? difference.prefix + name : name);
    for (const auto& name : unit.writes) {
      writes.emplace_back(name, difference.prefix + name);
      apart.insert(name);
      if (is_initial) initial.insert(name);
    }
    Unit twin{difference.prefix + unit.name,  second(reads), second(writes), unit.models, {}, unit.draws, unit.weights, unit.settings,
              difference.prefix + unit.prefix};
    if (is_initial || is_frozen) twin.weights = is_initial ? Weights::initial : Weights::frozen;
    twin.run = [unit, reads, writes](Scope& scope) { run_as(unit, reads, writes, scope); };
    all.push_back(std::move(twin));
  }
  return all;
}

Units leading_to(const Units& units, std::set<std::string> values) {
  Units found;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    if (std::ranges::none_of(unit->writes, [&](const auto& name) { return values.contains(name); })) continue;
    values.insert(unit->reads.begin(), unit->reads.end());
    found.insert(found.begin(), *unit);
  }
  return found;
}

}  // namespace burnish::pipeline
