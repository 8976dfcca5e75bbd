#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "pipeline/unit.h"

namespace burnish::models {

/// What an autoencoder makes of a picture, in the space that the denoiser works in: a normal distribution for each number.
struct Moments {
  at::Tensor mean_BCHW, logvar_BCHW;
};

/// The units from `image` to `latents`, the same in every family. `kind` "mean": the latents are the mean, and nothing else is kept.
/// "sample": `encode_image` writes latents_mean and latents_logvar, and a unit of its own draws from them with the run's latent_noise:
/// mean + exp(logvar / 2) · latent_noise. `encode` runs the model `vae` on image [B, 3, H, W] in [-1, 1].
pipeline::Units latent_units(const std::string& kind, const std::string& vae, std::function<Moments(const at::Tensor& image)> encode);

}  // namespace burnish::models
