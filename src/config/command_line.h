#pragma once
#include <functional>

#include "config/fields.h"

namespace burnish::config {

/// What parsing a command line came to.
struct Parsed {
  bool help = false;
  std::string help_text;
  std::vector<std::string> without_effect;  ///< options given that mean nothing here
  std::vector<std::string> given;           ///< names of those on the command line; what a TOML file has is not among them
};

/// Reads `args` (without program and verb) into the fields: first the TOML file named by --config, or by a lone word that ends in .toml,
/// then the options, which win. The help of --help is of the options for a first run where the verb has such, and of all beside `all` or
/// --all; it is Markdown beside --markdown, JSON beside --json, a line an option beside --names, and a line
/// a word that OPTION may be beside --choices OPTION.
///
/// A Refusal says all that is wrong at once: unknown options, malformed values, texts that are not UTF-8 (config.toml could not hold them),
/// words that belong to no option. To these come, where there are any, the config Errors of `check`, which otherwise is left to the verb;
/// and without a `check` values that their rows do not allow, in any case.
Parsed read_command_line(const std::string& verb, const std::string& summary, const std::vector<std::string>& args, const Fields& fields,
                         const std::function<void()>& check = {});

}  // namespace burnish::config
