#include "train/prepared.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"

namespace burnish::train {

namespace {

bool reads(const pipeline::Unit& unit, const std::string& name) {
  return std::find(unit.reads.begin(), unit.reads.end(), name) != unit.reads.end();
}

}  // namespace

Prepared::Prepared(models::Model& model, const pipeline::Units& units, const std::vector<std::string>& carried,
                   const data::Dataset& dataset) {
  at::NoGradGuard no_grad;
  for (const auto& unit : units) {
    for (const auto& name : unit.models) model.load(name);
    run_unit(unit, dataset);
    for (const auto& name : unit.models) model.unload(name);
  }
  for (auto& [row, values] : by_row_) {
    std::erase_if(values, [&](const auto& item) { return std::find(carried.begin(), carried.end(), item.first) == carried.end(); });
  }
}

void Prepared::run_unit(const pipeline::Unit& unit, const data::Dataset& dataset) {
  Progress progress(unit.name, std::ssize(dataset.rows()));
  std::map<std::string, int64_t> first_with_prompt;
  bool text_only = unit.reads == std::vector<std::string>{"prompt"};
  int64_t done = 0;
  for (auto row : dataset.rows()) {
    if (interrupted()) throw Error(Exit::interrupted, "train", "interrupted while preparing the data; nothing was trained yet");
    auto& kept = by_row_[row];
    auto [twin, fresh] = first_with_prompt.emplace(dataset.prompt(row), row);
    if (text_only && !fresh) {  // the same caption again
      for (const auto& name : unit.writes) kept[name] = by_row_.at(twin->second).at(name);
    } else {
      auto values = kept;
      values["prompt"] = dataset.prompt(row);
      if (reads(unit, "image")) values["image"] = dataset.load(row).image_3HW.unsqueeze(0);
      pipeline::run({unit}, values);
      keep(unit, row, values, kept);
    }
    progress.update(++done);
  }
}

void Prepared::keep(const pipeline::Unit& unit, int64_t row, const pipeline::Values& values, pipeline::Values& kept) {
  for (const auto& name : unit.writes) {
    auto value = std::get<at::Tensor>(values.at(name)).cpu();
    if (!at::isfinite(value).all().item<bool>()) {
      data_error("train",
                 "row {}: the {} that {} gives are not finite; its weights are damaged, or too large for this dtype: try --dtype fp32", row,
                 name, join(unit.models));
    }
    kept[name] = value;
  }
}

const pipeline::Values& Prepared::values(int64_t row) const {
  auto it = by_row_.find(row);
  if (it == by_row_.end()) data_error("train", "row {} is not among the {} usable samples", row, by_row_.size());
  return it->second;
}

pipeline::Values Prepared::batch(const std::vector<int64_t>& rows) const {
  pipeline::Values joined;
  for (const auto& [name, first] : values(rows.front())) {
    std::vector<at::Tensor> parts;
    for (auto row : rows) parts.push_back(std::get<at::Tensor>(values(row).at(name)));
    joined[name] = parts.size() == 1 ? parts[0] : at::cat(parts, 0);
  }
  return joined;
}

int64_t Prepared::num_bytes() const {
  int64_t bytes = 0;
  for (const auto& [row, values] : by_row_) {
    for (const auto& [name, value] : values) bytes += static_cast<int64_t>(std::get<at::Tensor>(value).nbytes());
  }
  return bytes;
}

}  // namespace burnish::train
