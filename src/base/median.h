#pragma once
#include <algorithm>
#include <iterator>
#include <vector>

namespace burnish {

/// The value in the middle, of an even number the upper one of two; 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace burnish
