#include "foreign/import.h"

#include <fmt/core.h>

#include <filesystem>

#include "app/verbs.h"
#include "base/error.h"
#include "base/log.h"
#include "base/say.h"
#include "base/text.h"
#include "config/command_line.h"
#include "io/files.h"
#include "train/options/check.h"
#include "train/options/fields.h"
#include "train/options/idle_options.h"

namespace burnish::app {

namespace {

void say(const foreign::Import& imported) {
  for (const auto& line : imported.not_carried) warn("not carried: {}", line);
  for (const auto& line : imported.different) warn("different here: {}", line);
  std::vector<std::string> names(imported.needless.begin(), imported.needless.end());
  if (!names.empty()) info("nothing to set here: {}", join(names));
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

/// Reads the text as `burnish train` does, and says what a run would refuse.
void check(const std::string& toml) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  config::read_toml_text(toml, fields);
  try {
    train::check(options);
  } catch (const Error& error) {
    warn("before it trains: {}", without_source(error));
  }
}

/// Further files are replaced where the output may be, and are named after it or say in their first line whose they are: others are lost by
/// nobody's wish.
void check_beside(const foreign::Import& imported, bool overwrite) {
  for (const auto& [file, text] : imported.beside) {
    std::error_code failed;
    if (!io::is_there(file) && !std::filesystem::is_symlink(file, failed)) continue;
    if (!overwrite) config_error("import", "{} is there already; move it away, or add --overwrite", file.string());
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
  bool overwrite = false;
  config::Fields fields;
  fields.group("Settings");
  fields.positional("settings", files, "settings of another program: TOML, YAML, JSON, or a command line in a script");
  fields("from", from, join(foreign::program_words(), ", ") + "; empty tells it by the names in the file");
  fields("output", output, "TOML file to write, for `burnish train --config`; without it the text is printed");
  fields("overwrite", overwrite, "replace the output where it is there");
  auto parsed = config::read_command_line("import", "settings of other programs as those of a training run", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  if (files.size() != 1) config_error("import", "expected one settings file, found {}; for example: burnish import run.toml", files.size());

  if (!output.empty() && !overwrite && io::is_there(output))
    config_error("import", "{} is there already; name another, or add --overwrite", output);
  std::error_code failed;
  if (std::filesystem::equivalent(files[0], output, failed))
    config_error("import", "{} is read and written; name another --output", output);

  train::TrainOptions options;
  config::Fields trained;
  train::fields(trained, options);
  auto [program, imported] = foreign::import_settings(files[0], from, trained, output);
  check_beside(imported, overwrite);
  drop_idle(options, imported);
  auto toml = foreign::to_toml(trained, imported, fmt::format("{} of {}", files[0], program));
  say(imported);
  for (const auto& [file, text] : imported.beside) io::write_text_atomic(file, text);
  check(toml);  // which reads them
  if (output.empty()) return print("{}", toml);
  io::write_text_atomic(output, toml);
  for (const auto& [file, text] : imported.beside) info("{} is beside it, and named in it", file.string());
  info("{} holds {} settings of {}; burnish train --config {}", output, imported.origins.size(), program, output);
}

}  // namespace burnish::app
