#pragma once
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "config/fields.h"

namespace burnish::test {

/// The options of `burnish train` as docs/flags.md lists them, which is made from them.
struct RunOptions {
  std::deque<std::string> texts;
  std::deque<int64_t> wholes;
  std::deque<double> numbers;
  std::deque<bool> truths;
  std::deque<std::vector<std::string>> lists;
  config::Fields fields;

  RunOptions() {
    for (const auto& [name, value] : listed()) add(name, value);
  }

  static const std::vector<std::pair<std::string, std::string>>& listed() {
    static const auto options = [] {
      std::vector<std::pair<std::string, std::string>> options;
      std::ifstream file(std::string(BURNISH_SOURCE_DIR) + "/docs/flags.md");
      bool is_train = false;
      for (std::string line; std::getline(file, line);) {
        if (line.starts_with("## ")) is_train = line == "## burnish train";
        if (!is_train || !line.starts_with("| `--")) continue;
        auto between = line.find("` | `");  // what other programs' options are listed without
        if (between == line.npos) continue;
        options.emplace_back(line.substr(5, line.find_first_of("`,", 5) - 5),
                             line.substr(between + 5, line.find('`', between + 5) - between - 5));
      }
      return options;
    }();
    return options;
  }

  void add(const std::string& name, const std::string& value) {
    if (value == "[]") fields(name, lists.emplace_back(), "");
    else if (value == "true" || value == "false") fields(name, truths.emplace_back(value == "true"), "");
    else if (value.starts_with('"')) fields(name, texts.emplace_back(value.substr(1, value.size() - 2)), "");
    else if (value.find_first_of(".e") != std::string::npos) fields(name, numbers.emplace_back(std::stod(value)), "");
    else fields(name, wholes.emplace_back(std::stoll(value)), "");
  }

  std::map<std::string, std::string> values() const {
    std::map<std::string, std::string> values;
    for (const auto& field : fields.list()) values[field.name] = config::value_text(field);
    return values;
  }
};

}  // namespace burnish::test
