#include "foreign/prompts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace burnish::foreign {

namespace of_prompts {
namespace {

/// Finds where a flag begins, two dashes before a letter, at the start or behind a blank.
size_t find_flag(const std::string& text, size_t from) {
  for (auto at = text.find("--", from); at != text.npos; at = text.find("--", at + 1)) {
    bool is_letter = at + 2 < text.size() && std::isalpha(static_cast<unsigned char>(text[at + 2]));
    if (is_letter && (at == 0 || std::isspace(static_cast<unsigned char>(text[at - 1])))) return at;
  }
  return text.size();
}

/// A text in one line, in which nothing reads as a flag.
std::string without_flags(const std::string& text, bool& is_changed) {
  auto plain = one_line(text);
  for (auto at = find_flag(plain, 0); at < plain.size(); at = find_flag(plain, at)) {
    plain.insert(at + 2, " ");
    is_changed = true;
  }
  return std::string(trim(plain));
}

Value rounded_side(const Value& side, int64_t multiple, int64_t least) {
  auto number = number_of(side);
  if (!number || *number < 1 || *number > 1e6) return nullptr;
  return std::max(least, static_cast<int64_t>(*number) / multiple * multiple);
}

Value whole(const Value& value, int64_t least) {
  auto number = number_of(value);
  bool is_one = number && *number >= static_cast<double>(least) && *number <= 9e15;
  return is_one ? Value(static_cast<int64_t>(*number)) : Value();
}

std::string text_of_line(const PromptLine& line, int64_t multiple, int64_t least, Arranged& arranged) {
  bool is_changed = false;
  auto text = without_flags(line.prompt, is_changed);
  while (text.starts_with('#')) {  // else the line would be a comment
    text = trim(text.substr(1));
    is_changed = true;
  }
  if (is_changed)
    arranged.not_carried.push_back(arranged.prompts_from +
                                   ": what begins with -- or # in a prompt is written so that it is no flag and no comment");
  auto add = [&](const char* flag, const Value& value) {
    if (!value.is_null() && !text_of(value).empty()) text += fmt::format("{}--{} {}", text.empty() ? "" : " ", flag, text_of(value));
  };
  add("w", rounded_side(line.width, multiple, least));
  add("h", rounded_side(line.height, multiple, least));
  add("f", whole(line.frames, 1));
  add("d", whole(line.seed, 0));
  add("s", whole(line.steps, 1));
  auto guidance = number_of(line.guidance);
  add("l", guidance ? Value(fmt::format("{:g}", *guidance)) : Value());
  add("n", line.negative.is_string() ? Value(without_flags(line.negative.get<std::string>(), is_changed)) : Value());
  for (const auto& file : line.references) add("ci", file);
  return text.empty() ? "" : text + "\n";
}

/// "w 512", without its dashes.
void read_flag(const std::string& flag, PromptLine& line) {
  auto blank = std::min(flag.find_first_of(" \t"), flag.size());
  auto name = lower(flag.substr(0, blank));
  auto value = std::string(trim(flag.substr(blank)));
  auto first = value.substr(0, value.find_first_of(" \t"));
  if (name == "w") line.width = first;
  else if (name == "h") line.height = first;
  else if (name == "f") line.frames = first;
  else if (name == "d") line.seed = first;
  else if (name == "s") line.steps = first;
  else if (name == "l") line.guidance = first;
  else if (name == "n") line.negative = value;
  else if (name == "ci") line.references.push_back(value);
  else line.others.push_back("--" + name);
}

/// A prompt as a table of a TOML or JSON file.
PromptLine line_of_table(const Value& table) {
  PromptLine line;
  for (const auto& [name, value] : table.items()) {
    if (name == "prompt") line.prompt = text_of(value);
    else if (name == "negative_prompt") line.negative = value;
    else if (name == "width") line.width = value;
    else if (name == "height") line.height = value;
    else if (name == "frame_count") line.frames = value;
    else if (name == "seed") line.seed = value;
    else if (name == "sample_steps") line.steps = value;
    else if (name == "scale" || name == "cfg_scale") line.guidance = value;
    else if (name != "subset" && name != "enum") line.others.push_back(name);
  }
  return line;
}

std::vector<PromptLine> lines_of_text(const std::string& text) {
  std::vector<PromptLine> lines;
  for (const auto& part : split_list(text, '\n')) {
    auto line = std::string(trim(part));
    if (!line.empty() && !line.starts_with('#')) lines.push_back(read_prompt_line(line));
  }
  return lines;
}

/// A file of prompts: text, JSON's list, or TOML's [prompt] with its subsets.
std::vector<PromptLine> lines_of(const Value& file) {
  if (file.is_string()) return lines_of_text(file.get<std::string>());
  std::vector<PromptLine> lines;
  if (file.is_array()) {
    for (const auto& item : file) lines.push_back(item.is_object() ? line_of_table(item) : read_prompt_line(text_of(item)));
    return lines;
  }
  auto all = file.value("prompt", Value());
  if (!all.is_object()) return {};
  const auto subsets = all.value("subset", Value::array());
  for (const auto& subset : subsets) {
    auto merged = all;
    merged.update(subset);
    lines.push_back(line_of_table(merged));
  }
  return lines;
}

/// SD-Trainer's one prompt, in keys of its own.
PromptLine line_of_sd_trainer(const Value& tree) {
  auto of = [&](const char* name) { return tree.value(name, Value()); };
  return {.prompt = text_of(tree["positive_prompts"]),
          .width = of("sample_width"),
          .height = of("sample_height"),
          .seed = of("sample_seed"),
          .steps = of("sample_steps"),
          .guidance = of("sample_cfg"),
          .negative = of("negative_prompts")};
}

bool names_a_file(const std::string& text) {
  auto word = lower(text);
  bool has_ending = word.ends_with(".txt") || word.ends_with(".toml") || word.ends_with(".json");
  return has_ending && text.find('\n') == text.npos && find_flag(text, 0) == text.size();
}

/// Lines of what sample_prompts has; none where it names a file that is not there.
std::vector<PromptLine> lines_of_settings(Arranged& arranged, const Open& open) {
  auto& tree = arranged.tree;
  auto given = text_of(tree.value("sample_prompts", Value("")));
  if (trim(given).empty()) {
    if (trim(text_of(tree.value("positive_prompts", Value("")))).empty()) return {};
    arranged.prompts_from = "positive_prompts";
    tree["sample_prompts"] = "";
    return {line_of_sd_trainer(tree)};
  }
  arranged.prompts_from = "sample_prompts";
  auto file = given.find('\n') == given.npos ? open(given) : Value();
  if (!file.is_null()) return lines_of(file);
  if (names_a_file(given)) return {};
  tree["sample_prompts"] = "";
  return lines_of_text(given);
}

}  // namespace
}  // namespace of_prompts

