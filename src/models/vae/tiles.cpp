#include "models/vae/tiles.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <vector>

namespace burnish::models::vae {

namespace {

/// Fades the last `extent` rows (dim 2) or columns (dim 3) of `before` into the first ones of `tile`, which is changed.
void fade(const at::Tensor& before, const at::Tensor& tile, int64_t dim, int64_t extent) {
  extent = std::min({extent, before.size(dim), tile.size(dim)});
  std::vector<int64_t> along(4, 1);
  along[static_cast<size_t>(dim)] = extent;
  const auto share = (at::arange(extent, tile.options()) / static_cast<double>(extent)).view(along);
  const auto end = before.narrow(dim, before.size(dim) - extent, extent);
  auto begin = tile.narrow(dim, 0, extent);
  begin.copy_(end * (1 - share) + begin * share);
}

}  // namespace

at::Tensor in_tiles(const at::Tensor& x, int64_t side, int64_t side_out, const std::function<at::Tensor(const at::Tensor&)>& part) {
  if (side == 0 || (x.size(2) <= side && x.size(3) <= side)) return part(x);
  const int64_t step = side * 3 / 4, overlap = side_out / 4, kept = side_out - overlap;
  std::vector<at::Tensor> above, rows;
  for (int64_t y = 0; y < x.size(2); y += step) {
    std::vector<at::Tensor> tiles, cut;
    for (int64_t left = 0; left < x.size(3); left += step) {
      auto tile = part(x.narrow(2, y, std::min(side, x.size(2) - y)).narrow(3, left, std::min(side, x.size(3) - left)));
      if (!above.empty()) fade(above[tiles.size()], tile, 2, overlap);
      if (!tiles.empty()) fade(tiles.back(), tile, 3, overlap);
      tiles.push_back(tile);
      cut.push_back(tile.narrow(2, 0, std::min(kept, tile.size(2))).narrow(3, 0, std::min(kept, tile.size(3))));
    }
    rows.push_back(at::cat(cut, 3));
    above = std::move(tiles);
  }
  return at::cat(rows, 2);
}

}  // namespace burnish::models::vae
