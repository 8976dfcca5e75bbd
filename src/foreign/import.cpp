#include "foreign/import.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "base/typed_path.h"
#include "foreign/recognition.h"
#include "foreign/script_words.h"
#include "io/files.h"

namespace burnish::foreign {

namespace fs = std::filesystem;

namespace {

std::string comment_lines(const std::string& title, const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += "#   " + one_line(line) + "\n";
  return lines.empty() ? "" : "# " + title + ":\n" + text;
}

std::map<std::string, std::string> values_of(const config::Fields& fields) {
  std::map<std::string, std::string> values;
  for (const auto& field : fields.list()) values[field.name] = config::value_text(field);
  return values;
}

/// Whether each dataset of a dataset_config may have the option for itself.
bool is_of_dataset(const std::string& option, const config::Fields& fields) {
  auto field = std::ranges::find(fields.list(), option, &config::Field::name);
  return field != fields.list().end() && !field->dataset_key.empty();
}

void put_back(const std::string& option, const std::map<std::string, std::string>& before, config::Fields& fields, Import& imported) {
  config::read_toml_text(option + " = " + before.at(option), fields);
  imported.origins.erase(option);
}

/// The texts that an option holds.
std::vector<std::string> texts_of(const config::Field& field) {
  if (const auto* text = std::get_if<std::string*>(&field.slot)) return {**text};
  const auto* list = std::get_if<std::vector<std::string>*>(&field.slot);
  return list != nullptr ? **list : std::vector<std::string>();
}

/// Tells of paths of Windows, which lead nowhere here. Where a run writes is left out: it would write below the current folder.
void tell_paths_of_windows(const std::map<std::string, std::string>& before, config::Fields& fields, Import& imported) {
  for (const auto& field : fields.list()) {
    const auto origins = imported.origins.find(field.name);
    if (origins == imported.origins.end()) continue;
    for (const auto& file : texts_of(field)) {
      if (!is_path_of_windows(file)) continue;
      const auto line =
          fmt::format("{} = {}: is a path of Windows; give {} where it is on this machine", join(origins->second), file, field.name);
      if (field.name != "output_path" && field.name != "cache_path") {
        imported.different.push_back(line);
      } else {
        imported.not_carried.push_back(line);
        put_back(field.name, before, fields, imported);
        break;
      }
    }
  }
}

/// One dataset as a table of a dataset_config. A class set has as many visits as all that is learned.
std::string table_of(const Dataset& dataset, const config::Fields& fields, const Import& imported) {
  bool is_class = dataset.ours.value("is_reg", false);
  auto text = "\n[[datasets]]  # " + one_line(dataset.name) + "\n";
  for (const auto& field : fields.list()) {
    if (field.dataset_key.empty() || !imported.origins.contains(field.name)) continue;
    if ((is_class && field.name == "dataset_repeat") || dataset.ours.contains(field.dataset_key)) continue;
    relocate(field, fs::current_path());
    text += fmt::format("{} = {}\n", field.dataset_key, config::value_text(field));
  }
  for (const auto& [key, value] : dataset.ours.items()) text += fmt::format("{} = {}\n", key, value.dump());
  return text;
}

/// Without a file beside the settings: the first dataset, and the first class set, which have options of a run.
void tell_first_alone(const Arranged& arranged, Import& imported) {
  bool has_class = !imported.origins.contains("class_metadata_path");
  for (size_t i = 1; i < arranged.datasets.size(); ++i) {
    const auto& [name, settings, ours] = arranged.datasets[i];
    if (ours.value("is_reg", false) && !std::exchange(has_class, true)) continue;
    imported.not_carried.push_back(name + ": the first dataset is taken; with --output all are written beside it");
  }
  for (const auto& [key, value] : arranged.datasets[0].ours.items())
    imported.not_carried.push_back(fmt::format("{}: {} = {} stands in a dataset_config; with --output it is written beside it",
                                               arranged.datasets[0].name, key, value.dump()));
}

/// The settings of one dataset in place of the first's.
Value tree_of(const Dataset& dataset, const Arranged& arranged) {
  auto tree = arranged.tree;
  if (!arranged.dataset_key.empty()) {
    tree[arranged.dataset_key] = dataset.settings;
    return tree;
  }
  for (const auto& [key, value] : arranged.datasets[0].settings.items()) {
    if (arranged.without_datasets.contains(key)) tree[key] = arranged.without_datasets[key];
    else tree.erase(key);
  }
  tree.update(dataset.settings);
  return tree;
}

/// Imports one dataset alone, and returns its table; the fields are as they were before.
std::string import_dataset(const Dataset& dataset, const Arranged& arranged, const Table& table, config::Fields& fields, Import& imported) {
  Import of_one;
  const auto run = values_of(fields);
  apply(table, Settings(tree_of(dataset, arranged)), arranged.whole, fields, of_one);
  tell_paths_of_windows(run, fields, of_one);
  auto text = table_of(dataset, fields, of_one);
  for (const auto& [option, value] : values_of(fields)) {
    if (value == run.at(option)) continue;
    if (!is_of_dataset(option, fields) && !option.starts_with("class_"))
      imported.not_carried.push_back(
          fmt::format("{}: {} = {}: all datasets of a run share one, {}", dataset.name, option, value, run.at(option)));
    config::read_toml_text(option + " = " + run.at(option), fields);
  }
  for (const auto& line : of_one.not_carried) {
    if (!contains(imported.not_carried, line)) imported.not_carried.push_back(dataset.name + ": " + line);
  }
  for (const auto& line : of_one.different) {
    if (!contains(imported.different, line)) imported.different.push_back(dataset.name + ": " + line);
  }
  return text;
}

/// Several datasets: a file of them, in place of the options that are each one's own.
void put_datasets(const Arranged& arranged, const Table& table, const std::map<std::string, std::string>& before, const fs::path& output,
                  config::Fields& fields, Import& imported) {
  if (output.empty()) return tell_first_alone(arranged, imported);
  auto datasets = arranged.datasets;
  bool has_classes = std::ranges::any_of(datasets, [](const Dataset& one) { return one.ours.value("is_reg", false); });
  auto classes = std::ranges::find(fields.list(), "class_metadata_path", &config::Field::name);
  if (!has_classes && imported.origins.contains("class_metadata_path")) {  // a folder, seen as the first dataset is
    relocate(*classes, fs::current_path());
    Dataset set{classes->name, datasets[0].settings, {{"is_reg", true}, {"image_dir", Value::parse(config::value_text(*classes))}}};
    auto caption = std::ranges::find(fields.list(), "class_prompt", &config::Field::name);
    set.ours["class_tokens"] = imported.origins.contains("class_prompt") ? Value::parse(config::value_text(*caption)) : Value("");
    datasets.push_back(std::move(set));
  }
  for (const char* option : {"class_metadata_path", "class_prompt"}) {
    if (imported.origins.contains(option)) put_back(option, before, fields, imported);
  }
  auto text = "# Datasets of " + one_line(output.filename().string()) + ", by `burnish import`.\n";
  std::vector<std::string> origins;
  for (const auto& dataset : datasets) {
    for (const auto& field : fields.list()) {
      if (!field.dataset_key.empty()) put_back(field.name, before, fields, imported);
    }
    text += import_dataset(dataset, arranged, table, fields, imported);
    origins.push_back(dataset.name);
  }
  const auto file = fs::absolute(output).parent_path() / "datasets.toml";
  config::read_toml_text("dataset_config = " + Value(file.string()).dump(), fields);
  imported.origins["dataset_config"] = origins;
  imported.beside[file] = text;
}

void put_prompts(const Arranged& arranged, const std::map<std::string, std::string>& before, const fs::path& output, config::Fields& fields,
                 Import& imported) {
  if (arranged.prompts.empty()) return;
  if (output.empty()) {
    if (imported.origins.contains("preview_prompts")) return;  // a file that settings name
    imported.not_carried.push_back(arranged.prompts_from + ": with --output they are written into a file beside it, for preview_prompts");
    if (imported.origins.contains("preview_steps")) put_back("preview_steps", before, fields, imported);
    return;
  }
  const auto file = fs::absolute(output).parent_path() / (output.stem().string() + ".prompts.txt");
  config::read_toml_text("preview_prompts = " + Value(file.string()).dump(), fields);
  imported.origins["preview_prompts"] = {arranged.prompts_from};
  imported.beside[file] = arranged.prompts;
}

void put_option_files(const Arranged& arranged, const fs::path& output, config::Fields& fields, Import& imported) {
  for (const auto& [option, list, tables, from] : arranged.option_files) {
    if (output.empty()) {
      imported.not_carried.push_back(fmt::format("{}: with --output they are written into a file beside it, for {}", from, option));
      continue;
    }
    const auto file = fs::absolute(output).parent_path() / fmt::format("{}.{}.toml", output.stem().string(), list);
    config::read_toml_text(option + " = " + Value(file.string()).dump(), fields);
    imported.origins[option] = {from};
    imported.beside[file] = tables;
  }
}

/// A file that settings name, as a value; a text of lines as it is.
Value read_named_file(const fs::path& path) {
  if (lower(path.extension().string()) != ".txt") return read_settings_file(path);
  auto text = io::read_text(path);
  if (!is_utf8(text)) data_error("import", "{} is not UTF-8 text; save the file in that encoding", path.string());
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

/// Takes what of a command was not read out of the settings.
void take_unread(Value& tree, std::vector<std::string>& unread) {
  if (!tree.is_object() || !tree.contains(kUnread)) return;
  for (const auto& word : tree[kUnread]) unread.push_back(text_of(word));
  tree.erase(kUnread);
}

/// Says so of each such word.
std::vector<std::string> lines_of_unread(const std::vector<std::string>& unread) {
  std::vector<std::string> lines;
  for (const auto& word : unread) {
    const bool is_variable = !of_scripts::variables_in(word).empty();
    lines.push_back(word + (is_variable ? ": is set elsewhere, so what it stands for was not read; write it out"
                                        : ": was not read, for it is no option's value"));
  }
  return lines;
}

/// Files beside the output, which must be a file for that: none of them is it, or one that was read.
void check_beside(const Import& imported, const fs::path& output, const std::vector<fs::path>& read) {
  for (const auto& [file, text] : imported.beside) {
    std::error_code failed;
    if (file == fs::absolute(output).lexically_normal() || fs::equivalent(file, output, failed))
      config_error("import", "{} is written beside the output; name another --output", file.string());
    for (const auto& one : read) {
      if (fs::equivalent(file, one, failed)) config_error("import", "{} is read and written; name another --output", file.string());
    }
  }
}

/// Not what the system names so that it leads wherever a program writes, such as /dev/stdout, even where that is a file.
bool is_or_becomes_a_file(const fs::path& path) {
  std::error_code failed;
  if (path.empty()) return false;
  const auto whole = fs::absolute(path).lexically_normal().generic_string();
  if (whole.starts_with("/dev/") || whole.starts_with("/proc/")) return false;
  return fs::is_regular_file(path, failed) || !fs::exists(path, failed);
}

}  // namespace

std::vector<std::string> program_words() {
  std::vector<std::string> words;
  for (const auto& program : programs()) words.push_back(program.word);
  return words;
}

std::pair<std::string, Import> import_settings(const fs::path& path, const std::string& from, config::Fields& fields,
                                               const fs::path& output) {
  const auto beside = is_or_becomes_a_file(output) ? output : fs::path();
  std::vector<fs::path> read{path};
  auto open = [&](const std::string& name) {
    for (const auto& there : {fs::path(name), path.parent_path() / name, path.parent_path() / fs::path(name).filename()}) {
      if (!io::is_there(there) || io::is_folder(there)) continue;
      read.push_back(there);
      return read_named_file(there);
    }
    return Value();
  };
  auto tree = with_named_settings(read_settings_file(path), open, path.string());
  auto program = program_of(tree, from, path.string());
  if (!tree.is_object() && !program.recognises(tree)) data_error("import", "{} holds a list, and settings are a table", path.string());
  Import imported;
  try {
    std::vector<std::string> unread;
    take_unread(tree, unread);
    auto arranged = program.arrange(tree, open);
    take_unread(arranged.tree, unread);
    imported.not_carried = lines_of_unread(unread);
    imported.not_carried.insert(imported.not_carried.end(), arranged.not_carried.begin(), arranged.not_carried.end());
    const auto before = values_of(fields);
    const auto table = program.table();
    apply(table, Settings(arranged.tree), arranged.whole, fields, imported);
    if (imported.origins.contains("trainable_models")) check_network_was_seen(program, Settings(arranged.tree), unread, path.string());
    tell_paths_of_windows(before, fields, imported);
    if (!arranged.datasets.empty()) put_datasets(arranged, table, before, beside, fields, imported);
    put_prompts(arranged, before, beside, fields, imported);
    put_option_files(arranged, beside, fields, imported);
  } catch (const Value::exception&) {
    data_error("import", "{} has a value of another kind than {} writes there", path.string(), program.title);
  }
  check_beside(imported, beside, read);
  for (const auto& field : fields.list()) {
    if (imported.origins.contains(field.name)) relocate(field, fs::current_path());
  }
  return {program.title, imported};
}

std::string to_toml(const config::Fields& fields, const Import& imported, const std::string& source) {
  auto text = fmt::format("# From {} by `burnish import`.\n", source);
  text += comment_lines("Not carried", imported.not_carried) + comment_lines("Different here", imported.different);
  std::string group;
  for (const auto& field : fields.list()) {
    auto origins = imported.origins.find(field.name);
    if (origins == imported.origins.end()) continue;
    if (field.group != group) text += fmt::format("\n# {}\n", group = field.group);
    text += fmt::format("{} = {}  # {}\n", field.name, config::value_text(field), one_line(join(origins->second)));
  }
  return text;
}

}  // namespace burnish::foreign
