#pragma once
#include "models/vae/patch_autoencoder.h"

// The latents of Ideogram 4: those of FLUX.2's autoencoder, with the numbers of a patch pixel by pixel, and statistics of their own.
namespace burnish::models::ideogram4 {

/// Tells whether statistics [4 C] are of patches pixel by pixel: the four numbers of a channel, which are nearly alike, stand C apart.
bool goes_by_pixel(const at::Tensor& mean_C);

/// Returns the order of Ideogram 4, with the published statistics where a file has FLUX.2's; `mean_C` are the file's, undefined where no
/// numbers are there.
vae::PatchOrder order_of_latents(const at::Tensor& mean_C);

}  // namespace burnish::models::ideogram4
