#include "pipeline/unit.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

namespace burnish::pipeline {

static bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

const Value& Scope::read(const std::string& name) const {
  if (!contains(unit_.reads, name)) throw std::logic_error(fmt::format("unit '{}' reads '{}' without declaring it", unit_.name, name));
  auto it = values_.find(name);
  if (it == values_.end()) throw std::logic_error(fmt::format("unit '{}' reads '{}', which nobody wrote", unit_.name, name));
  return it->second;
}

const at::Tensor& Scope::tensor(const std::string& name) const { return std::get<at::Tensor>(read(name)); }
const std::string& Scope::text(const std::string& name) const { return std::get<std::string>(read(name)); }

void Scope::write(const std::string& name, Value value) {
  if (!contains(unit_.writes, name)) throw std::logic_error(fmt::format("unit '{}' writes '{}' without declaring it", unit_.name, name));
  values_[name] = std::move(value);
}

void Scope::uses(const std::string& model) const {
  if (!contains(unit_.models, model)) throw std::logic_error(fmt::format("unit '{}' runs '{}' without declaring it", unit_.name, model));
}

void check(const Units& units, const std::set<std::string>& inputs) {
  auto known = inputs;
  for (const auto& unit : units) {
    for (const auto& name : unit.reads) {
      if (!known.contains(name)) throw std::logic_error(fmt::format("unit '{}' reads '{}', which nobody wrote", unit.name, name));
    }
    known.insert(unit.writes.begin(), unit.writes.end());
  }
}

Cut cut(const Units& units, const std::set<std::string>& draws, const std::set<std::string>& trained_models) {
  auto moving = draws;  // values that change from one visit of a sample to the next
  Cut result;
  for (const auto& unit : units) {
    auto in = [](const std::set<std::string>& set) { return [&set](const std::string& name) { return set.contains(name); }; };
    bool live = std::any_of(unit.reads.begin(), unit.reads.end(), in(moving)) ||
                std::any_of(unit.models.begin(), unit.models.end(), in(trained_models));
    if (live) moving.insert(unit.writes.begin(), unit.writes.end());
    (live ? result.live : result.prepare).push_back(unit);
  }
  for (const auto& unit : result.prepare) {
    for (const auto& name : unit.writes) {
      bool read = std::any_of(result.live.begin(), result.live.end(), [&](const Unit& u) { return contains(u.reads, name); });
      if (read && !contains(result.carried, name)) result.carried.push_back(name);
    }
  }
  return result;
}

std::vector<std::string> models_of(const Units& units) {
  std::vector<std::string> models;
  for (const auto& unit : units) {
    for (const auto& model : unit.models) {
      if (!contains(models, model)) models.push_back(model);
    }
  }
  return models;
}

void run(const Units& units, Values& values) {
  for (const auto& unit : units) {
    Scope scope(unit, values);
    unit.run(scope);
  }
}

}  // namespace burnish::pipeline
