#pragma once
#include <optional>

#include "pipeline/unit.h"

namespace burnish::train {

/// Brings the pictures among a sample's values into the range of models, fp32 [1, 3, H, W], of clips [1, 3, F, H, W], or in lists
/// [3, H, W] in [-1, 1], on `device` or where they lie. Until then pictures are bytes, [1, H, W, 3], [1, F, H, W, 3] or in lists [H, W, 3],
/// a quarter of that; no other value is of bytes.
pipeline::Values in_model_range(pipeline::Values values, std::optional<c10::Device> device = {});

}  // namespace burnish::train
