#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

namespace burnish::models::vae {

/// Runs `part` on square tiles of x [..., H, W] that overlap by a quarter, row by row, and puts the results together, each faded into those
/// above it and before it where they overlap (tiling of diffusers, models/autoencoders/autoencoder_kl.py). `side` is that of a tile of x, 0
/// for all of it; `side_out` that of its result; both are multiples of 4. An x that is no larger than a tile is run whole.
at::Tensor in_tiles(const at::Tensor& x, int64_t side, int64_t side_out, const std::function<at::Tensor(const at::Tensor&)>& part);

}  // namespace burnish::models::vae
