#include "foreign/settings.h"

#include <fmt/core.h>
#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <vector>

#include "base/escapes.h"
#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "foreign/batch_script.h"
#include "foreign/shell_script.h"
#include "io/files.h"

namespace burnish::foreign {

namespace {

Value value_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    auto object = Value::object();
    for (const auto& [key, item] : *table) object[std::string(key.str())] = value_of(item);
    return object;
  }
  if (const auto* array = node.as_array()) {
    auto list = Value::array();
    for (const auto& item : *array) list.push_back(value_of(item));
    return list;
  }
  if (const auto* text = node.as_string()) return **text;
  if (const auto* whole = node.as_integer()) return **whole;
  if (const auto* number = node.as_floating_point()) return **number;
  if (const auto* truth = node.as_boolean()) return **truth;
  return nullptr;  // a date, which no setting is
}

/// The parser takes neither bounds nor a budget, so files that grow as they are read are refused by what they come to.
constexpr size_t kMostNodes = 100'000;
constexpr int kMostLevels = 50;

/// YAML's plain scalars, as programs in Python read them.
Value scalar_of(const YAML::Node& node) {
  const auto& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text.empty() || text == "~" || text == "null") return nullptr;
  auto word = lower(text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  if (const auto whole = parse_number<int64_t>(text)) return *whole;
  if (auto number = number_of(Value(text))) return *number;
  return text;
}

Value value_of(const YAML::Node& node, size_t& num_nodes, int level) {
  if (++num_nodes > kMostNodes || level > kMostLevels) throw YAML::Exception(node.Mark(), "more than settings hold");
  if (node.IsMap()) {
    auto object = Value::object();
    for (const auto& entry : node) object[entry.first.Scalar()] = value_of(entry.second, num_nodes, level + 1);
    return object;
  }
  if (node.IsSequence()) {
    auto list = Value::array();
    for (const auto& item : node) list.push_back(value_of(item, num_nodes, level + 1));
    return list;
  }
  return node.IsScalar() ? scalar_of(node) : Value();
}

/// Reads the words [first, last) of a command as options into an object, and adds to `unread` what is neither.
Value options_of(const Command& words, size_t first, size_t last, std::vector<std::string>& unread) {
  auto object = Value::object();
  std::string open;  // the option that the next words are values of
  for (size_t i = first; i < last; ++i) {
    const auto variables = of_scripts::variables_in(words[i]);
    const bool is_variable = of_scripts::is_variable(words[i]);
    const auto word = of_scripts::plain(words[i]);
    unread.insert(unread.end(), variables.begin(), variables.end());
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      open = word.substr(2, equals == word.npos ? word.npos : equals - 2);
      std::replace(open.begin(), open.end(), '-', '_');
      object[open] = equals == word.npos ? Value(true) : Value(word.substr(equals + 1));
    } else if (open.empty()) {
      if (variables.empty()) unread.push_back(word);
    } else if (auto& value = object[open]; value.is_boolean()) {
      value = word;
    } else if (!is_variable) {  // which may hold further options as well
      if (!value.is_array()) value = Value::array({value});
      value.push_back(word);
    }
  }
  return object;
}

/// Reads what stands before a script: the launcher's options, whose other words say nothing of a run.
Value launch_of(const Command& words, size_t last, std::vector<std::string>& unread) {
  std::vector<std::string> all;
  auto launch = options_of(words, 0, last, all);
  std::ranges::copy_if(all, std::back_inserter(unread), of_scripts::is_variable);
  return launch;
}

Value with_unread(Value object, std::vector<std::string> unread) {
  std::vector<std::string> once;
  for (auto& word : unread) {
    if (!contains(once, word)) once.push_back(std::move(word));
  }
  if (!once.empty()) object[kUnread] = once;
  return object;
}

/// Puts the variables of an environment that are set so far into a value of it.
std::string with_variables_of(const Value& environment, std::string text) {
  for (const auto& variable : of_scripts::variables_in(text)) {
    auto name = variable.substr(1);
    std::erase_if(name, [](char c) { return c == '{' || c == '}'; });
    if (environment.contains(name)) text.replace(text.find(variable), variable.size(), text_of(environment[name]));
    of_scripts::check_size(text.size());
  }
  return text;
}

void unfold(const Value& tree, const std::string& prefix, std::map<std::string, Value>& values) {
  for (const auto& [key, value] : tree.items()) {
    if (value.is_object()) unfold(value, prefix + key + ".", values);
    else if (!value.is_null()) values[prefix + key] = value;
  }
}

}  // namespace

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Value parse_toml(const std::string& text, const std::string& name) {
  try {
    return value_of(toml::parse(text));
  } catch (const toml::parse_error& e) {
    data_error("import", "{} line {}: {}{}", name, e.source().begin.line, std::string(e.description()), hint_in_toml(e.description()));
  }
}

