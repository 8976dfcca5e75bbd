#include "models/files/config_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace burnish::models {

void check_sizes(std::initializer_list<int64_t> sizes) {
  for (auto size : sizes) {
    if (size < 1 || size > kLargestSize)
      data_error("models", "the transformer's config.json or tensors give it a size of {}; sizes are from 1 to {}", size, kLargestSize);
  }
}

void check_blocks(std::initializer_list<int64_t> counts) {
  for (auto count : counts) {
    if (count < 1 || count > kMostBlocks)
      data_error("models", "the transformer's config.json or tensors give it {} blocks of a kind; 1 to {} were expected", count,
                 kMostBlocks);
  }
}

std::vector<int64_t> even_axes(int64_t head_dim) { return axes_in_proportion(head_dim, {1, 1, 1, 1}); }

std::vector<int64_t> axes_in_proportion(int64_t head_dim, const std::vector<int64_t>& proportions) {
  const auto whole = std::accumulate(proportions.begin(), proportions.end(), int64_t{0});
  std::vector<int64_t> axes;
  for (const auto part : proportions) axes.push_back(head_dim * part / whole / 2 * 2);
  axes[0] = head_dim - std::accumulate(axes.begin() + 1, axes.end(), int64_t{0});
  return axes;
}

void check_axes(const char* key, const std::vector<int64_t>& axes, size_t count, int64_t head_dim) {
  auto sum = std::accumulate(axes.begin(), axes.end(), int64_t{0});
  auto is_even = [](int64_t dim) { return dim > 0 && dim % 2 == 0; };
  if (axes.size() != count || sum != head_dim || !std::ranges::all_of(axes, is_even))
    data_error("models", "{} {} must be {} even numbers that sum to the head width {}", key, axes, count == 3 ? "three" : "four", head_dim);
}

}  // namespace burnish::models
