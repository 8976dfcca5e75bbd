#include "config/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/overloaded.h"
#include "base/text.h"
#include "config/pages.h"

namespace burnish::config {

namespace {

/// "--max_steps,--max-steps" for each name.
std::string all_spellings(std::vector<std::string> names) {
  std::vector<std::string> all;
  auto add = [&](std::string name) {
    all.push_back("--" + name);
    std::replace(name.begin(), name.end(), '_', '-');
    if (all.back() != "--" + name) all.push_back("--" + name);
  };
  for (auto& name : names) add(std::move(name));
  return join(all, ",");
}

std::string spellings(const Field& field) {
  if (field.positional) return field.name;
  std::vector<std::string> names{field.name};
  names.insert(names.end(), field.aliases.begin(), field.aliases.end());
  return all_spellings(std::move(names));
}

bool is_whole_number(const std::string& text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && *end == 0;
}

bool is_truth_value(const std::string& text) {
  try {
    CLI::detail::to_flag_value(text);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

/// Whether an argument is one of these spellings, alone or with its value behind a '='. CLI11 is told of no others: it looks through all
/// that it knows for each that is added.
bool is_named(const std::string& spellings, const std::vector<std::string>& args) {
  auto list = split_list(spellings);
  return std::ranges::any_of(args, [&](const std::string& arg) { return contains(list, arg.substr(0, arg.find('='))); });
}

/// Lists a field for CLI11. Values are judged here, for it would cut numbers that are too large, take whatever follows an option that needs
/// a value, and say what is wrong in words of its own.
void add_to_app(CLI::App& app, const Field& field, const Fields& fields) {
  auto must_be = [&field](bool (*is_kind)(const std::string&), const char* kind) {
    return [&field, is_kind, kind](const std::string& text) {
      if (!is_kind(text)) config_error("config", "{} must be {}, not '{}'", field.name, kind, text);
      return std::string();
    };
  };
  auto text = [&field, &fields](const std::string& value) {
    if (!field.positional && !is_utf8(value))
      config_error("config", "the value of {} is not UTF-8, in which it will be written; give it in that encoding", field.name);
    if (!value.starts_with("--")) return std::string();
    auto name = value.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    if (contains(fields.names(), name)) config_error("config", "--{} needs a value, and the option {} follows", field.name, value);
    return std::string();
  };
  auto last = CLI::MultiOptionPolicy::TakeLast;
  auto names = spellings(field);
  std::visit(Overloaded{
                 [&](bool* v) { app.add_flag(names + "{true}", *v)->expected(0, 1)->check(must_be(is_truth_value, "true or false")); },
                 [&](std::vector<std::string>* v) {
                   auto* option = app.add_option(names, *v)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->check(text);
                   option->allow_extra_args(field.positional);  // of others each value has the option's name before it
                 },
                 [&](int64_t* v) {
                   app.add_option(names, *v)->multi_option_policy(last)->check(must_be(is_whole_number, "a whole number of 64 bits"));
                 },
                 [&](double* v) { app.add_option(names, *v)->multi_option_policy(last)->check(must_be(is_number, "a number")); },
                 [&](std::string* v) { app.add_option(names, *v)->multi_option_policy(last)->check(text); },
             },
             field.slot);
}

}  // namespace

Parsed read_command_line(const std::string& verb, const std::string& summary, const std::vector<std::string>& args, const Fields& fields) {
  Parsed parsed;
  std::string config_path;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--help" || args[i] == "-h") parsed.help = true;
    if (args[i] == "--config" && i + 1 < args.size()) config_path = args[i + 1];
    if (args[i].starts_with("--config=")) config_path = args[i].substr(9);
  }
  if (parsed.help) {
    parsed.help_text = help_of(verb, summary, fields, args);
    return parsed;
  }
  if (!config_path.empty()) parsed.without_effect = read_toml(config_path, fields);

  CLI::App app;
  app.allow_extras();
  app.set_help_flag();
  app.add_option("--config", config_path);
  for (const auto& field : fields.list()) {
    bool named = !field.positional && is_named(spellings(field), args);
    // A list on the command line replaces the list in the file.
    if (auto* list = std::get_if<std::vector<std::string>*>(&field.slot); list && named) (*list)->clear();
    if (named || field.positional) add_to_app(app, field, fields);
  }
  std::string ignored;
  for (const auto& option : fields.without_effect()) {
    auto names = all_spellings({option.name});
    if (!is_named(names, args)) continue;
    if (option.takes_value) app.add_option(names, ignored)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    else app.add_flag(names);
  }
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& e) {
    std::string what = e.what();  // begins with the option and a colon
    config_error("config", "{} needs a value (--help lists the options)", what.substr(0, what.find(':')));
  } catch (const CLI::ParseError& e) {
    config_error("config", "{} (--help lists the options)", e.what());
  }
  for (const auto& option : fields.without_effect()) {
    const auto* named = app.get_option_no_throw("--" + option.name);
    if (named != nullptr && named->count() > 0) parsed.without_effect.push_back(option.name);
  }
  for (const auto& field : fields.list()) {
    const auto* option = app.get_option_no_throw("--" + field.name);  // none for what no argument names
    if (option != nullptr && option->count() > 0) parsed.given.push_back(field.name);
  }
  auto extras = app.remaining();
  if (config_path.empty() && extras.size() == 1 && extras[0].ends_with(".toml")) {
    auto named = args;
    named.erase(std::ranges::find(named, extras[0]));
    named.insert(named.begin(), {"--config", extras[0]});
    return read_command_line(verb, summary, named, fields);
  }
  if (!extras.empty()) {
    if (!extras[0].starts_with('-'))
      config_error("config",
                   "'{}' belongs to no option; put quotes around a text of several words, and name an option again for each value",
                   extras[0]);
    auto name = extras[0].substr(std::min(extras[0].find_first_not_of('-'), extras[0].size()));
    std::replace(name.begin(), name.end(), '-', '_');
    refuse_unknown("option", name.substr(0, name.find('=')), fields);
  }
  return parsed;
}

}  // namespace burnish::config