Value parse_yaml(const std::string& text, const std::string& name) {
  try {
    size_t num_nodes = 0;
    return value_of(YAML::Load(text), num_nodes, 0);
  } catch (const YAML::Exception& e) {
    data_error("import", "{} line {}: {}{}", name, e.mark.line + 1, e.msg, hint_in_toml(e.msg));
  }
}

Value parse_json(const std::string& text, const std::string& name) {
  auto not_too_deep = [&](int depth, Value::parse_event_t, Value&) {
    if (depth > kMostLevels) data_error("import", "{}: values are nested deeper than {} levels", name, kMostLevels);
    return true;
  };
  try {
    return Value::parse(text, not_too_deep);
  } catch (const Value::exception& e) {
    data_error("import", "{} is not valid JSON{}", name, hint_in_json(e.what()));
  }
}

Value parse_command_line(std::string_view text, bool is_batch_file) {
  auto commands = is_batch_file || looks_like_batch(text) ? commands_of_batch(text) : commands_of_shell(text);
  auto is_script = [](const std::string& word) { return word.ends_with(".py"); };
  auto starts = [&](const Command& words) { return std::ranges::any_of(words, is_script); };
  // Scripts that prepare what another trains with come before it.
  auto trains = [&](const Command& words) {
    auto script = std::ranges::find_if(words, is_script);
    return script != words.end() && std::filesystem::path(*script).filename().string().find("train") != std::string::npos;
  };
  auto command = std::ranges::find_if(commands, trains);
  if (command == commands.end()) command = std::ranges::find_if(commands, starts);
  std::vector<std::string> unread;
  if (command == commands.end()) {
    Command all;
    for (const auto& words : commands) all.insert(all.end(), words.begin(), words.end());
    auto options = launch_of(all, all.size(), unread);
    return with_unread(options, unread);
  }
  auto at = static_cast<size_t>(std::ranges::find_if(*command, is_script) - command->begin());
  auto object = options_of(*command, at + 1, command->size(), unread);
  object["script"] = std::filesystem::path((*command)[at]).filename().string();
  if (auto launch = launch_of(*command, at, unread); !launch.empty()) object["launch"] = launch;
  return with_unread(object, unread);
}

Value parse_environment(const std::string& text) {
  auto object = Value::object();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto rest = trim(line);
    if (rest.starts_with('#')) continue;
    if (rest.starts_with("export ")) rest = trim(rest.substr(7));
    const auto equals = rest.find('=');
    if (equals == rest.npos || equals == 0) continue;
    const bool adds = rest[equals - 1] == '+';
    const std::string name(trim(rest.substr(0, equals - (adds ? 1 : 0))));
    auto value = trim(rest.substr(equals + 1));
    const bool is_quoted = value.size() > 1 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0];
    if (is_quoted) value = value.substr(1, value.size() - 2);
    const auto given = with_variables_of(object, std::string(adds ? trim(value) : value));
    object[name] = adds ? text_of(object.value(name, Value(""))) + " " + given : given;
  }
  return object;
}

Value read_settings_file(const std::filesystem::path& path) {
  auto text = io::read_text(path);
  auto name = path.string();
  if (!is_utf8(text)) data_error("import", "{} is not UTF-8 text; name a settings file, or a command line in a text file", name);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  auto ending = lower(path.extension().string());
  auto tree = ending == ".toml"                       ? parse_toml(text, name)
              : ending == ".json"                     ? parse_json(text, name)
              : ending == ".yaml" || ending == ".yml" ? parse_yaml(text, name)
              : ending == ".env"                      ? parse_environment(text)
                                                      : parse_command_line(text, ending == ".bat" || ending == ".cmd");
  if (!tree.is_object() && !tree.is_array()) data_error("import", "{} holds no settings", name);
  return tree;
}

std::string text_of(const Value& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

bool asks_for_something(const Value& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (!value.is_string()) return !value.empty();
  auto word = lower(value.get<std::string>());
  return !(word.empty() || word == "false" || word == "none" || word == "off" || word == "never" || word == "no" || word == "0");
}

std::optional<double> number_of(const Value& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return {};
  return parse_number<double>(value.get<std::string>());
}

Settings::Settings(const Value& tree) { unfold(tree, "", values_); }

const Value* Settings::find(const std::string& name) const {
  auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

bool Settings::on(const std::string& name) const {
  const auto* value = find(name);
  return value && asks_for_something(*value);
}

std::string Settings::text(const std::string& name, const std::string& otherwise) const {
  const auto* value = find(name);
  return value ? text_of(*value) : otherwise;
}

std::optional<double> Settings::number(const std::string& name) const {
  const auto* value = find(name);
  return value ? number_of(*value) : std::nullopt;
}

}  // namespace burnish::foreign
