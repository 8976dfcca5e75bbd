#pragma once
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "config/fields.h"
#include "tests/places.h"

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
    for (const auto& option : listed()) {
      add(option.name, option.value);
      if (!option.dataset_key.empty()) fields.row(option.name).of_dataset(option.dataset_key);
    }
  }

  /// An option and its value as the page has them, and its key in a table of a dataset_config.
  struct Listed {
    std::string name, value, dataset_key;
  };

  static const std::vector<Listed>& listed() {
    static const auto options = [] {
      std::vector<Listed> options;
      std::ifstream file(std::string(test::kCheckout) + "/docs/flags.md");
      bool is_train = false, is_of_datasets = false;
      for (std::string line; std::getline(file, line);) {
        if (line.starts_with("## ")) is_train = line == "## burnish train";
        // Both groups hold the options of a DatasetChoice alone.
        if (line.starts_with("### ")) is_of_datasets = line == "### Pictures and clips" || line == "### Captions and masks";
        if (!is_train || !line.starts_with("| `--")) continue;
        auto between = line.find("` | `");  // what other programs' options are listed without
        if (between == line.npos) continue;
        const auto name = line.substr(5, line.find_first_of("`,", 5) - 5);
        const std::map<std::string, std::string> others{{"dataset_repeat", "num_repeats"}, {"dataset_metadata_path", "image_dir"}};
        const auto key = is_of_datasets ? name : others.contains(name) ? others.at(name) : "";
        options.push_back({name, line.substr(between + 5, line.find('`', between + 5) - between - 5), key});
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
