#include "config/fields.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "base/error.h"
#include "base/escapes.h"
#include "base/input_error.h"
#include "base/overloaded.h"
#include "base/shortened.h"
#include "base/text.h"
#include "base/typed_path.h"
#include "config/named_file.h"
#include "config/refusal.h"

namespace burnish::config {

namespace {

const ForeignOption* find(const std::vector<ForeignOption>& options, const std::string& name) {
  auto it = std::find_if(options.begin(), options.end(), [&](const ForeignOption& o) { return o.name == name; });
  return it == options.end() ? nullptr : &*it;
}

/// A key of a TOML file as it is written there, for messages.
struct Key {
  std::string file;  ///< "" of a text
  std::string name;

  std::string at(const toml::node& node) const {
    auto line = fmt::format("line {}: '{}'", node.source().begin.line, name);
    return file.empty() ? line : file + " " + line;
  }
};

/// A value as TOML writes it, or how it begins.
std::string shown(const toml::node& node) {
  std::ostringstream text;
  text << toml::toml_formatter(node);
  constexpr size_t kLongest = 60;
  return shortened(one_line(text.str()), kLongest);
}

/// The node as T, of which it must be already: no number becomes a truth value, no fraction a whole number.
template <class T>
T toml_value(const toml::node& node, const Key& key, const char* kind) {
  if (auto value = node.value_exact<T>()) return *value;
  if constexpr (std::is_same_v<T, double>) {
    if (auto whole = node.value_exact<int64_t>()) return static_cast<double>(*whole);  // rounded where it is beyond 2^53
  }
  config_error("config", "{} must be {}, not {}", key.at(node), kind, shown(node));
}

bool is_whole_numbers(const toml::node& node) {
  const auto* array = node.as_array();
  return node.is_integer() || (array != nullptr && !array->empty() && array->is_homogeneous<int64_t>());
}

std::string numbers_text(const toml::node& node) {
  std::vector<std::string> numbers;
  if (node.is_integer()) return std::to_string(node.value<int64_t>().value());
  for (const auto& item : *node.as_array()) numbers.push_back(std::to_string(item.value<int64_t>().value()));
  return join(numbers, ",");
}

void assign(const Field& field, const toml::node& node, const Key& key) {
  std::visit(Overloaded{
                 [&](std::string* v) { *v = toml_value<std::string>(node, key, "a text"); },
                 [&](int64_t* v) { *v = toml_value<int64_t>(node, key, "a whole number"); },
                 [&](double* v) { *v = toml_value<double>(node, key, "a number"); },
                 [&](bool* v) { *v = toml_value<bool>(node, key, "true or false"); },
                 [&](std::vector<std::string>* v) {
                   v->clear();
                   const auto* array = node.as_array();
                   if (field.takes_numbers && is_whole_numbers(node)) {
                     v->push_back(numbers_text(node));
                   } else if (array != nullptr) {
                     for (const auto& item : *array)
                       v->push_back(field.takes_numbers && is_whole_numbers(item) ? numbers_text(item)
                                                                                  : toml_value<std::string>(item, key, "a list of texts"));
                   } else {
                     v->push_back(toml_value<std::string>(node, key, "a text or a list of texts"));
                   }
                 },
             },
             field.slot);
}

/// A path that was written with the backslashes of Windows: "D:\train" is one with a tab.
void check_path(const Field& field, const toml::node& node, const Key& key) {
  if (!field.relocate) return;
  auto check = [&](const std::string& text) {
    if (holds_escapes(text))
      config_error("config", "{} is {}, where a backslash in double quotes began an escape; write a path in single quotes, or with /",
                   key.at(node), shown(node));
  };
  if (const auto* text = std::get_if<std::string*>(&field.slot)) check(**text);
  if (const auto* list = std::get_if<std::vector<std::string>*>(&field.slot)) std::ranges::for_each(**list, check);
}

std::string toml_quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else if (code < 0x20 || code == 0x7F) out += fmt::format("\\u{:04X}", code);
    else out += c;
  }
  return out + "\"";
}

