#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace burnish::memory {

/// The bytes that computing something again saves, and how much work it is.
struct Saving {
  int64_t num_bytes = 0;
  double work = 0;
};

/// A block: computed again as a whole, or any of its values one by one.
struct Choices {
  Saving whole;
  std::vector<Saving> values;
};

/// The choice for a block: the whole of it is computed again, or these of its values.
struct Chosen {
  bool whole = false;
  std::vector<bool> values;
};

/// Chooses what to compute again so that at least `num_bytes` are saved with the least work: the exact optimum of this 0-1 knapsack, by
/// dynamic programming over bytes. Where `num_bytes` is above 65536, bytes are counted in whole 65536ths of it, rounded down for each
/// saving, so that what is chosen never saves too little. Nothing where all of them do not save that much.
std::optional<std::vector<Chosen>> save_at_least(int64_t num_bytes, const std::vector<Choices>& blocks);

}  // namespace burnish::memory
