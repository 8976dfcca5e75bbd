#include "models/blocks/padding_row.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

namespace burnish::models {

CountedRows with_padding_row(const CountedRows& texts, int64_t length) {
  auto missing_B1 = (length - texts.counts_BT.sum(1, /*keepdim=*/true)).clamp_min(0);
  return {at::constant_pad_nd(texts.rows_BTE, {0, 0, 0, 1}), at::cat({texts.counts_BT, missing_B1}, 1)};
}

at::Tensor bias_of_counts(const at::Tensor& counts_BT) { return counts_BT.to(at::kFloat).log().unsqueeze(1).unsqueeze(1); }

}  // namespace burnish::models
