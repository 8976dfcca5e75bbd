#include "pipeline/unit.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "pipeline/labels.h"

namespace burnish::pipeline {

static bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

static bool written_by(const Units& units, const std::string& name) {
  return std::any_of(units.begin(), units.end(), [&](const Unit& unit) { return contains(unit.writes, name); });
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
  std::map<std::string, Labels> inputs;
  for (const auto& name : draws) inputs[name].timestep = true;
  auto touched = std::set<std::string>();  // names that live units read or write so far
  Cut result;
  for (const auto& unit : units) {
    auto in_touched = [&](const std::string& name) { return touched.contains(name); };
    inputs = label({unit}, inputs, trained_models);
    bool live = !std::all_of(unit.writes.begin(), unit.writes.end(), [&](const auto& name) { return inputs.at(name).fixed(); }) ||
                std::any_of(unit.writes.begin(), unit.writes.end(), in_touched);
    if (live) {
      for (const auto& name : unit.writes) inputs[name].timestep = true;  // no unit after it can be prepared from what it writes
      for (const auto& name : unit.reads) {
        if (!touched.contains(name) && written_by(result.prepare, name) && !contains(result.carried, name)) result.carried.push_back(name);
      }
      touched.insert(unit.reads.begin(), unit.reads.end());
      touched.insert(unit.writes.begin(), unit.writes.end());
    }
    (live ? result.live : result.prepare).push_back(unit);
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
