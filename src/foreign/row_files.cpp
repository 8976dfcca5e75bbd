#include "foreign/row_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "foreign/row_lines.h"

namespace burnish::foreign {

namespace {

/// The names that a name with braces stands for: "{unet,transformer}.train" for two.
std::vector<std::string> names_of(std::string_view name) {
  const auto open = name.find('{'), close = name.find('}');
  if (open == name.npos || close == name.npos) return {std::string(name)};
  std::vector<std::string> names;
  for (const auto& part : split_list(std::string(name.substr(open + 1, close - open - 1))))
    names.push_back(std::string(name.substr(0, open)) + part + std::string(name.substr(close + 1)));
  return names;
}

/// A row of one name, as its heading has it.
SettingRow row_of(const std::string& name, const RowLine& line, std::string_view heading, const std::string& sentence) {
  const auto parsed = [](std::string_view text) { return text.empty() ? Value() : Value::parse(text); };
  const auto value = parsed(line.value), absent = parsed(line.otherwise);
  const std::string ours(line.ours);
  if (heading == "carried") return same(name, ours).otherwise(absent);
  if (heading == "switch") return switched(name, ours, value).otherwise(absent);
  if (heading == "words") return words(name, ours, value.get<std::map<std::string, std::string>>(), sentence, absent);
  return heading == "needless" ? needless(name, sentence, absent) : no_place(name, sentence, absent);
}

}  // namespace

std::vector<SettingRow> read_rows(const std::string& file, std::string_view text, const Conditions& conditions) {
  std::vector<SettingRow> rows;
  std::set<std::pair<std::string, std::string>> seen;
  const RowHeading* heading = nullptr;
  std::string sentence;
  Condition condition = nullptr;
  int number = 0;
  const auto refuse = [&](std::string_view problem) { throw std::logic_error(fmt::format("{}:{}: {}", file, number, problem)); };
  while (!text.empty()) {
    ++number;
    const auto whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(whole.size() + 1, text.size()));
    const auto line = read_row_line(whole, heading);
    if (!line.problem.empty()) refuse(line.problem);
    if (line.heading) {
      heading = line.heading, sentence = line.sentence;
      const auto named = conditions.find(line.condition);
      if (!line.condition.empty() && named == conditions.end()) refuse("no condition is called so");
      condition = line.condition.empty() ? nullptr : named->second;
    }
    if (!line.is_row()) continue;
    for (const auto& name : names_of(line.name)) {
      if (!seen.emplace(name, line.ours).second) refuse(name + " stands in a line above");
      try {
        auto row = row_of(name, line, heading->word, sentence);
        rows.push_back(condition == nullptr ? std::move(row) : std::move(row).where(condition));
      } catch (const Value::exception&) {
        refuse("a value or default is no JSON, or not of the kind that the heading has");
      }
    }
  }
  return rows;
}

std::vector<SettingRow> rows_in(std::string_view name, const Conditions& conditions) {
  const auto file = std::ranges::find(row_files(), name, &RowFile::name);
  if (file == row_files().end()) throw std::logic_error(fmt::format("no file of rows is called {}", name));
  return read_rows(fmt::format("{}.rows", name), file->text, conditions);
}

}  // namespace burnish::foreign