PromptLine read_prompt_line(const std::string& text) {
  using namespace of_prompts;
  PromptLine line;
  auto at = find_flag(text, 0);
  line.prompt = trim(text.substr(0, at));
  while (at < text.size()) {
    auto next = find_flag(text, at + 2);
    read_flag(std::string(trim(text.substr(at + 2, next - at - 2))), line);
    at = next;
  }
  return line;
}

void put_lines(const std::vector<PromptLine>& lines, Arranged& arranged, int64_t multiple, int64_t least) {
  std::vector<std::string> others;
  for (const auto& line : lines) {
    arranged.prompts += of_prompts::text_of_line(line, multiple, least, arranged);
    for (const auto& other : line.others) {
      if (!contains(others, other)) others.push_back(other);
    }
  }
  if (!others.empty())
    arranged.not_carried.push_back(fmt::format("{}: {}: previews have nothing like it", arranged.prompts_from, join(others)));
}

void put_sample_prompts(Arranged& arranged, const Open& open, const PromptDefaults& defaults) {
  auto lines = of_prompts::lines_of_settings(arranged, open);
  for (auto& line : lines) {
    for (auto* side : {&line.width, &line.height}) {
      if (side->is_null()) *side = defaults.side;
    }
    if (line.steps.is_null()) line.steps = defaults.steps;
    if (defaults.frames_before > 0) line.frames = static_cast<int64_t>(number_of(line.frames).value_or(1)) + defaults.frames_before;
    if (line.guidance.is_null() && defaults.guidance > 0) line.guidance = defaults.guidance;
  }
  put_lines(lines, arranged, defaults.multiple, defaults.least);
}

SettingRow prompts_row() {
  return rewritten("sample_prompts", "preview_prompts",
                   [](const Value& value, const Settings&) { return text_of(value).empty() ? left_out("") : carried(value); });
}

}  // namespace burnish::foreign
