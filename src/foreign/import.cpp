#include "foreign/import.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/choice.h"
#include "base/error.h"
#include "base/text.h"
#include "foreign/program.h"
#include "io/files.h"

namespace burnish::foreign {

namespace fs = std::filesystem;

namespace {

Program choose_program(const Value& tree, const std::string& from, const std::string& file) {
  auto all = programs();
  if (!from.empty()) {
    auto program = std::find_if(all.begin(), all.end(), [&](const Program& p) { return p.word == from; });
    if (program == all.end()) unknown_choice("import", "from", from, program_words());
    return *program;
  }
  for (const auto& program : all) {
    if (program.recognises(tree)) return program;
  }
  data_error("import", "{} is of no program that is known by its names; say which with --from {}", file, join(program_words(), "|"));
}

std::string comment_lines(const std::string& title, const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += "#   " + one_line(line) + "\n";
  return lines.empty() ? "" : "# " + title + ":\n" + text;
}

}  // namespace

std::vector<std::string> program_words() {
  std::vector<std::string> words;
  for (const auto& program : programs()) words.push_back(program.word);
  return words;
}

std::pair<std::string, Import> import_settings(const fs::path& path, const std::string& from, config::Fields& fields) {
  auto tree = read_settings_file(path);
  auto program = choose_program(tree, from, path.string());
  if (!tree.is_object()) data_error("import", "{} holds a list, and settings are a table", path.string());
  auto open = [&](const std::string& name) {
    for (const auto& there : {fs::path(name), path.parent_path() / name, path.parent_path() / fs::path(name).filename()}) {
      if (io::is_there(there) && !io::is_folder(there)) return read_settings_file(there);
    }
    return Value();
  };
  Import imported;
  try {
    auto arranged = program.arrange(tree, open);
    imported.not_carried = arranged.not_carried;
    apply(program.table(), Settings(arranged.tree), arranged.whole, fields, imported);
  } catch (const Value::exception&) {
    data_error("import", "{} has a value of another kind than {} writes there", path.string(), program.title);
  }
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
