#include "pipeline/visit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "base/text.h"
#include "pipeline/labels.h"

namespace burnish::pipeline {

Visit::Visit(const Cut& cut, const std::set<std::string>& draws, const std::set<std::string>& trained_models) {
  // With nothing trained, what would be prepared is what no draw reaches.
  auto parts = pipeline::cut(cut.live, draws, {});
  each_ = parts.prepare;
  batch_ = parts.live;

  std::set<std::string> trained_values, written;
  for (const auto& unit : cut.live) {
    auto is_trained = [&](const auto& model) { return pipeline::is_trained(model, trained_models); };
    bool trained = std::any_of(unit.models.begin(), unit.models.end(), is_trained) ||
                   std::any_of(unit.reads.begin(), unit.reads.end(), [&](const auto& name) { return trained_values.contains(name); });
    if (trained) with_gradient_.insert(unit.name);
    for (const auto& name : unit.writes) {
      if (trained) trained_values.insert(name);
    }
  }
  auto take = [&](const Units& units, bool batched) {
    for (const auto& unit : units) {
      for (const auto& name : unit.reads) {
        if (draws.contains(name)) continue;
        if (batched && !written.contains("batch " + name) && !contains(joined_, name)) joined_.push_back(name);
        if (!written.contains(name) && !contains(cut.carried, name) && !contains(inputs_, name)) inputs_.push_back(name);
      }
      for (const auto& name : unit.writes) written.insert({name, batched ? "batch " + name : name});
    }
  };
  take(each_, false);
  take(batch_, true);
}

void Visit::run(const Units& units, Values& values) const {
  for (const auto& unit : units) {
    at::AutoGradMode record(at::GradMode::is_enabled() && with_gradient_.contains(unit.name));
    pipeline::run({unit}, values);
  }
}

Values Visit::run(std::vector<Values> samples, const Values& draws) const {
  for (auto& sample : samples) run(each_, sample);
  auto values = draws;
  for (const auto& name : joined_) {
    if (samples.size() == 1) {
      values[name] = samples[0].at(name);
      continue;
    }
    std::vector<at::Tensor> rows;
    for (const auto& sample : samples) {
      const auto* tensor = std::get_if<at::Tensor>(&sample.at(name));
      if (tensor == nullptr) throw std::logic_error("a unit that depends on a draw reads the text '" + name + "', which does not batch");
      rows.push_back(*tensor);
    }
    values[name] = at::cat(rows, 0);
  }
  samples.clear();
  run(batch_, values);
  return values;
}

}  // namespace burnish::pipeline
