#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::models::text {

/// Filters of Pillow's Image.resize, by the pixels that they reach on either side.
enum class Filter { bilinear = 1, bicubic = 2, lanczos = 3 };

/// Scales a picture of whole numbers from 0 to 255, fp64 [3, H, W], to [3, height, width]: to the bytes that Pillow's Image.resize makes,
/// with its fixed-point weights (Pillow: src/libImaging/Resample.c), whose sums fp64 holds exactly, so that every processor makes equal
/// bytes. base/scaling_order.h says what is scaled first, columns or rows.
at::Tensor resampled(const at::Tensor& levels_3HW, int64_t height, int64_t width, Filter filter);

/// Scales it by the same filters and rounds nothing, as torchvision scales numbers with a point (antialias).
at::Tensor resampled_finely(const at::Tensor& levels_3HW, int64_t height, int64_t width, Filter filter);

/// Turns a picture in [-1, 1] into such numbers, and numbers into a picture in fp32.
at::Tensor to_levels(const at::Tensor& image_3HW);
at::Tensor from_levels(const at::Tensor& levels_3HW);

}  // namespace burnish::models::text
