#pragma once
#include <spdlog/spdlog.h>

#include <string>

namespace burnish {

/// Sends log lines to stderr as plain text ("warning: ..."), so that stdout holds results only.
void set_up_logging();

template <class... A>
void info(fmt::format_string<A...> text, A&&... args) {
  spdlog::info(fmt::format(text, std::forward<A>(args)...));
}

template <class... A>
void warn(fmt::format_string<A...> text, A&&... args) {
  spdlog::warn(fmt::format(text, std::forward<A>(args)...));
}

}  // namespace burnish
