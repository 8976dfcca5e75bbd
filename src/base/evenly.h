#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace burnish {

/// Takes so many at most, evenly out of all, in their order.
template <class T>
std::vector<T> evenly(const std::vector<T>& all, int64_t most) {
  most = std::min(most, static_cast<int64_t>(std::ssize(all)));
  std::vector<T> some;
  for (int64_t i = 0; i < most; ++i) some.push_back(all[static_cast<size_t>(i * std::ssize(all) / most)]);
  return some;
}

}  // namespace burnish
