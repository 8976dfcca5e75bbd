#include "kernels/gated_residual/gated_residual.h"

#include <ATen/ops/addcmul.h>

#include "kernels/gated_residual/gpu.h"

namespace burnish::kernels {

at::Tensor gated_residual(const at::Tensor& residual_BLD, const at::Tensor& gate_BD, const at::Tensor& y_BLD) {
  if (gated_residual_fits_gpu(residual_BLD, gate_BD, y_BLD)) return gated_residual_gpu(residual_BLD, gate_BD, y_BLD);
  return at::addcmul(residual_BLD, gate_BD.unsqueeze(1), y_BLD);
}

}  // namespace burnish::kernels
