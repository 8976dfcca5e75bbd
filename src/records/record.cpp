#include "records/record.h"

#include <nlohmann/json.hpp>

namespace burnish::records {

namespace {

void flatten(const nlohmann::json& value, const std::string& path, Record& record) {
  if (value.is_structured()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, path.empty() ? key : path + "/" + key, record);
    return;
  }
  if (!value.is_number() && !value.is_null()) return;
  auto number = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  if (path == "time") record.time = number;
  else if (path != "step") record.values.emplace_back(path, number);
}

}  // namespace

std::optional<Record> to_record(const nlohmann::json& line) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) return std::nullopt;
  Record record;
  record.step = line["step"].get<int64_t>();
  flatten(line, "", record);
  return record;
}

}  // namespace burnish::records
