#include "config/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/input_error.h"
#include "base/number.h"
#include "base/overloaded.h"
#include "base/text.h"
#include "base/typed_path.h"
#include "config/pages.h"
#include "config/problems.h"

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

bool is_whole_number(const std::string& text) { return parse_number<int64_t>(text).has_value(); }
bool is_number(const std::string& text) { return parse_any_number<double>(text).has_value(); }

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

/// What a command line becomes, and what is wrong with it.
class CommandLine {
 public:
  explicit CommandLine(const Fields& fields) : fields_(fields), problems_(fields) {}

  Problems& problems() { return problems_; }

  /// Takes from the end of `args` options whose value is missing.
  void take_unfinished(std::vector<std::string>& args) {
    if (contains(args, "--")) return;  // behind which nothing is an option
    bool goes_on = true;
    while (goes_on && !args.empty()) goes_on = take_last(args);
  }

  /// Lists a field for CLI11. Values are judged here, for it would cut numbers that are too large, take whatever follows an option that
  /// needs a value, and say what is wrong in words of its own. A value that is wrong leaves the field as it is.
  void add_to(CLI::App& app, const Field& field) {
    auto names = spellings(field);
    auto last = CLI::MultiOptionPolicy::TakeLast;
    std::visit(
        Overloaded{
            [&](bool* v) {
              app.add_flag(names + "{true}", *v)
                  ->expected(0, 1)
                  ->transform(judged(field, is_truth_value, "true or false", *v ? "true" : "false"));
            },
            [&](std::vector<std::string>* v) {
              auto* option = app.add_option(names, *v)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
              option->transform(judged_text(field, ""));
              option->allow_extra_args(field.positional);  // of others each value has the option's name before it
            },
            [&](int64_t* v) {
              app.add_option(names, *v)->multi_option_policy(last)->transform(
                  judged(field, is_whole_number, "a whole number of 64 bits", std::to_string(*v)));
            },
            [&](double* v) {
              app.add_option(names, *v)->multi_option_policy(last)->transform(judged(field, is_number, "a number", fmt::format("{}", *v)));
            },
            [&](std::string* v) { app.add_option(names, *v)->multi_option_policy(last)->transform(judged_text(field, *v)); },
        },
        field.slot);
  }

  /// Refuses words that are no options. What follows an unknown option is its value.
  void refuse_extras(const std::vector<std::string>& extras) {
    bool may_be_value = has_lost_value_, follows_word = false;
    for (const auto& word : extras) {
      if (!word.starts_with('-')) {
        if (std::exchange(may_be_value, has_lost_value_)) continue;
        if (std::exchange(follows_word, true)) continue;  // of words behind each other the first stands for all
        problems_.add_about("",
                            fmt::format("'{}' belongs to no option; put quotes around a text of several words, and name an option again "
                                        "for each value",
                                        word));
        continue;
      }
      follows_word = false;
      auto name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
      may_be_value = name.find('=') == name.npos;
      name = name.substr(0, name.find('='));
      std::replace(name.begin(), name.end(), '-', '_');
      refuse(name, why_unknown("option", name, fields_));
      problems_.settle(nearest_name(name, fields_.names()));  // which is missing, perhaps
    }
  }

 private:
  using Judge = std::function<std::string(std::string)>;

  /// Whether the last of `args` is an option that lacks its value, which is then said.
  bool take_last(std::vector<std::string>& args) {
    auto needs_value = [&](const std::string& spellings) { return contains(split_list(spellings), args.back()); };
    std::string option = args.back() == "--config" ? "config" : "";
    for (const auto& field : fields_.list()) {
      bool is_flag = std::holds_alternative<bool*>(field.slot) || field.positional;
      if (!is_flag && needs_value(spellings(field))) option = field.name;
    }
    for (const auto& foreign : fields_.without_effect()) {
      if (foreign.takes_value && needs_value(all_spellings({foreign.name}))) option = foreign.name;
    }
    if (option.empty()) return false;
    refuse(option, fmt::format("{} needs a value (--help lists the options)", args.back()));
    args.pop_back();
    return true;
  }

  void refuse(const std::string& option, std::string sentence) {
    problems_.add_about(option, std::move(sentence));
    problems_.settle(option);
  }

  Judge judged(const Field& field, bool (*is_kind)(const std::string&), const char* kind, std::string instead) {
    return [this, &field, is_kind, kind, instead = std::move(instead)](std::string text) {
      if (is_kind(text)) return text;
      refuse(field.name, fmt::format("{} must be {}, not '{}'", field.name, kind, text));
      return instead;
    };
  }

