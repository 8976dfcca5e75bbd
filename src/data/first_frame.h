#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>

namespace burnish::data {

/// Decodes a picture, or the first frame of a clip, as uint8 [H, W, 3]. Throws what decode_image and decode_frames throw.
at::Tensor first_frame(const std::filesystem::path& file);

}  // namespace burnish::data
