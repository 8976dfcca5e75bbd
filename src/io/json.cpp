#include "io/json.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_error.h"
#include "io/files.h"

namespace burnish::io {

namespace {

nlohmann::json read_filtered(const std::filesystem::path& path, const nlohmann::json::parser_callback_t& is_kept) {
  auto text = read_text(path);
  try {
    return nlohmann::json::parse(text, is_kept);
  } catch (const nlohmann::json::exception& e) {  // a syntax error, or a number out of range
    data_error("io", "{} is not valid JSON: {}", path.string(), without_source(e));
  }
}

}  // namespace

nlohmann::json read_json(const std::filesystem::path& path) { return read_filtered(path, nullptr); }

nlohmann::json read_json_without(const std::filesystem::path& path, const std::string& name) {
  using Event = nlohmann::json::parse_event_t;
  return read_filtered(path, [&](int depth, Event event, const nlohmann::json& parsed) {
    return depth != 1 || event != Event::key || parsed.get_ref<const std::string&>() != name;
  });
}

bool begins_as_object(const std::filesystem::path& path) {
  std::ifstream file(path);
  char first = 0, second = 0;
  file >> first >> second;  // blanks between them are passed over
  return file && first == '{' && (second == '"' || second == '}');
}

void refuse_damaged(const std::filesystem::path& path, const std::string& what_to_do, const std::exception& thrown) {
  if (dynamic_cast<const nlohmann::json::exception*>(&thrown) == nullptr) throw;
  const std::string said = thrown.what();
  const auto number = said.find("] ");  // "[json.exception.type_error.302] type must be string, but is number"
  data_error("io", "{} is damaged ({}); {}", path.string(), number == said.npos ? said : said.substr(number + 2), what_to_do);
}

}  // namespace burnish::io
