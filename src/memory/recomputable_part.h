#pragma once
#include <cstddef>
#include <optional>
#include <set>
#include <string>

namespace burnish::memory {

/// A part of forward that backward can compute again: a watched block, or values of nn::recomputed inside of it.
struct RecomputablePart {
  std::string block;
  std::optional<size_t> call = {};  ///< the call of nn::recomputed in the block, by number; none: the block
  size_t first = 0, end = 0;        ///< the blocks of memory taken in it
  std::set<size_t> inputs = {}, outputs = {};
  double multiplications = 0;  ///< multiplications of products, convolutions and attention
};

}  // namespace burnish::memory
