#pragma once
#include <fmt/core.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace burnish {

/// Writes text to a stream. A write that fails ends nothing: the stream remembers it (std::ferror).
void put(std::FILE* stream, std::string_view text);

/// Prints a result on stdout. Whether it could be written is looked at when the program ends.
template <class... A>
void print(fmt::format_string<A...> text, A&&... args) {
  put(stdout, fmt::format(text, std::forward<A>(args)...));
}

/// Tells how work goes on: bars, hints, sums. Nobody need read it, so a write that fails is forgotten: the terminal was closed, whoever
/// read a pipe has gone, or the disk is full.
template <class... A>
void tell(std::FILE* stream, fmt::format_string<A...> text, A&&... args) {
  put(stream, fmt::format(text, std::forward<A>(args)...));
  std::clearerr(stream);
}

}  // namespace burnish
