#pragma once
#include <functional>

#include "config/fields.h"

namespace burnish::config {

/// The result of parsing a command line.
struct Parsed {
  bool help = false;
  std::string help_text;
  std::vector<std::string> without_effect;  ///< options given that mean nothing here
  std::vector<std::string> given;           ///< names of options on the command line; options that a TOML file has are not among them
};

/// Reads `args` (without program and verb) into the fields: first the TOML file named by --config, or by a lone word that ends in .toml,
/// then the options, which win. With --trust_settings options in the file may act outside (Row::acts_outside). --help lists the options for
/// a first run where the verb has such; beside `all` or --all it lists all options, beside --markdown as Markdown, beside --json as JSON,
/// beside --names one option a line, and beside --choices OPTION the words that OPTION may be, one a line.
///
/// Throws a Refusal that says all that is wrong at once: unknown options, malformed values, texts that are not UTF-8 (config.toml could not
/// hold them), words that belong to no option. Where there are any of these, it also has the config Errors of `check`, which otherwise is
/// left to the verb; without a `check` it has the values that their rows do not allow, in any case.
Parsed read_command_line(const std::string& verb, const std::string& summary, const std::vector<std::string>& args, const Fields& fields,
                         const std::function<void()>& check = {});

}  // namespace burnish::config
