#include "io/json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_error.h"
#include "io/files.h"

namespace burnish::io {

nlohmann::json read_json(const std::filesystem::path& path) {
  auto text = read_text(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {  // a syntax error, or a number out of range
    data_error("io", "{} is not valid JSON: {}", path.string(), without_source(e));
  }
}

}  // namespace burnish::io
