#include "models/vae/tiles.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <vector>

namespace burnish::models::vae {

namespace {

constexpr int64_t kRows = -2, kColumns = -1;

/// Fades the last `extent` rows or columns of `before` into the first ones of `tile`, which is changed.
void fade(const at::Tensor& before, const at::Tensor& tile, int64_t dim, int64_t extent) {
  extent = std::min({extent, before.size(dim), tile.size(dim)});
  auto along = dim == kRows ? std::vector<int64_t>{extent, 1} : std::vector<int64_t>{extent};
  const auto share = (at::arange(extent, tile.options()) / static_cast<double>(extent)).view(along);
  const auto end = before.narrow(dim, before.size(dim) - extent, extent);
  auto begin = tile.narrow(dim, 0, extent);
  begin.copy_(end * (1 - share) + begin * share);
}

}  // namespace

at::Tensor in_tiles(const at::Tensor& x, int64_t side, int64_t side_out, const std::function<at::Tensor(const at::Tensor&)>& part) {
  if (side == 0 || (x.size(kRows) <= side && x.size(kColumns) <= side)) return part(x);
  const int64_t step = side * 3 / 4, overlap = side_out / 4, kept = side_out - overlap;
  std::vector<at::Tensor> above, rows;
  for (int64_t y = 0; y < x.size(kRows); y += step) {
    std::vector<at::Tensor> tiles, cut;
    for (int64_t left = 0; left < x.size(kColumns); left += step) {
      auto tile =
          part(x.narrow(kRows, y, std::min(side, x.size(kRows) - y)).narrow(kColumns, left, std::min(side, x.size(kColumns) - left)));
      if (!above.empty()) fade(above[tiles.size()], tile, kRows, overlap);
      if (!tiles.empty()) fade(tiles.back(), tile, kColumns, overlap);
      tiles.push_back(tile);
      cut.push_back(tile.narrow(kRows, 0, std::min(kept, tile.size(kRows))).narrow(kColumns, 0, std::min(kept, tile.size(kColumns))));
    }
    rows.push_back(at::cat(cut, kColumns));
    above = std::move(tiles);
  }
  return at::cat(rows, kRows);
}

}  // namespace burnish::models::vae
