#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::models {

/// Turns latents [B, C, H, W] -> [B, H/2 · W/2, 4 C], each 2×2 patch into one token with the numbers of a latent side by side, unlike
/// mmdit::to_tokens.
at::Tensor channels_last_tokens(const at::Tensor& latents_BCHW);
/// Turns such tokens back into latents.
at::Tensor of_channels_last_tokens(const at::Tensor& tokens_BIC, int64_t rows, int64_t columns);
/// Turns such tokens of frames [B, F · rows · columns, 4 C], one behind the other, into latents [B, C, F, H, W].
at::Tensor clip_of_channels_last_tokens(const at::Tensor& tokens_BIC, int64_t frames, int64_t rows, int64_t columns);

}  // namespace burnish::models
