#pragma once
#include <functional>

#include "models/model/model.h"
#include "nn/block.h"

namespace burnish::train {

/// Runs `forward` of a denoiser as far as the last of these blocks, counted from 0 in the order in which they run and rising, and returns
/// what the blocks made of the picture's tokens: [B, width, rows, columns] each, frames of a clip among the rows. `latents` [B, C, ...] are
/// what the denoiser is shown. A data Error for a block that does not see the picture.
std::vector<at::Tensor> features_behind(const std::vector<nn::Block*>& blocks, const std::vector<int64_t>& numbers,
                                        const models::Model& model, const at::Tensor& latents, const std::function<void()>& forward);

}  // namespace burnish::train
