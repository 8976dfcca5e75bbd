#include "foreign/onetrainer_concepts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/text.h"

namespace burnish::foreign::of_onetrainer {

namespace {

/// A way to change pictures: one word says how much, and which of two switches is on whether that is drawn. The random one goes first.
void change_rows(Table& table, const std::string& what, const std::string& amount, double most) {
  const auto image = std::string("concept.image."), random = image + "enable_random_" + what;
  const auto carry = [=](const Value& value, const Settings& all, bool is_fixed) {
    const auto number = all.number(image + amount).value_or(0);
    const auto clamped = std::clamp(is_fixed ? number : std::abs(number), -most, most);
    return asks_for_something(value) && number != 0 && !(is_fixed && all.on(random)) ? carried(clamped) : left_out("");
  };
  table << rewritten(random, "random_" + what, [carry](const Value& value, const Settings& all) { return carry(value, all, false); })
        << rewritten(image + "enable_fixed_" + what, "fixed_" + what,
                     [carry](const Value& value, const Settings& all) { return carry(value, all, true); });
}

void change_rows(Table& table) {
  table << rewritten("concept.image.enable_random_flip", "random_flip", [](const Value& value, const Settings&) {
    return carried(asks_for_something(value));
  }) << rewritten("concept.image.enable_fixed_flip", "fixed_flip", [](const Value& value, const Settings& all) {
    return asks_for_something(value) && !all.on("concept.image.enable_random_flip") ? carried(true) : left_out("");
  });
  change_rows(table, "rotate", "random_rotate_max_angle", 360);
  for (const std::string what : {"brightness", "contrast", "saturation"}) change_rows(table, what, "random_" + what + "_max_strength", 10);
  change_rows(table, "hue", "random_hue_max_strength", 1);
}

}  // namespace

std::vector<SettingRow> concept_rows() {
  Table table;
  change_rows(table);
  table << same("class_target", "class_target", "the class set has as many visits as the other samples together, whatever its balancing");
  return table.rows;
}

Outcome prompt_of_concept(const Value& value, const Settings& all) {
  auto source = text_of(value);
  if (source == "sample") return left_out("");
  auto path = all.text("concept.text.prompt_path");
  std::error_code failed;
  bool is_file = source == "concept" && std::filesystem::is_regular_file(path, failed);
  std::ifstream file(is_file ? path : "");
  std::vector<std::string> prompts;
  for (std::string line; prompts.size() < 2 && std::getline(file, line);) {
    if (auto prompt = trim(line); !prompt.empty()) prompts.emplace_back(prompt);
  }
  if (prompts.size() == 1 && is_utf8(prompts[0])) return carried(prompts[0], "the caption of pictures that have no text file");
  return left_out("captions are in a text file beside each picture, or in a metadata file; class_tokens is one for all that have none");
}

}  // namespace burnish::foreign::of_onetrainer
