#include "models/model/family.h"

namespace burnish::models {

ModelEntry sizes_of(std::string_view variant, nn::Module& module) {
  std::string label(variant);
  return {.label = label,
          .folder = {},
          .component = "",
          .config = nullptr,
          .tensors = io::TensorSource::of_shapes(label, shapes_of(module), c10::ScalarType::BFloat16),
          .is_sizes = true};
}

}  // namespace burnish::models
