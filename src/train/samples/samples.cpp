#include "train/samples/samples.h"

#include <algorithm>

#include "base/input_error.h"

namespace burnish::train {

const SampleInfo& Samples::at(int64_t row) const {
  auto it = std::lower_bound(list.begin(), list.end(), row, [](const auto& sample, int64_t r) { return sample.row < r; });
  if (it == list.end() || it->row != row) data_error("train", "row {} is not among the {} usable samples", row, list.size());
  return *it;
}

}  // namespace burnish::train
