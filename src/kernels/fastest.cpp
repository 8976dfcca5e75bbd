#include "kernels/fastest.h"

namespace burnish::kernels {

std::optional<size_t> Fastest::of(const Key& key, size_t num_ways, const Trial& trial) {
  const std::lock_guard lock(mutex_);
  if (auto known = found_.find(key); known != found_.end()) return known->second;
  if (found_.size() >= most_keys_) return std::nullopt;
  std::optional<size_t> best;
  double least = 0;
  for (size_t way = 0; way < num_ways; ++way) {
    const auto time = trial(way);
    if (!time || (best && *time >= least)) continue;
    best = way;
    least = *time;
  }
  return found_[key] = best;
}

bool Fastest::knows(const Key& key) const {
  const std::lock_guard lock(mutex_);
  return found_.contains(key);
}

}  // namespace burnish::kernels
