#pragma once
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
/// --all; it is Markdown beside --markdown, JSON beside --json, and a line an option beside --names: its name, a tab, and its doc. An
/// unknown option, a
/// malformed value, a text that is not UTF-8 (config.toml could not hold it), or a word that belongs to no option is a config Error.
Parsed read_command_line(const std::string& verb, const std::string& summary, const std::vector<std::string>& args, const Fields& fields);

}  // namespace burnish::config
