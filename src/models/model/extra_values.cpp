#include "models/model/extra_values.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/input_error.h"
#include "io/safetensors.h"

namespace burnish::models {

namespace {

/// [1, N] of a number or a list of them, either of which may be written as text.
pipeline::Value numbers_in(const ExtraInput& input, const nlohmann::json& cell, const std::string& where) {
  auto list = cell.is_string() ? nlohmann::json::parse(cell.get<std::string>(), nullptr, /*allow_exceptions=*/false) : cell;
  std::vector<float> numbers;
  for (const auto& item : list.is_array() ? list : nlohmann::json::array({list})) {
    if (!item.is_number())
      data_error("models", "{} has {} in the column '{}', and a number or a list of them was expected", where, cell.dump(), input.column);
    numbers.push_back(item.get<float>());
  }
  return at::tensor(numbers).unsqueeze(0);
}

/// [1, N] of a file's one tensor; where the cell is the example of a plan without samples, so many zeros.
pipeline::Value numbers_in_file(const ExtraInput& input, const nlohmann::json& cell, const std::string& where) {
  auto path = cell.get<std::string>();
  if (path == input.example) return at::zeros({1, std::stoll(path)});
  auto file = io::SafetensorsFile::open(path);
  if (file->tensors().size() != 1)
    data_error("models", "{}: {} holds {} tensors, and one was expected", where, path, file->tensors().size());
  return file->tensor(file->tensors().begin()->first).to(at::kFloat).reshape({1, -1});
}

}  // namespace

pipeline::Value extra_value(const ExtraInput& input, const nlohmann::json& cell, const std::string& where) {
  if (input.kind == ExtraInput::Kind::numbers) return numbers_in(input, cell, where);
  if (input.kind == ExtraInput::Kind::file) return numbers_in_file(input, cell, where);
  return cell.is_string() ? cell.get<std::string>() : cell.dump();
}

}  // namespace burnish::models
