#include "pipeline/unit.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <c10/core/alignment.h>
#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "base/text.h"

namespace burnish::pipeline {

const Value& Scope::value(const std::string& name) const {
  if (record_) record_->reads.insert(name);
  if (!contains(unit_.reads, name)) throw std::logic_error(fmt::format("unit '{}' reads '{}' without declaring it", unit_.name, name));
  auto it = values_.find(name);
  if (it == values_.end()) throw std::logic_error(fmt::format("unit '{}' reads '{}', which nobody wrote", unit_.name, name));
  return it->second;
}

const at::Tensor& Scope::tensor(const std::string& name) const { return std::get<at::Tensor>(value(name)); }
const std::string& Scope::text(const std::string& name) const { return std::get<std::string>(value(name)); }

const TensorLists& Scope::lists(const std::string& name) const { return std::get<TensorLists>(value(name)); }

void Scope::write(const std::string& name, Value value) {
  if (record_) record_->writes.insert(name);
  if (!contains(unit_.writes, name)) throw std::logic_error(fmt::format("unit '{}' writes '{}' without declaring it", unit_.name, name));
  values_[name] = std::move(value);
}

void Scope::uses(const std::string& model) const {
  if (record_) record_->models.insert(model);
  if (!contains(unit_.models, model)) throw std::logic_error(fmt::format("unit '{}' runs '{}' without declaring it", unit_.name, model));
}

namespace {

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && at::equal(a, b);
}

bool equal(const Value& a, const Value& b) {
  if (a.index() != b.index()) return false;
  if (const auto* text = std::get_if<std::string>(&a)) return *text == std::get<std::string>(b);
  if (const auto* tensor = std::get_if<at::Tensor>(&a)) return same(*tensor, std::get<at::Tensor>(b));
  return std::ranges::equal(std::get<TensorLists>(a), std::get<TensorLists>(b),
                            [](const auto& list, const auto& other) { return std::ranges::equal(list, other, same); });
}

/// The values as a run of its own may have them: no storage is shared.
Values copy(const Values& values) {
  auto copied = values;
  for (auto& [name, value] : copied) change_tensors(value, [](const at::Tensor& tensor) { return tensor.detach().clone(); });
  return copied;
}

/// Holds what came of one recorded run.
struct Recorded {
  Record record;
  Values values;
  bool moved_generator = false;
};

Recorded run_recorded(const Unit& unit, const Values& values) {
  Recorded run{{}, copy(values), false};
  auto generator = at::detail::getDefaultCPUGenerator();
  auto before = generator.get_state();
  Scope scope(unit, run.values, &run.record);
  unit.run(scope);
  run.moved_generator = !at::equal(before, generator.get_state());
  return run;
}

}  // namespace

