#pragma once
#include <fmt/core.h>

namespace burnish {

/// Sends log lines to stderr as plain text ("warning: ..."), so that stdout holds results only.
void set_up_logging();

/// Logs a line that tells, or that warns.
void log_info(fmt::string_view text, fmt::format_args values);
void log_warning(fmt::string_view text, fmt::format_args values);

template <class... A>
void info(fmt::format_string<A...> text, A&&... args) {
  log_info(text, fmt::make_format_args(args...));
}

template <class... A>
void warn(fmt::format_string<A...> text, A&&... args) {
  log_warning(text, fmt::make_format_args(args...));
}

}  // namespace burnish
