#pragma once
#include <cstdint>
#include <string>

namespace burnish {

/// "1 step", "2 steps".
inline std::string count_of(int64_t count, const std::string& noun) { return std::to_string(count) + " " + noun + (count == 1 ? "" : "s"); }

}  // namespace burnish
