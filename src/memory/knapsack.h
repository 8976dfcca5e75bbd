#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace burnish::memory {

/// What computing something again saves, and how much work it is.
struct Saving {
  int64_t num_bytes = 0;
  double work = 0;
};

/// A block: computed again as a whole, or any of its values one by one.
struct Choices {
  Saving whole;
  std::vector<Saving> values;
};

/// What of a block is computed again: the whole, or those of its values.
struct Chosen {
  bool whole = false;
  std::vector<bool> values;
};

/// What to compute again so that at least `num_bytes` are saved with the least work: the exact optimum of this 0-1 knapsack, by dynamic
/// programming over bytes. Where `num_bytes` is above 65536, bytes are counted in whole 65536ths of it, rounded down for each saving, so
/// that what is chosen never saves too little. Nothing where all of them do not save that much.
std::optional<std::vector<Chosen>> save_at_least(int64_t num_bytes, const std::vector<Choices>& blocks);

}  // namespace burnish::memory
