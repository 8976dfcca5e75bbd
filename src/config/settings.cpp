#include "config/settings.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/escapes.h"
#include "base/input_error.h"
#include "base/text.h"

namespace burnish::config {

namespace {

/// Returns what stands behind a '#', from the given character of a line on.
std::string comment_in(const std::string& line, size_t character) {
  size_t at = 0;
  for (; at < line.size(); ++at) {
    bool begins = (static_cast<unsigned char>(line[at]) & 0xC0) != 0x80;  // a character of UTF-8
    if (begins && character-- == 0) break;
  }
  auto mark = line.find('#', at);
  return mark == std::string::npos ? "" : std::string(trim(std::string_view(line).substr(mark + 1)));
}

std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return **text;
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", **number);
  std::ostringstream out;
  out << toml::toml_formatter{node, toml::format_flags::allow_unicode_strings};  // no second way to quote
  return out.str();
}

}  // namespace

std::vector<Setting> read_settings(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) data_error("config", "cannot read {}: it is not a regular file", path.string());
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (!file.eof()) data_error("config", "cannot read {}", path.string());
  toml::table table;
  try {
    table = toml::parse(join(lines, "\n"));
  } catch (const toml::parse_error& e) {
    data_error("config", "{} line {}: {}{}", path.string(), e.source().begin.line, std::string(e.description()),
               hint_in_toml(e.description()));
  }
  std::vector<std::pair<size_t, Setting>> found;  // with the line, for the order
  for (const auto& [key, node] : table) {
    auto end = node.source().end;
    found.emplace_back(end.line, Setting{"", std::string(key.str()), text_of(node), comment_in(lines.at(end.line - 1), end.column - 1)});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Setting> settings;
  std::string group;
  size_t line = 0;
  for (auto& [at, setting] : found) {
    for (; line < at; ++line) {
      if (lines[line].starts_with('#')) group = comment_in(lines[line], 0);
    }
    setting.group = group;
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace burnish::config
