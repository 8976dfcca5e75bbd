#pragma once
#include <string>
#include <string_view>

namespace burnish {

/// What to try where a parser stumbled over a backslash in a quoted text, as it does in paths of Windows: how the sentence about it goes
/// on.
/// "" where its complaint is about something else.
std::string hint_in_toml(std::string_view complaint);  ///< of TOML and YAML, which have single quotes for texts without escapes
std::string hint_in_json(std::string_view complaint);

/// Tells whether a text holds what \b, \t, \n, \f and \r stand for, and no path does.
bool holds_escapes(std::string_view text);

}  // namespace burnish
