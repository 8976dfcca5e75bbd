#include "train/samples/pixels.h"

#include <ATen/core/Tensor.h>

#include "data/resize.h"

namespace burnish::train {

namespace {

/// A picture [H, W, C] or a clip [F, H, W, C]; what is no pixels stays as it is.
at::Tensor one_in_model_range(const at::Tensor& pixels) {
  if (pixels.scalar_type() != at::kByte) return pixels;
  return pixels.dim() == 4 ? data::frames_to_model_range(pixels) : data::to_model_range(pixels);
}

/// Pixels with a leading dimension of 1, of a batch of one sample; a picture may be without it.
at::Tensor batch_in_model_range(const at::Tensor& pixels) {
  if (pixels.scalar_type() != at::kByte || pixels.dim() == 3) return one_in_model_range(pixels);
  return one_in_model_range(pixels.squeeze(0)).unsqueeze(0);
}

}  // namespace

pipeline::Values in_model_range(pipeline::Values values, std::optional<c10::Device> device) {
  if (device) values = pipeline::moved(std::move(values), *device);
  for (auto& [name, value] : values) {
    const bool is_list = std::holds_alternative<pipeline::TensorLists>(value);
    pipeline::change_tensors(value, is_list ? one_in_model_range : batch_in_model_range);
  }
  return values;
}

}  // namespace burnish::train
