#include "train/samples/pixels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "data/resize.h"

namespace burnish::train {

namespace {

/// [1, F, H, W, C] -> [1, C, F, H, W]
at::Tensor clip_in_model_range(const at::Tensor& clip) {
  auto out = at::empty({1, clip.size(4), clip.size(1), clip.size(2), clip.size(3)}, clip.options().dtype(at::kFloat));
  for (int64_t k = 0; k < clip.size(1); ++k) out[0].select(1, k).copy_(data::to_model_range(clip[0][k]));
  return out;
}

}  // namespace

pipeline::Values in_model_range(pipeline::Values values, std::optional<c10::Device> device) {
  if (device) values = pipeline::moved(std::move(values), *device);
  auto convert = [](const at::Tensor& pixels) {
    if (pixels.scalar_type() != at::kByte) return pixels;
    if (pixels.dim() == 5) return clip_in_model_range(pixels);
    return pixels.dim() == 4 ? data::to_model_range(pixels.squeeze(0)).unsqueeze(0) : data::to_model_range(pixels);
  };
  auto convert_in_list = [&](const at::Tensor& pixels) {
    const bool is_clip = pixels.scalar_type() == at::kByte && pixels.dim() == 4;
    return is_clip ? clip_in_model_range(pixels.unsqueeze(0)).squeeze(0) : convert(pixels);
  };
  for (auto& [name, value] : values) {
    if (std::holds_alternative<pipeline::TensorLists>(value)) pipeline::change_tensors(value, convert_in_list);
    else pipeline::change_tensors(value, convert);
  }
  return values;
}

}  // namespace burnish::train
