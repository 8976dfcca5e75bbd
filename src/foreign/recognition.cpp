#include "foreign/recognition.h"

#include <algorithm>

#include "base/choice.h"
#include "base/input_error.h"
#include "base/text.h"

namespace burnish::foreign {

namespace {

std::vector<std::string> titles_of(const std::vector<Program>& programs) {
  std::vector<std::string> titles;
  for (const auto& program : programs) titles.push_back(program.title);
  return titles;
}

std::vector<std::string> words_of(const std::vector<Program>& programs) {
  std::vector<std::string> words;
  for (const auto& program : programs) words.push_back(program.word);
  return words;
}

std::vector<Program> programs_of_script(const Value& tree) {
  std::vector<Program> found;
  if (!tree.is_object() || !tree.contains("script")) return found;
  const Value script{{"script", tree["script"]}};
  for (const auto& program : programs()) {
    if (program.recognises(script)) found.push_back(program);
  }
  return found;
}

/// The programs whose settings these may be: those whose script a command starts, or those with a name that they alone have, or else those
/// with names that others have as well.
std::vector<Program> possible_programs(const Value& tree) {
  if (auto by_script = programs_of_script(tree); !by_script.empty()) return by_script;
  std::vector<Program> own, shared;
  for (const auto& program : programs()) {
    if (program.recognises(tree)) own.push_back(program);
    else if (program.may_be != nullptr && program.may_be(tree)) shared.push_back(program);
  }
  return own.empty() ? shared : own;
}

bool is_of_diffsynth(const Value& tree) {
  return tree.is_object() && (tree.contains("model_id_with_origin_paths") || tree.contains("model_paths")) &&
         (tree.contains("dataset_base_path") || tree.contains("dataset_metadata_path"));
}

[[noreturn]] void refuse_unknown(const Value& tree, const std::string& file) {
  if (is_of_diffsynth(tree))
    data_error("import",
               "{} is a command of DiffSynth-Studio, whose options `burnish train` takes as they are: put `burnish train` in place of "
               "`accelerate launch .../train.py`, and run it (docs/coming-from.md)",
               file);
  const auto script = tree.is_object() ? text_of(tree.value("script", Value(""))) : "";
  if (!script.empty())
    data_error("import", "{} is of the script {}, whose settings are not read; read are those of {}", file, script,
               join(titles_of(programs())));
  data_error("import", "{} is of no program that is known by its names; say which with --from {}; read are the settings of {}", file,
             join(words_of(programs()), "|"), join(titles_of(programs())));
}

/// Names under which commands have the file that their settings are in.
constexpr const char* kFileOptions[]{"config_file", "config", "config_path"};

bool is_settings_file(const std::string& word) {
  const auto name = lower(word);
  return name.ends_with(".toml") || name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
}

/// The file of a command's settings: an option's value, or the first word that is a name of such a file; "" for none. It is taken out.
std::string take_named_file(Value& command) {
  for (const char* option : kFileOptions) {
    if (!command.contains(option) || !command[option].is_string()) continue;
    const auto name = text_of(command[option]);
    command.erase(option);
    return name;
  }
  auto unread = command.value(kUnread, std::vector<std::string>());
  const auto named = std::ranges::find_if(unread, is_settings_file);
  if (named == unread.end()) return "";
  const auto name = *named;
  unread.erase(named);
  command[kUnread] = unread;
  return name;
}

}  // namespace

Program program_of(const Value& tree, const std::string& from, const std::string& file) {
  if (!from.empty()) {
    auto all = programs();
    auto program = std::ranges::find(all, from, &Program::word);
    if (program == all.end()) unknown_choice("import", "from", from, words_of(programs()));
    return *program;
  }
  auto possible = possible_programs(tree);
  if (possible.size() == 1) return possible.front();
  if (possible.empty()) refuse_unknown(tree, file);
  data_error("import", "{} may be of {} by its names; say which with --from {}", file, join(titles_of(possible), " or of "),
             join(words_of(possible), "|"));
}

Value with_named_settings(Value tree, const Open& open, const std::string& file) {
  if (!tree.is_object() || !tree.contains("script")) return tree;
  auto command = tree;
  const auto name = take_named_file(command);
  if (name.empty()) return tree;
  auto settings = open(name);
  if (settings.is_null()) settings = open(name + ".toml");
  if (!settings.is_object())
    data_error("import",
               "{} begins from the settings in {}, which {}: without them it would train something else; put the file there, or import it "
               "by itself: burnish import {}",
               file, name, settings.is_null() ? "is not there" : "holds none", name);
  // Of these programs a file says everything, in tables; of others it says what options do.
  const auto of_file = possible_programs(settings);
  const bool is_whole = std::ranges::any_of(of_file, [](const Program& program) { return program.may_be == nullptr; });
  if (!is_whole) {
    auto all = without_sections(settings);
    all.update(command);
    return all;
  }
  for (const auto& [option, value] : command.items()) {
    if (option != "script" && option != "launch" && option != kUnread) settings[kUnread].push_back("--" + option);
  }
  return settings;
}

void check_network_was_seen(const Program& program, const Settings& settings, const std::vector<std::string>& unread,
                            const std::string& file) {
  if (program.says_whole != nullptr && program.says_whole(settings)) return;
  const auto is_of_network = [](const auto& setting) {
    return setting.first.starts_with("network_") ||
           (setting.first == "script" && text_of(setting.second).find("network") != std::string::npos);
  };
  const auto of_network = std::ranges::find_if(settings.all(), is_of_network);
  if (unread.empty() && of_network == settings.all().end()) return;
  data_error("import",
             "{} names no network, so all weights of the model would train, and {}: nothing is written. Name the network in it "
             "(network_module, say), or write out what its variables stand for",
             file,
             unread.empty() ? fmt::format("{} {} is of one", of_network->first, text_of(of_network->second))
                            : fmt::format("{} was not read", join(unread)));
}

}  // namespace burnish::foreign
