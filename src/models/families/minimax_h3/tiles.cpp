#include "models/families/minimax_h3/tiles.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <algorithm>

namespace burnish::models::minimax_h3 {

namespace {
constexpr int64_t kRows = -2, kColumns = -1;
}  // namespace

TilesAlong tiles_along(int64_t num_latents, const Tiling& tiling, int64_t downsampling) {
  const auto size = tiling.size / downsampling, overlap = tiling.overlap / downsampling;
  if (tiling.size == 0 || size >= num_latents) return {{0}, {}, num_latents};
  auto count = (num_latents + size - 1) / size;
  while (size * count - overlap * (count - 1) < num_latents) ++count;
  TilesAlong tiles{{0}, std::vector<int64_t>(static_cast<size_t>(count - 1), overlap), size};
  const auto spare = size * count - overlap * (count - 1) - num_latents;
  for (int64_t i = 0; i < spare; ++i) ++tiles.overlaps[static_cast<size_t>(i % (count - 1))];
  for (auto by : tiles.overlaps) tiles.begins.push_back(tiles.begins.back() + size - by);
  return tiles;
}

at::Tensor faded(const at::Tensor& before, const at::Tensor& x, int64_t dim, int64_t count) {
  count = std::min({count, before.size(dim), x.size(dim)});
  std::vector<int64_t> along(static_cast<size_t>(x.dim()), 1);
  along[static_cast<size_t>(dim < 0 ? dim + x.dim() : dim)] = count;
  const auto share = (at::arange(count, x.options()) / static_cast<double>(count)).view(along);
  const auto first = before.narrow(dim, before.size(dim) - count, count) * (1 - share) + x.narrow(dim, 0, count) * share;
  return at::cat({first, x.narrow(dim, count, x.size(dim) - count)}, dim);
}

at::Tensor in_even_tiles(const at::Tensor& x, const Tiling& tiling, int64_t downsampling, const TileScale& scale,
                         const std::function<at::Tensor(const at::Tensor&)>& part) {
  const auto down = tiles_along(x.size(kRows) / scale.of_x, tiling, downsampling);
  const auto across = tiles_along(x.size(kColumns) / scale.of_x, tiling, downsampling);
  std::vector<at::Tensor> above, rows;
  for (size_t i = 0; i < down.begins.size(); ++i) {
    std::vector<at::Tensor> tiles, kept;
    for (size_t j = 0; j < across.begins.size(); ++j) {
      auto tile = part(x.narrow(kRows, down.begins[i] * scale.of_x, down.length * scale.of_x)
                           .narrow(kColumns, across.begins[j] * scale.of_x, across.length * scale.of_x));
      auto shown = tile;
      if (i > 0) shown = faded(above[j], shown, kRows, down.overlaps[i - 1] * scale.of_result);
      // A tile is faded into the one before it as that was made.
      if (j > 0) shown = faded(tiles[j - 1], shown, kColumns, across.overlaps[j - 1] * scale.of_result);
      tiles.push_back(tile);
      if (i + 1 < down.begins.size()) shown = shown.narrow(kRows, 0, shown.size(kRows) - down.overlaps[i] * scale.of_result);
      if (j + 1 < across.begins.size()) shown = shown.narrow(kColumns, 0, shown.size(kColumns) - across.overlaps[j] * scale.of_result);
      kept.push_back(shown);
    }
    rows.push_back(at::cat(kept, kColumns));
    above = std::move(tiles);
  }
  return at::cat(rows, kRows);
}

}  // namespace burnish::models::minimax_h3
