#pragma once
#include <optional>

#include "pipeline/unit.h"

namespace burnish::train {

/// Brings a sample's values to `device`, or leaves them where they lie, and the pictures among them into the range of models, fp32
/// [1, C, H, W], of clips [1, C, F, H, W], or in lists [C, H, W] and [C, F, H, W] in [-1, 1]. Until then pictures are bytes, [1, H, W, C],
/// [1, F, H, W, C] or in lists [H, W, C] and [F, H, W, C], a quarter of that; no other value is of bytes. C is 3, and of layers 4.
pipeline::Values in_model_range(pipeline::Values values, std::optional<c10::Device> device = {});

}  // namespace burnish::train
