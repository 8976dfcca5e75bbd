#include "foreign/import.h"

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/verbs.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/quiet.h"
#include "base/say.h"
#include "base/text.h"
#include "config/command_line.h"
#include "io/files.h"
#include "io/output_file.h"
#include "models/files/hub_files.h"
#include "train/options/check.h"
#include "train/options/fields.h"
#include "train/options/idle_options.h"
#include "train/run/check_run.h"

namespace burnish::app {

namespace {

/// Holds what an import came to.
struct Outcome {
  std::string program, toml;
  foreign::Import imported;
  std::string before_it_trains = {};  ///< what a run would refuse, "" for nothing
};

void say(const Outcome& outcome) {
  const auto& imported = outcome.imported;
  for (const auto& line : imported.not_carried) warn("not carried: {}", line);
  for (const auto& line : imported.different) warn("different here: {}", line);
  std::vector<std::string> names(imported.needless.begin(), imported.needless.end());
  if (!names.empty()) info("nothing to set here: {}", join(names));
  if (!outcome.before_it_trains.empty()) warn("before it trains: {}", outcome.before_it_trains);
}

std::string to_json(const Outcome& outcome) {
  const nlohmann::json value{{"program", outcome.program},
                             {"settings", outcome.toml},
                             {"num_carried", outcome.imported.origins.size()},
                             {"not_carried", outcome.imported.not_carried},
                             {"different", outcome.imported.different},
                             {"needless", outcome.imported.needless},
                             {"before_it_trains", outcome.before_it_trains}};
  return value.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Takes out what would decide nothing in the run, and which a run would therefore refuse.
void drop_idle(train::TrainOptions& options, foreign::Import& imported) {
  for (const auto& [option, belongs_to] : train::idle_options(options)) {
    train::reset(options, option);
    for (const auto& name : imported.origins[option]) {
      if (!name.ends_with("(its default)")) imported.not_carried.push_back(fmt::format("{}: {} belongs to {}", name, option, belongs_to));
    }
    imported.origins.erase(option);
  }
}

/// Tells whether all models that a run names can be looked into without fetching anything.
bool are_here(const train::ModelChoice& choice) {
  return !choice.model.empty() && std::ranges::all_of(choice.model, [](const std::string& name) {
    try {
      return !models::is_hub_model(name) || !models::hub_folder(name, models::HubUse::all).empty();
    } catch (const Error&) {
      return false;
    }
  });
}

/// Reads the text as `burnish train` does, and returns what a run would refuse, of its files too as far as they are here.
std::string refusal_of(const std::string& toml) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  config::read_toml_text(toml, fields);
  QuietLog quiet;
  setenv("HF_HUB_OFFLINE", "1", /*overwrite=*/1);
  try {
    train::check(options);
    if (are_here(options.model)) train::check_run(options);
  } catch (const Error& error) {
    return without_source(error);
  } catch (const c10::Error&) {
    return "";  // of a run that cannot be planned more is known when it starts
  }
  return "";
}

/// Further files are replaced where the output may be, and are named after it or say in their first line whose they are: others are lost by
/// nobody's wish.
void check_beside(const foreign::Import& imported, bool overwrite) {
  for (const auto& [file, text] : imported.beside) {
    std::error_code failed;
    if (!io::is_there(file) && !std::filesystem::is_symlink(file, failed)) continue;
    if (!overwrite) config_error("import", "{} is there already; move it away, or add --overwrite", file.string());
    io::check_replaces("import", file, io::is_text);
    bool says_whose = text.starts_with('#'), is_file = std::filesystem::is_regular_file(file, failed);
    if (says_whose && is_file && !io::read_text(file).starts_with(text.substr(0, text.find('\n') + 1)))
      config_error("import", "{} is there already and was not written for this output; move it away, or name an output elsewhere",
                   file.string());
  }
}

}  // namespace

void import_settings(const Arguments& arguments) {
  std::vector<std::string> files;
  std::string from, output;
  bool overwrite = false, json = false;
  config::Fields fields;
  fields.group("Settings");
  fields.positional("settings", files, "settings of another program: TOML, YAML, JSON, or a command line in a script");
  fields("from", from, join(foreign::program_words(), ", ") + "; empty tells it by the names in the file");
  fields.path("output", output, "TOML file to write, for `burnish train --config`; without it the text is printed");
  fields("overwrite", overwrite, "replace the output where it is there");
  fields("json", json, "print the settings, and what became of every name, as JSON");
  auto parsed = config::read_command_line("import", "settings of other programs as those of a training run", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  if (files.size() != 1) config_error("import", "expected one settings file, found {}; for example: burnish import run.toml", files.size());

  if (!output.empty() && !overwrite && io::is_there(output))
    config_error("import", "{} is there already; name another, or add --overwrite", output);
  if (!output.empty()) io::check_replaces("import", output, io::is_text);
  std::error_code failed;
  if (std::filesystem::equivalent(files[0], output, failed))
    config_error("import", "{} is read and written; name another --output", output);

  train::TrainOptions options;
  config::Fields trained;
  train::fields(trained, options);
  auto [program, imported] = foreign::import_settings(files[0], from, trained, output);
  check_beside(imported, overwrite);
  drop_idle(options, imported);
  Outcome outcome{
      .program = program, .toml = foreign::to_toml(trained, imported, fmt::format("{} of {}", files[0], program)), .imported = imported};
  for (const auto& [file, text] : imported.beside) io::write_text_atomic(file, text);
  outcome.before_it_trains = refusal_of(outcome.toml);  // reads them
  if (!output.empty()) io::write_text_atomic(output, outcome.toml);
  if (json) return print("{}", to_json(outcome));
  say(outcome);
  if (output.empty()) return print("{}", outcome.toml);
  for (const auto& [file, text] : imported.beside) info("{} is beside it, and named in it", file.string());
  info("{} holds {} settings of {}; burnish train --config {}", output, imported.origins.size(), program, output);
}

}  // namespace burnish::app
