#include "models/text/scaled_places.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/upsample_bicubic2d.h>

#include <cmath>

namespace burnish::models::text {

at::Tensor scaled_places(const at::Tensor& table_NW, int64_t num_before, int64_t rows, int64_t columns) {
  const auto num_patches = table_NW.size(0) - num_before;
  const auto side = std::llround(std::sqrt(static_cast<double>(num_patches)));
  if (rows == side && columns == side) return table_NW;
  const auto grid_1WRC = table_NW.narrow(0, num_before, num_patches).t().reshape({1, table_NW.size(1), side, side});
  const auto scaled = at::upsample_bicubic2d(grid_1WRC, {rows, columns}, /*align_corners=*/false);
  return at::cat({table_NW.narrow(0, 0, num_before), scaled.flatten(2)[0].t()});
}

}  // namespace burnish::models::text
