#pragma once
#include <compare>
#include <cstdint>

namespace burnish::data {

/// Sides in pixels.
struct Size {
  int64_t height = 0, width = 0;
  auto operator<=>(const Size&) const = default;
};

}  // namespace burnish::data
