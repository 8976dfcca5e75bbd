#pragma once
#include <optional>

#include "base/codes.h"

namespace burnish::quant {

/// A way in which a layer multiplies: what its weight is held as, whether codes are multiplied by codes, and the dtype of what comes.
struct Way {
  std::optional<CodeKind> codes = {};  ///< nothing: numbers
  bool by_codes = false;
  c10::ScalarType dtype = c10::ScalarType::Float;

  auto operator<=>(const Way&) const = default;
};

/// A layer's sides.
struct Sides {
  int64_t out, in;
  auto operator<=>(const Sides&) const = default;
};

/// Measures on this machine's processor how many times as long a product takes in one way as in another, forward and the input's gradient,
/// for a weight of these sides: some hundredths of a second for sides of a thousand, and once for a process. Draws nothing.
double times_as_long(const Way& way, const Way& other, const Sides& sides);

}  // namespace burnish::quant
