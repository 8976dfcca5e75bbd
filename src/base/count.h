#pragma once
#include <cstdint>
#include <string>

namespace burnish {

/// Writes a count with its noun: "1 step", "2 steps"; a plural that does not end so is given: "2 batches".
inline std::string count_of(int64_t count, const std::string& noun, const std::string& plural = "") {
  return std::to_string(count) + " " + (count == 1 ? noun : plural.empty() ? noun + "s" : plural);
}

}  // namespace burnish
