#pragma once
#include <fmt/core.h>

#include <string>
#include <vector>

#include "base/shortened.h"

namespace burnish::app {

/// Lists the samples that are named, at most `most` of them, a line each: what `number_of` says of it in `width` columns, its file and its
/// caption; then how many more there are, or "none".
template <class Sample, class IsNamed, class NumberOf>
std::string named_samples(const std::vector<Sample>& samples, int64_t most, int width, IsNamed is_named, NumberOf number_of) {
  constexpr size_t kShown = 60;  // of a caption
  const std::string behind(static_cast<size_t>(width) + 2, ' ');
  std::string text;
  int64_t num = 0;
  for (const auto& sample : samples) {
    if (!is_named(sample) || ++num > most) continue;
    text += fmt::format("{:>{}}  {}  \"{}\"\n", number_of(sample), width, sample.file, shortened(sample.caption, kShown));
  }
  if (num > most) text += fmt::format("{}and {} more\n", behind, num - most);
  return num > 0 ? text : behind + "none\n";
}

}  // namespace burnish::app
