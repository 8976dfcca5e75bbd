#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_scaled_mm.h>

#include "quant/scaled_mm.h"

namespace burnish::quant {

bool has_fp8_products(c10::Device device) {
  if (!device.is_cuda()) return false;
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  return properties->major * 10 + properties->minor >= 89;
}

at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b, const at::Tensor& bias,
                     bool fast_sums) {
  std::optional<at::Tensor> offset;
  if (bias.defined()) offset = bias.to(at::kBFloat16);
  return at::_scaled_mm(a, b, scale_a, scale_b, offset, /*scale_result=*/{}, at::kBFloat16, fast_sums);
}

}  // namespace burnish::quant