/// The first option that is called so elsewhere; "" where there is none.
std::string everyday_name(const std::string& word, const Fields& fields) {
  const auto called = std::ranges::find_if(fields.list(), [&](const auto& field) { return contains(field.called_else, word); });
  return called == fields.list().end() ? "" : called->name;
}

}  // namespace

std::string why_unknown(const std::string& where, const std::string& name, const Fields& fields) {
  if (const auto* option = find(fields.refused(), name)) return fmt::format("{} '{}' is not supported: {}", where, name, option->text);
  if (const auto ours = everyday_name(name, fields); !ours.empty()) return fmt::format("{} '{}' is called {} here", where, name, ours);
  auto near = nearest_name(name, fields.names());
  return fmt::format("{} '{}' is not known{}", where, name,
                     near.empty() ? "; --help lists the options" : fmt::format("; did you mean '{}'?", near));
}

std::string value_text(const Field& field) {
  return std::visit(Overloaded{
                        [](std::string* v) { return toml_quoted(*v); },
                        [](int64_t* v) { return std::to_string(*v); },
                        [](double* v) {
                          auto text = fmt::format("{}", *v);
                          return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
                        },
                        [](bool* v) { return std::string(*v ? "true" : "false"); },
                        [](std::vector<std::string>* v) {
                          std::vector<std::string> parts;
                          for (const auto& item : *v) parts.push_back(toml_quoted(item));
                          return "[" + join(parts) + "]";
                        },
                    },
                    field.slot);
}

std::string either(std::vector<std::string> words) {
  std::erase(words, "");
  std::vector<std::string> first(words.begin(), words.end() - 1);
  return first.empty() ? words.back() : join(first) + " or " + words.back();
}

Row& Row::known(std::vector<std::string> choices) {
  constexpr std::string_view kWords = "{words}";
  if (auto at = field_->doc.find(kWords); at != std::string::npos) {
    auto named = choices;
    std::erase(named, "default");  // which a doc explains
    field_->doc.replace(at, kWords.size(), either(named));
  }
  return field_->choices = std::move(choices), *this;
}

Row Fields::row(const std::string& name) {
  auto found = std::ranges::find(list_, name, &Field::name);
  if (found == list_.end()) throw std::logic_error("no option is called " + name);
  return Row(*found);
}

std::vector<std::string> Fields::names() const {
  std::vector<std::string> names;
  for (const auto& field : list_) names.push_back(field.name);
  for (const auto& option : no_effect_) names.push_back(option.name);
  return names;
}

namespace {

toml::table parse_toml(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) data_error("config", "cannot read {}: {}", path, failed ? failed.message() : "no such file");
  if (!std::filesystem::is_regular_file(path, failed)) data_error("config", "cannot read {}: it is not a regular file", path);
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& e) {
    data_error("config", "{} line {}: {}{}", path, e.source().begin.line, std::string(e.description()), hint_in_toml(e.description()));
  }
}

void refuse_to_act(const Field& field) {
  config_error("config",
               "{} in a settings file has something done outside of the run, for which the file has to be trusted: look at it, then add "
               "--trust_settings, or give --{} yourself",
               field.name, field.name);
}

/// Holds what else read_table takes.
struct Reading {
  std::string other = "";   ///< a key that is read elsewhere
  bool is_trusted = false;  ///< whether options may act outside
};

/// Reads the keys of a table of the file `path`, in whose folder file names begin, and returns those without effect. A Refusal says all
/// that is wrong with them.
std::vector<std::string> read_table(const toml::table& table, const std::string& path, const Fields& fields, const Reading& reading) {
  std::vector<std::string> without_effect;
  std::vector<Problem> problems;
  for (const auto& [key, node] : table) {
    std::string name(key.str());
    if (name == reading.other) continue;
    std::replace(name.begin(), name.end(), '-', '_');
    if (find(fields.without_effect(), name)) {
      without_effect.push_back(name);
      continue;
    }
    auto field = std::find_if(fields.list().begin(), fields.list().end(), [&](const Field& f) {
      return f.name == name || std::find(f.aliases.begin(), f.aliases.end(), name) != f.aliases.end();
    });
    if (field == fields.list().end()) {
      problems.push_back({name, why_unknown(fmt::format("{} line {}: the key", path, key.source().begin.line), name, fields)});
      continue;
    }
    try {
      if (field->acts_outside && !reading.is_trusted) refuse_to_act(*field);
      assign(*field, node, {path, std::string(key.str())});
      check_path(*field, node, {path, std::string(key.str())});
      relocate(*field, std::filesystem::path(path).parent_path());
    } catch (const Error& error) {
      problems.push_back({name, without_source(error)});
    }
  }
  if (!problems.empty()) throw Refusal("config", std::move(problems));
  return without_effect;
}

