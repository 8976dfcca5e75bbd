#include "train/objectives/class_target.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/where.h>

#include "base/input_error.h"
#include "memory/transfer.h"

namespace burnish::train {

namespace {

const char* const kClassTarget = "class_target";

/// Returns the numbers of a batch's samples that are of the class set; those of all samples where values are not there.
at::Tensor rows_of_class_set(const at::Tensor& of_class_set_B) {
  if (of_class_set_B.is_meta()) return at::arange(of_class_set_B.size(0), of_class_set_B.options().dtype(at::kLong));
  return at::nonzero(of_class_set_B).squeeze(1);
}

/// Returns these samples of a value that has a batch, and any other value as it is.
pipeline::Value with_rows(pipeline::Value value, const at::Tensor& rows) {
  if (auto* tensor = std::get_if<at::Tensor>(&value)) {
    if (tensor->dim() > 0) *tensor = tensor->index_select(0, rows.to(tensor->device()));
  } else if (auto* lists = std::get_if<pipeline::TensorLists>(&value)) {
    pipeline::TensorLists chosen;
    for (auto row : memory::Numbers({rows}).read()) chosen.push_back(std::move(lists->at(static_cast<size_t>(row))));
    *lists = std::move(chosen);
  }
  return value;
}

/// Runs the unit on samples of the class set; where there are none it is not run, and writes nothing that is read.
void run_on_class_set(const pipeline::Unit& unit, const std::set<std::string>& chosen_already, pipeline::Scope& scope) {
  const auto rows = rows_of_class_set(scope.tensor(kOfClassSet));
  for (const auto& model : unit.models) scope.uses(model);
  pipeline::Values values;
  for (const auto& name : unit.reads) values[name] = chosen_already.contains(name) ? scope.value(name) : with_rows(scope.value(name), rows);
  if (rows.numel() > 0) {
    pipeline::Scope own(unit, values);
    unit.run(own);
  }
  for (const auto& name : unit.writes) scope.write(name, rows.numel() > 0 ? std::move(values.at(name)) : at::empty({0}));
}

}  // namespace

ClassTarget class_target_of(const models::OptionValues& own) { return {.is_model = own.get<std::string>(kClassTarget) == "model"}; }

std::vector<models::Option> class_target_options() {
  return {{.name = kClassTarget,
           .help = "what samples of the class set are compared with: data, their pictures; model, what the model before training predicts",
           .otherwise = std::string("data"),
           .elsewhere = "",
           .choices = {"data", "model"}}};
}

void check_class_target(const ClassTarget& target, const RunForObjective& run) {
  if (target.is_model && !run.has_class_set)
    config_error("train", "{} model is about the class set, and there is none; name one in class_metadata_path, or take it out",
                 kClassTarget);
}

pipeline::Units run_for_class_set(pipeline::Units units) {
  std::set<std::string> chosen;
  for (auto& unit : units) {
    if (unit.prefix != kReference) continue;
    unit.run = [plain = unit, chosen](pipeline::Scope& scope) { run_on_class_set(plain, chosen, scope); };
    unit.reads.emplace_back(kOfClassSet);
    chosen.insert(unit.writes.begin(), unit.writes.end());
  }
  return units;
}

ComparedTensors held_to_model(const ClassTarget& target, const ComparedTensors& compared, const at::Tensor& plain,
                              const at::Tensor& reference, const at::Tensor& of_class_set_B) {
  const auto is_of_class = beside(of_class_set_B, plain) > 0;
  auto held = compared;
  held.prediction = at::where(is_of_class, plain.to(at::kFloat), compared.prediction.to(at::kFloat));
  if (!target.has_own_rows) held.target = at::where(is_of_class, reference.to(at::kFloat), compared.target.to(at::kFloat));
  else if (reference.numel() > 0)
    held.target = compared.target.to(at::kFloat).index_copy(0, rows_of_class_set(of_class_set_B), reference.to(at::kFloat));
  return held;
}

}  // namespace burnish::train
