#pragma once
#include <string>
#include <vector>

#include "memory/knapsack.h"

namespace burnish::train {

/// The bytes that computing parts of blocks again would save.
struct Savings {
  int64_t num_bytes = 0;  ///< bytes that forward leaves for backward where nothing is computed again
  std::vector<std::string> names = {};
  std::vector<memory::Choices> blocks = {};  ///< choices by those names; work counts bytes read and written, and products by their time
};

}  // namespace burnish::train
