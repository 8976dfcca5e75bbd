#pragma once
#include <fmt/core.h>

namespace burnish {

/// Throws the Errors (base/error.h) of what a user gives. Nearly all sources throw, and few look at an Error, so the class lies apart.
[[noreturn]] void throw_config_error(const char* room, fmt::string_view text, fmt::format_args values);
[[noreturn]] void throw_data_error(const char* room, fmt::string_view text, fmt::format_args values);

/// Throws an Error about options or their combination (exit code 2).
template <class... A>
[[noreturn]] void config_error(const char* room, fmt::format_string<A...> text, A&&... args) {
  throw_config_error(room, text, fmt::make_format_args(args...));
}

/// Throws an Error about a file or its contents (exit code 3).
template <class... A>
[[noreturn]] void data_error(const char* room, fmt::format_string<A...> text, A&&... args) {
  throw_data_error(room, text, fmt::make_format_args(args...));
}

}  // namespace burnish
