#pragma once
#include "config/fields.h"

namespace burnish::config {

/// Writes the options as a page of Markdown: a table a group, of names, values when they are not given, what they may be, and docs.
std::string to_markdown(const std::string& verb, const std::string& summary, const Fields& fields);

/// Writes the options as JSON, from which another program can draw a form: for each its name, group, type, value when it is not given,
/// meaning, level, and where it has such its aliases, choices, range, unit and what it belongs to.
std::string to_json(const std::string& verb, const std::string& summary, const Fields& fields);

/// Returns what --help prints beside the other arguments (read_command_line).
std::string help_of(const std::string& verb, const std::string& summary, const Fields& fields, const std::vector<std::string>& args);

}  // namespace burnish::config
