#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "models/families/minimax_h3/autoencoder_config.h"

namespace burnish::models::minimax_h3 {

/// The first latent of each tile along a side, and by how many latents each overlaps the one before.
struct TilesAlong {
  std::vector<int64_t> begins, overlaps;
  int64_t length = 0;  ///< of every tile
};
/// Lays as few tiles as overlap enough over a side of so many latents, and spreads what they are too long among the overlaps (diffusers:
/// AutoencoderKLMiniMaxH3).
TilesAlong tiles_along(int64_t num_latents, const Tiling& tiling, int64_t downsampling);

/// The places along a side that stand for one latent, in what is cut into tiles and in what is made of a tile.
struct TileScale {
  int64_t of_x, of_result;
};
/// Runs `part` on tiles of x [..., H, W] and puts the results together, each faded into those above it and before it.
at::Tensor in_even_tiles(const at::Tensor& x, const Tiling& tiling, int64_t downsampling, const TileScale& scale,
                         const std::function<at::Tensor(const at::Tensor& tile)>& part);

/// Returns `x` with its first `count` slices along `dim` faded in behind the last ones of `before`.
at::Tensor faded(const at::Tensor& before, const at::Tensor& x, int64_t dim, int64_t count);

}  // namespace burnish::models::minimax_h3
