#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::data {

/// Returns pictures [B, 3, H, W] in [-1, 1] as they come out of H.264, each as a video of one frame: of libx264 at this constant rate
/// factor, in 4:2:0. Sides are even. What has no numbers stays as it is. A data Error where FFmpeg's libraries here have no libx264.
at::Tensor through_h264(const at::Tensor& pictures_BCHW, int64_t crf);

}  // namespace burnish::data
