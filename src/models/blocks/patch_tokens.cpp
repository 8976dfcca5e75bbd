#include "models/blocks/patch_tokens.h"

namespace burnish::models {

at::Tensor channels_last_tokens(const at::Tensor& x) {
  auto B = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
  return x.view({B, C, H / 2, 2, W / 2, 2}).permute({0, 2, 4, 3, 5, 1}).reshape({B, H / 2 * (W / 2), 4 * C});
}

at::Tensor of_channels_last_tokens(const at::Tensor& x, int64_t rows, int64_t columns) {
  auto B = x.size(0), C = x.size(2) / 4;
  return x.view({B, rows, columns, 2, 2, C}).permute({0, 5, 1, 3, 2, 4}).reshape({B, C, rows * 2, columns * 2});
}

at::Tensor clip_of_channels_last_tokens(const at::Tensor& x, int64_t frames, int64_t rows, int64_t columns) {
  auto patches = x.reshape({x.size(0), frames, rows, columns, 2, 2, -1}).permute({0, 6, 1, 2, 4, 3, 5});
  return patches.reshape({x.size(0), -1, frames, rows * 2, columns * 2});
}

}  // namespace burnish::models
