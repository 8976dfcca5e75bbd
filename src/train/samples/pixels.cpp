#include "train/samples/pixels.h"

#include "data/resize.h"

namespace burnish::train {

pipeline::Values in_model_range(pipeline::Values values, std::optional<c10::Device> device) {
  auto convert = [&](const at::Tensor& tensor) {
    if (tensor.scalar_type() != at::kByte) return tensor;
    auto pixels = tensor.to(device.value_or(tensor.device()));
    return pixels.dim() == 4 ? data::to_model_range(pixels.squeeze(0)).unsqueeze(0) : data::to_model_range(pixels);
  };
  for (auto& [name, value] : values) pipeline::change_tensors(value, convert);
  return values;
}

}  // namespace burnish::train
