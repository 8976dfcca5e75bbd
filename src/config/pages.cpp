#include "config/pages.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace burnish::config {

namespace {

/// "--preview_steps, --sample_every_n_steps": the name and its aliases.
std::string all_names(const Field& field) {
  if (field.positional) return field.name + "...";
  auto names = "--" + field.name;
  for (const auto& alias : field.aliases) names += ", --" + alias;
  return names;
}

/// Returns what an option is, after what people call it.
std::string meaning_of(const Field& field) { return field.label.empty() ? field.doc : field.label + ": " + field.doc; }

std::string line_of(const Field& field) {
  auto value = value_text(field);
  bool shown = value != "\"\"" && value != "[]" && value != "false";
  return fmt::format("  {:<30} {}{}\n", all_names(field), meaning_of(field), shown ? fmt::format(" [{}]", value) : "");
}

std::string help_page(const std::string& verb, const std::string& summary, const Fields& fields) {
  auto page = fmt::format("burnish {}: {}\n", verb, summary);
  std::string group;
  for (const auto& field : fields.list()) {
    if (field.group != group) page += fmt::format("\n{}\n", group = field.group);
    page += line_of(field);
  }
  if (!fields.without_effect().empty()) page += fmt::format("\n{}\n", fields.title_no_effect());
  for (const auto& option : fields.without_effect()) page += fmt::format("  --{:<28} {}\n", option.name, option.text);
  return page +
         "\nEvery option is a TOML key of the same name; --config FILE, or a lone FILE.toml, reads them, and options given here win.\n";
}

/// What a first run needs, and where the rest is.
std::string first_page(const std::string& verb, const std::string& summary, const Fields& fields) {
  auto page = fmt::format("burnish {}: {}\n", verb, summary);
  std::string group;
  int64_t num_shown = 0;
  for (const auto& field : fields.list()) {
    if (field.level != Level::first_run) continue;
    if (field.group != group) page += fmt::format("\n{}\n", group = field.group);
    page += line_of(field);
    ++num_shown;
  }
  return page + fmt::format(
                    "\nThese {} of {} options are for a first run; `burnish {} --help all` lists all of them, docs/flags.md explains "
                    "them, and\n`burnish help {} --json` describes them to other programs. Every option is a TOML key of the same "
                    "name; --config FILE, or\na lone FILE.toml, reads them, and options given here win.\n",
                    num_shown, fields.list().size(), verb, verb);
}

/// A text in a cell of a table.
std::string cell(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '|' || c == '<' || c == '*') out += '\\';
    out += c;
  }
  return out;
}

std::string number_text(const Field& field, double number) {
  bool is_whole = std::holds_alternative<int64_t*>(field.slot);
  return is_whole ? std::to_string(static_cast<int64_t>(number)) : fmt::format("{}", number);
}

/// What an option may be, by its row: "lora, dora", "1 to 64", "at least 0 steps"; "" where the row does not say.
std::string domain_of(const Field& field) {
  auto words = field.choices;
  std::erase(words, "");
  if (!words.empty()) return join(words);
  std::string text;
  if (field.least && field.most) text = number_text(field, *field.least) + " to " + number_text(field, *field.most);
  else if (field.least) text = "at least " + number_text(field, *field.least);
  else if (field.most) text = "at most " + number_text(field, *field.most);
  return text + (text.empty() || field.unit.empty() ? "" : " ") + field.unit;
}

const char* kind_of(const Field& field) {
  static constexpr std::array kKinds{"text", "whole number", "number", "truth value", "list of texts"};
  return kKinds.at(field.slot.index());
}

nlohmann::json value_of(const Field& field) {
  return std::visit([](const auto* value) { return nlohmann::json(*value); }, field.slot);
}