/// The tables of [[name]], none where it is not there.
std::vector<const toml::table*> tables_in(const toml::table& table, const std::string& name, const std::string& path) {
  std::vector<const toml::table*> tables;
  const auto* node = table.get(name);
  if (node == nullptr) return tables;
  const auto* array = node->as_array();
  for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (const auto* item = array->get(i)->as_table()) tables.push_back(item);
  }
  if (array == nullptr || tables.size() != array->size())
    config_error("config", "{}: '{}' must be a list of tables, written [[{}]]", path, name, name);
  return tables;
}

}  // namespace

std::string seen_from(const std::string& given, const std::filesystem::path& folder) {
  const auto name = typed_path(given);
  const bool is_address = name.find("://") != name.npos;
  bool stays = name.empty() || folder.empty() || is_address || std::filesystem::path(name).is_absolute() || is_path_of_windows(name);
  return stays ? name : (folder / name).lexically_normal().string();
}

std::string seen_from_if_there(const std::string& name, const std::filesystem::path& folder) {
  auto found = seen_from(name, folder);
  return named_file(found) ? found : typed_path(name);
}

void relocate(const Field& field, const std::filesystem::path& folder) {
  if (!field.relocate) return;
  if (auto* text = std::get_if<std::string*>(&field.slot)) **text = field.relocate(**text, folder);
  if (auto* list = std::get_if<std::vector<std::string>*>(&field.slot)) {
    for (auto& text : **list) text = field.relocate(text, folder);
  }
}

std::vector<std::string> read_toml(const std::string& path, const Fields& fields, bool is_trusted) {
  return read_table(parse_toml(path), path, fields, {.is_trusted = is_trusted});
}

std::vector<std::string> read_toml_text(const std::string& text, const Fields& fields, bool is_trusted) {
  try {
    return read_table(toml::parse(text), "", fields, {.is_trusted = is_trusted});
  } catch (const toml::parse_error& e) {
    data_error("config", "line {}: {}{}", e.source().begin.line, std::string(e.description()), hint_in_toml(e.description()));
  }
}

void read_toml_items(const std::string& path, const std::string& list, const std::string& items, const std::function<Fields()>& begin) {
  const auto file = parse_toml(path);
  const toml::table nothing;
  const auto* general = file["general"].as_table();
  for (const auto& [key, node] : file) {
    if (key.str() != "general" && key.str() != list)
      config_error("config", "{}: '{}' stands outside of [general] and [[{}]]; put it into one of them", path, std::string(key.str()),
                   list);
  }
  for (const auto* entry : tables_in(file, list, path)) {
    auto below = tables_in(*entry, items, path);
    if (below.empty()) below.push_back(&nothing);
    for (const auto* item : below) {
      auto fields = begin();
      read_table(general != nullptr ? *general : nothing, path, fields, {});
      read_table(*entry, path, fields, {.other = items});
      read_table(*item, path, fields, {});
    }
  }
}

std::string to_toml(const Fields& fields) {
  std::string text, group;
  for (const auto& field : fields.list()) {
    if (field.acts_outside) continue;
    if (field.group != group) text += fmt::format("{}# {}\n", text.empty() ? "" : "\n", group = field.group);
    text += fmt::format("{} = {}  # {}\n", field.name, value_text(field), field.doc);
  }
  return text;
}

}  // namespace burnish::config
