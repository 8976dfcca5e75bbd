#include "kernels/gelu_tanh/gelu_tanh.h"

#include <ATen/ops/gelu.h>

#include "kernels/gelu_tanh/cpu.h"

namespace burnish::kernels {

at::Tensor gelu_tanh(const at::Tensor& x) { return gelu_tanh_fits_cpu(x) ? gelu_tanh_cpu(x) : at::gelu(x, "tanh"); }

}  // namespace burnish::kernels
