#include "models/model/kept_dtypes.h"

#include "kernels/shapes_only.h"

namespace burnish::models {

std::set<std::string> kept_in_fp32(const Components& components, const std::string& component) {
  kernels::ShapesOnly shapes_only;
  const auto in_16_bits = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  auto whole = components.find(component)->build(component, in_16_bits);
  std::set<std::string> kept;
  whole->visit_parameters([&](const std::string& path, at::Tensor& p) {
    if (p.scalar_type() == at::kFloat) kept.insert(path);
  });
  return kept;
}

}  // namespace burnish::models