  Judge judged_text(const Field& field, std::string instead) {
    return [this, &field, instead = std::move(instead)](std::string text) {
      if (!field.positional && !is_utf8(text)) {
        refuse(field.name, fmt::format("the value of {} is not UTF-8, in which it will be written; give it in that encoding", field.name));
        return instead;
      }
      auto name = text.starts_with("--") ? text.substr(2) : "";
      std::replace(name.begin(), name.end(), '-', '_');
      if (!contains(fields_.names(), name)) return text;
      refuse(field.name, fmt::format("--{} needs a value, and the option {} follows", field.name, text));
      has_lost_value_ = true;
      return instead;
    };
  }

  const Fields& fields_;
  Problems problems_;
  bool has_lost_value_ = false;  ///< an option was taken for a value, and its own stands alone
};

/// The option by which whoever types it trusts the file of settings.
constexpr const char* kTrust = "trust_settings";

/// The TOML file that `args` name with --config; "" where they name none.
std::string config_of(const std::vector<std::string>& args) {
  std::string path;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--config" && i + 1 < args.size()) path = args[i + 1];
    if (args[i].starts_with("--config=")) path = args[i].substr(9);
  }
  return typed_path(path);
}

/// A flag takes the word behind it only if that says true or false: it may be a file, which follows "--json".
std::vector<std::string> with_flags_closed(std::vector<std::string> args, const Fields& fields) {
  const auto end = std::ranges::find(args, "--");
  for (const auto& field : fields.list()) {
    if (!std::holds_alternative<bool*>(field.slot)) continue;
    const auto names = split_list(spellings(field));
    for (auto arg = args.begin(); arg != end && arg + 1 != end; ++arg) {
      if (contains(names, *arg) && !(arg + 1)->starts_with('-') && !is_truth_value(*(arg + 1))) *arg += "=true";
    }
  }
  return args;
}

/// Lists for CLI11 what `args` name.
void list_named(CLI::App& app, const std::vector<std::string>& args, const Fields& fields, CommandLine& line, std::string& ignored) {
  for (const auto& field : fields.list()) {
    bool named = !field.positional && is_named(spellings(field), args);
    // A list on the command line replaces the list in the file.
    if (auto* list = std::get_if<std::vector<std::string>*>(&field.slot); list && named) (*list)->clear();
    if (named || field.positional) line.add_to(app, field);
  }
  for (const auto& option : fields.without_effect()) {
    auto names = all_spellings({option.name});
    if (!is_named(names, args)) continue;
    if (option.takes_value) app.add_option(names, ignored)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    else app.add_flag(names);
  }
}

/// Says what is wrong, with what `check` finds.
void refuse_problems(Problems& problems, const std::function<void()>& check) {
  if (!check) problems.check_values();
  if (problems.list().empty()) return;
  try {
    if (check) problems.gather(check);
  } catch (const Error&) {  // a file that cannot be read is found again when the options are right
  }
  problems.refuse("config");
}

}  // namespace

Parsed read_command_line(const std::string& verb, const std::string& summary, const std::vector<std::string>& args, const Fields& fields,
                         const std::function<void()>& check) {
  Parsed parsed;
  parsed.help = contains(args, "--help") || contains(args, "-h");
  if (parsed.help) {
    parsed.help_text = help_of(verb, summary, fields, args);
    return parsed;
  }
  CommandLine line(fields);
  auto config_path = config_of(args);
  const bool is_trusted = is_named(all_spellings({kTrust}), args);
  if (!config_path.empty()) line.problems().gather([&] { parsed.without_effect = read_toml(config_path, fields, is_trusted); });

  CLI::App app;
  app.allow_extras();
  app.set_help_flag();
  app.add_option("--config", config_path);
  std::string ignored;
  list_named(app, args, fields, line, ignored);
  auto whole = with_flags_closed(args, fields);
  line.take_unfinished(whole);
  try {
    app.parse(std::vector<std::string>(whole.rbegin(), whole.rend()));
  } catch (const CLI::ParseError& e) {
    config_error("config", "{} (--help lists the options)", e.what());
  }
  for (const auto& option : fields.without_effect()) {
    const auto* named = app.get_option_no_throw("--" + option.name);
    if (named != nullptr && named->count() > 0) parsed.without_effect.push_back(option.name);
  }
  for (const auto& field : fields.list()) {
    const auto* option = app.get_option_no_throw("--" + field.name);  // none for what no argument names
    if (option == nullptr || option->count() == 0) continue;
    parsed.given.push_back(field.name);
    relocate(field, "");  // a shell leaves the ~ of --option=~/x as it is
  }
  auto extras = app.remaining();
  if (config_path.empty() && extras.size() == 1 && extras[0].ends_with(".toml")) {
    auto named = args;
    named.erase(std::ranges::find(named, extras[0]));
    named.insert(named.begin(), {"--config", extras[0]});
    return read_command_line(verb, summary, named, fields, check);
  }
  line.refuse_extras(extras);
  refuse_problems(line.problems(), check);
  return parsed;
}

}  // namespace burnish::config
