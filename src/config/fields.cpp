#include "config/fields.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/text.h"

namespace burnish::config {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

const ForeignOption* find(const std::vector<ForeignOption>& options, const std::string& name) {
  auto it = std::find_if(options.begin(), options.end(), [&](const ForeignOption& o) { return o.name == name; });
  return it == options.end() ? nullptr : &*it;
}

[[noreturn]] void unknown(const std::string& where, const std::string& name, const Fields& fields) {
  if (const auto* option = find(fields.refused(), name)) config_error("config", "{} '{}' is not supported: {}", where, name, option->text);
  auto near = nearest_name(name, fields.names());
  config_error("config", "{} '{}' is not known{}", where, name,
               near.empty() ? "; --help lists the options" : fmt::format("; did you mean '{}'?", near));
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
  auto whole = one_line(text.str());
  if (whole.size() <= kLongest) return whole;
  auto end = kLongest;
  while ((static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) --end;  // no half of a character
  return whole.substr(0, end) + "...";
}

/// The node as T, of which it must be already: no number becomes a truth value, no fraction a whole number.
template <class T>
T toml_value(const toml::node& node, const Key& key, const char* kind) {
  if (auto value = node.value_exact<T>()) return *value;
  if (auto whole = node.value_exact<int64_t>(); whole && std::is_same_v<T, double>) return node.value<T>().value();
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

}  // namespace

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

/// "--preview_steps, --sample_every_n_steps": the name and its aliases.
std::string all_names(const Field& field) {
  if (field.positional) return field.name + "...";
  auto names = "--" + field.name;
  for (const auto& alias : field.aliases) names += ", --" + alias;
  return names;
}

std::string help_page(const std::string& verb, const std::string& summary, const Fields& fields) {
  auto page = fmt::format("burnish {}: {}\n", verb, summary);
  std::string group;
  for (const auto& field : fields.list()) {
    if (field.group != group) page += fmt::format("\n{}\n", group = field.group);
    auto value = value_text(field);
    bool shown = value != "\"\"" && value != "[]" && value != "false";
    page += fmt::format("  {:<30} {}{}\n", all_names(field), field.doc, shown ? fmt::format(" [{}]", value) : "");
  }
  if (!fields.without_effect().empty()) page += fmt::format("\n{}\n", fields.title_no_effect());
  for (const auto& option : fields.without_effect()) page += fmt::format("  --{:<28} {}\n", option.name, option.text);
  return page +
         "\nEvery option is a TOML key of the same name; --config FILE, or a lone FILE.toml, reads them, and options given here win.\n";
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

std::string to_markdown(const std::string& verb, const std::string& summary, const Fields& fields) {
  auto page = fmt::format("## burnish {}\n\n{}\n", verb, cell(summary));
  const std::string* group = nullptr;
  for (const auto& field : fields.list()) {
    if (group == nullptr || field.group != *group) {
      if (!field.group.empty()) page += fmt::format("\n### {}\n", field.group);
      page += "\n| option | not given | meaning |\n|---|---|---|\n";
    }
    group = &field.group;
    page += fmt::format("| `{}` | `{}` | {} |\n", all_names(field), value_text(field), cell(field.doc));
  }
  if (!fields.without_effect().empty()) page += fmt::format("\n### {}\n\n| option | why |\n|---|---|\n", fields.title_no_effect());
  for (const auto& option : fields.without_effect()) page += fmt::format("| `--{}` | {} |\n", option.name, cell(option.text));
  if (!fields.refused().empty()) page += "\n### Refused\n\n| option | what to do |\n|---|---|\n";
  for (const auto& option : fields.refused()) page += fmt::format("| `--{}` | {} |\n", option.name, cell(option.text));
  return page;
}

namespace {

/// A line an option, for completion in shells: its name, a tab, and what it is.
std::string to_names(const Fields& fields) {
  std::string lines;
  for (const auto& field : fields.list()) {
    if (!field.positional) lines += fmt::format("--{}\t{}\n", field.name, field.doc);
  }
  return lines;
}

}  // namespace

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
    data_error("config", "{} line {}: {}", path, e.source().begin.line, std::string(e.description()));
  }
}

/// Reads the keys of a table of the file `path`, in whose folder file names begin, but for `other`, and returns those without effect.
std::vector<std::string> read_table(const toml::table& table, const std::string& path, const Fields& fields,
                                    const std::string& other = "") {
  std::vector<std::string> without_effect;
  for (const auto& [key, node] : table) {
    std::string name(key.str());
    if (name == other) continue;
    std::replace(name.begin(), name.end(), '-', '_');
    if (find(fields.without_effect(), name)) {
      without_effect.push_back(name);
      continue;
    }
    auto field = std::find_if(fields.list().begin(), fields.list().end(), [&](const Field& f) {
      return f.name == name || std::find(f.aliases.begin(), f.aliases.end(), name) != f.aliases.end();
    });
    if (field == fields.list().end()) unknown(fmt::format("{} line {}: the key", path, key.source().begin.line), name, fields);
    assign(*field, node, {path, std::string(key.str())});
    relocate(*field, std::filesystem::path(path).parent_path());
  }
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

std::string seen_from(const std::string& name, const std::filesystem::path& folder) {
  bool stays = name.empty() || folder.empty() || std::filesystem::path(name).is_absolute();
  return stays ? name : (folder / name).lexically_normal().string();
}

std::string seen_from_if_there(const std::string& name, const std::filesystem::path& folder) {
  auto found = seen_from(name, folder);
  std::error_code failed;
  auto colon = found.rfind(':');
  bool is_there =
      std::filesystem::exists(found, failed) || (colon != found.npos && std::filesystem::exists(found.substr(0, colon), failed));
  return is_there ? found : name;
}

void relocate(const Field& field, const std::filesystem::path& folder) {
  if (!field.relocate) return;
  if (auto* text = std::get_if<std::string*>(&field.slot)) **text = field.relocate(**text, folder);
  if (auto* list = std::get_if<std::vector<std::string>*>(&field.slot)) {
    for (auto& text : **list) text = field.relocate(text, folder);
  }
}

std::vector<std::string> read_toml(const std::string& path, const Fields& fields) { return read_table(parse_toml(path), path, fields); }

std::vector<std::string> read_toml_text(const std::string& text, const Fields& fields) {
  try {
    return read_table(toml::parse(text), "", fields);
  } catch (const toml::parse_error& e) {
    data_error("config", "line {}: {}", e.source().begin.line, std::string(e.description()));
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
      read_table(general != nullptr ? *general : nothing, path, fields);
      read_table(*entry, path, fields, items);
      read_table(*item, path, fields);
    }
  }
}

std::string to_toml(const Fields& fields) {
  std::string text, group;
  for (const auto& field : fields.list()) {
    if (field.group != group) text += fmt::format("{}# {}\n", text.empty() ? "" : "\n", group = field.group);
    text += fmt::format("{} = {}  # {}\n", field.name, value_text(field), field.doc);
  }
  return text;
}

Parsed read_command_line(const std::string& verb, const std::string& summary, const std::vector<std::string>& args, const Fields& fields) {
  Parsed parsed;
  std::string config_path;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--help" || args[i] == "-h") parsed.help = true;
    if (args[i] == "--config" && i + 1 < args.size()) config_path = args[i + 1];
    if (args[i].starts_with("--config=")) config_path = args[i].substr(9);
  }
  if (parsed.help) {
    auto beside = [&](const char* style) { return std::find(args.begin(), args.end(), style) != args.end(); };
    parsed.help_text = beside("--markdown") ? to_markdown(verb, summary, fields)
                       : beside("--names")  ? to_names(fields)
                                            : help_page(verb, summary, fields);
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
    unknown("option", name.substr(0, name.find('=')), fields);
  }
  return parsed;
}

}  // namespace burnish::config
