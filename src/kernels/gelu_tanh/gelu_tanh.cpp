#include "kernels/gelu_tanh/gelu_tanh.h"

#include <ATen/ops/gelu.h>

#include "kernels/gelu_tanh/cpu.h"
#include "kernels/gelu_tanh/gpu.h"

namespace burnish::kernels {

at::Tensor gelu_tanh(const at::Tensor& x) {
  if (gelu_tanh_fits_cpu(x)) return gelu_tanh_cpu(x);
  return gelu_tanh_fits_gpu(x) ? gelu_tanh_gpu(x) : at::gelu(x, "tanh");
}

}  // namespace burnish::kernels
