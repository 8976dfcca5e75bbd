#pragma once
#include "diffusion/process.h"

// Guidance (diffusion::Guide) of models whose guided predictions are brought back to the length of those without guidance, token by token,
// where a token is 2×2 latents.
namespace burnish::models {

/// Brings them back from longer and from shorter ones.
at::Tensor guide_tokens(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale);
/// Brings them back from longer ones alone.
at::Tensor guide_tokens_down(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale);

}  // namespace burnish::models
