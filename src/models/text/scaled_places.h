#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::models::text {

/// Returns the table of learned places for a grid of patches: `num_before` rows of other tokens, then a row for each patch of a square
/// grid, which is scaled to so many rows and columns by torch's bicubic filter, that does not smooth; the table itself where it is of that
/// grid (transformers: interpolate_pos_encoding of CLIP and DINOv2). [N, W] -> [N', W].
at::Tensor scaled_places(const at::Tensor& table_NW, int64_t num_before, int64_t rows, int64_t columns);

}  // namespace burnish::models::text