std::vector<std::string> audit(const Unit& unit, const Values& values) {
  std::vector<std::string> found;
  auto compare = [&](const char* verb, const std::vector<std::string>& declared, const std::set<std::string>& done) {
    for (const auto& name : declared) {
      if (!done.contains(name)) found.push_back(fmt::format("{} declares that it {} '{}' and does not", unit.name, verb, name));
    }
    for (const auto& name : done) {
      if (!contains(declared, name)) found.push_back(fmt::format("{} {} '{}' without declaring it", unit.name, verb, name));
    }
  };
  auto first = run_recorded(unit, values), second = run_recorded(unit, values);
  compare("reads", unit.reads, first.record.reads);
  compare("writes", unit.writes, first.record.writes);
  compare("runs", unit.models, first.record.models);
  for (const auto& [name, value] : values) {
    if (!first.record.writes.contains(name) && !equal(value, first.values.at(name)))
      found.push_back(fmt::format("{} changes '{}' in place without declaring that it writes it", unit.name, name));
  }
  bool differs = std::any_of(first.record.writes.begin(), first.record.writes.end(), [&](const auto& name) {
    return !second.values.contains(name) || !equal(first.values.at(name), second.values.at(name));
  });
  bool drew = differs || first.moved_generator || second.moved_generator;
  if (drew && !unit.draws) found.push_back(fmt::format("{} draws random numbers without declaring it", unit.name));
  if (!drew && unit.draws) found.push_back(fmt::format("{} declares that it draws random numbers and does not", unit.name));
  return found;
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

std::string component_of(const std::string& model) { return model.substr(0, model.find('.')); }

bool overlap(const std::string& a, const std::string& b) {
  auto below = [](const std::string& part, const std::string& whole) { return part == whole || part.starts_with(whole + "."); };
  return below(a, b) || below(b, a);
}

bool has_unit(const Units& units, const std::string& name) {
  return std::any_of(units.begin(), units.end(), [&](const auto& unit) { return unit.name == name; });
}

std::string common_part(const std::vector<std::string>& models) {
  auto common = models.at(0);
  for (const auto& model : models) {
    while (model != common && !model.starts_with(common + ".")) common.resize(common.rfind('.'));
  }
  return common;
}

std::vector<std::string> components_of(const Units& units) {
  std::vector<std::string> components;
  for (const auto& model : models_of(units)) {
    if (!contains(components, component_of(model))) components.push_back(component_of(model));
  }
  return components;
}

void change_tensors(Value& value, const std::function<at::Tensor(const at::Tensor&)>& change) {
  if (auto* tensor = std::get_if<at::Tensor>(&value)) *tensor = change(*tensor);
  if (auto* lists = std::get_if<TensorLists>(&value)) {
    for (auto& list : *lists) std::ranges::transform(list, list.begin(), change);
  }
}

int64_t num_bytes(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return std::ssize(*text);
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return static_cast<int64_t>(tensor->nbytes());
  int64_t bytes = 0;
  for (const auto& list : std::get<TensorLists>(value)) {
    for (const auto& tensor : list) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

Values moved(Values values, const std::function<at::Tensor(const at::Tensor&)>& move) {
  auto moved_one = [&](const at::Tensor& tensor) {
    if (tensor.dim() == 0) return tensor;
    auto there = move(tensor);
    bool is_aligned = !there.is_cpu() || reinterpret_cast<uintptr_t>(there.const_data_ptr()) % c10::gAlignment == 0;
    return is_aligned ? there : there.clone();
  };
  for (auto& [name, value] : values) change_tensors(value, moved_one);
  return values;
}

Values moved(Values values, c10::Device device) {
  return moved(std::move(values), [&](const at::Tensor& tensor) { return tensor.to(device); });
}

namespace {

/// Filled with zeros at the end of the second dimension to the length of the longest.
std::vector<at::Tensor> of_equal_length(std::vector<at::Tensor> rows) {
  int64_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size(1));
  for (auto& row : rows) {
    if (row.size(1) == longest) continue;
    auto shape = row.sizes().vec();
    shape[1] = longest - row.size(1);
    row = at::cat({row, at::zeros(shape, row.options())}, 1);
  }
  return rows;
}

}  // namespace

Value join(const std::string& name, const std::vector<Value>& of_samples, bool padded) {
  if (of_samples.size() == 1) return of_samples[0];
  std::vector<at::Tensor> rows;
  TensorLists lists;
  for (const auto& value : of_samples) {
    if (std::holds_alternative<std::string>(value))
      throw std::logic_error("a unit that depends on a draw reads the text '" + name + "', which does not batch");
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) rows.push_back(*tensor);
    else std::ranges::copy(std::get<TensorLists>(value), std::back_inserter(lists));
  }
  if (!lists.empty()) return lists;
  if (rows[0].dim() == 0) {
    if (std::ranges::any_of(rows, [&](const at::Tensor& row) { return !at::equal(row, rows[0]); }))
      throw std::logic_error("samples of a batch differ in the number '" + name + "'");
    return rows[0];
  }
  return at::cat(padded ? of_equal_length(std::move(rows)) : rows, 0);
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
