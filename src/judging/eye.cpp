#include "judging/eye.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

namespace burnish::judging {

at::Tensor Eye::of_pictures(const at::Tensor& image_N3SS) {
  at::NoGradGuard no_grad;
  return unit(rows_of(image_N3SS.to(options_.device, options_.dtype)));
}

at::Tensor Eye::unit(const at::Tensor& rows_ND) {
  const auto rows = rows_ND.to(at::kCPU, at::kFloat);
  return rows / rows.norm(2, -1, /*keepdim=*/true);
}

}  // namespace burnish::judging