nlohmann::json row_of(const Field& field) {
  static constexpr std::array kLevels{"first_run", "usual", "all"};
  nlohmann::json row{{"name", field.name},
                     {"group", field.group},
                     {"type", kind_of(field)},
                     {"default", value_of(field)},
                     {"meaning", field.doc},
                     {"level", kLevels.at(static_cast<size_t>(field.level))},
                     {"names_files", field.relocate != nullptr},
                     {"decides_what_is_learned", field.decides_what_is_learned}};
  if (!field.label.empty()) row["label"] = field.label;
  if (field.acts_outside) row["acts_outside"] = true;
  if (!field.aliases.empty()) row["aliases"] = field.aliases;
  if (!field.choices.empty()) row["choices"] = field.choices;
  if (field.least) row["least"] = *field.least;
  if (field.most) row["most"] = *field.most;
  if (!field.unit.empty()) row["unit"] = field.unit;
  for (const auto& condition : field.conditions) row["belongs_to"].push_back(condition.belongs_to);
  return row;
}

/// A line an option, for completion in shells: its name, a tab, and what it is.
std::string to_names(const Fields& fields) {
  std::string lines;
  for (const auto& field : fields.list()) {
    if (!field.positional) lines += fmt::format("--{}\t{}\n", field.name, meaning_of(field));
  }
  return lines;
}

/// A line a word that an option may be, for completion in shells. `option`: as it is spelled there.
std::string to_choices(const Fields& fields, std::string option) {
  option.erase(0, option.find_first_not_of('-'));
  std::ranges::replace(option, '-', '_');
  for (const auto& field : fields.list()) {
    if (field.name != option && !contains(field.aliases, option)) continue;
    auto words = field.choices;
    std::erase(words, "");
    return words.empty() ? "" : join(words, "\n") + "\n";
  }
  return "";
}

}  // namespace

std::string to_markdown(const std::string& verb, const std::string& summary, const Fields& fields) {
  auto page = fmt::format("## burnish {}\n\n{}\n", verb, cell(summary));
  const std::string* group = nullptr;
  for (const auto& field : fields.list()) {
    if (group == nullptr || field.group != *group) {
      if (!field.group.empty()) page += fmt::format("\n### {}\n", field.group);
      page += "\n| option | not given | may be | meaning |\n|---|---|---|---|\n";
    }
    group = &field.group;
    page +=
        fmt::format("| `{}` | `{}` | {} | {} |\n", all_names(field), value_text(field), cell(domain_of(field)), cell(meaning_of(field)));
  }
  if (!fields.without_effect().empty()) page += fmt::format("\n### {}\n\n| option | why |\n|---|---|\n", fields.title_no_effect());
  for (const auto& option : fields.without_effect()) page += fmt::format("| `--{}` | {} |\n", option.name, cell(option.text));
  if (!fields.refused().empty()) page += "\n### Refused\n\n| option | what to do |\n|---|---|\n";
  for (const auto& option : fields.refused()) page += fmt::format("| `--{}` | {} |\n", option.name, cell(option.text));
  return page;
}

std::string to_json(const std::string& verb, const std::string& summary, const Fields& fields) {
  nlohmann::json page{{"verb", verb}, {"summary", summary}, {"options", nlohmann::json::array()}};
  for (const auto& field : fields.list()) page["options"].push_back(row_of(field));
  return page.dump(2) + "\n";
}

std::string help_of(const std::string& verb, const std::string& summary, const Fields& fields, const std::vector<std::string>& args) {
  if (contains(args, "--markdown")) return to_markdown(verb, summary, fields);
  if (contains(args, "--names")) return to_names(fields);
  if (auto asked = std::ranges::find(args, "--choices"); asked != args.end())
    return asked + 1 == args.end() ? "" : to_choices(fields, *(asked + 1));
  if (contains(args, "--json")) return to_json(verb, summary, fields);
  bool has_first = std::ranges::any_of(fields.list(), [](const auto& field) { return field.level == Level::first_run; });
  bool all = contains(args, "all") || contains(args, "--all");
  return has_first && !all ? first_page(verb, summary, fields) : help_page(verb, summary, fields);
}

}  // namespace burnish::config
