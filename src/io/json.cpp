#include "io/json.h"

#include "base/error.h"
#include "io/files.h"

namespace burnish::io {

nlohmann::json read_json(const std::filesystem::path& path) {
  auto text = read_text(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    std::string what = e.what();
    auto colon = what.find("parse error");
    data_error("io", "{} is not valid JSON: {}", path.string(), colon == std::string::npos ? what : what.substr(colon));
  }
}

}  // namespace burnish::io
