#pragma once
#include <span>
#include <string>
#include <string_view>

#include "base/input_error.h"
#include "base/text.h"

namespace burnish {

/// Throws the config Error for a name that is none of `choices`: it lists them and points at the nearest.
[[noreturn]] inline void unknown_choice(const char* room, std::string_view what, std::string_view found,
                                        std::span<const std::string> choices) {
  const std::string nearest = nearest_name(found, choices);
  const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
  config_error(room, "{} must be one of {}, found \"{}\"{}", what, join(choices), found, hint);
}

}  // namespace burnish
