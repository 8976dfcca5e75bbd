#include "kernels/modulated_norm/modulated_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>

#include "kernels/modulated_norm/cpu.h"
#include "kernels/modulated_norm/gpu.h"

namespace burnish::kernels {

at::Tensor modulated_norm_reference(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps) {
  auto normed = at::layer_norm(x_BLD, {x_BLD.size(-1)}, {}, {}, eps);
  return normed * (scale_BD.unsqueeze(1) + 1) + shift_BD.unsqueeze(1);
}

at::Tensor modulated_norm(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps) {
  if (modulated_norm_fits_cpu(x_BLD, scale_BD, shift_BD)) return modulated_norm_cpu(x_BLD, scale_BD, shift_BD, eps);
  if (modulated_norm_fits_gpu(x_BLD, scale_BD, shift_BD)) return modulated_norm_gpu(x_BLD, scale_BD, shift_BD, eps);
  return modulated_norm_reference(x_BLD, scale_BD, shift_BD, eps);
}

}  // namespace burnish::kernels
