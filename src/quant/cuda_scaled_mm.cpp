#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_scaled_mm.h>

#include "kernels/place.h"
#include "quant/scaled_mm.h"

namespace burnish::quant {

namespace {

/// Of a GPU, as 89 for 8.9; 0 of other devices.
int capability(c10::Device device) {
  if (!device.is_cuda()) return 0;
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  return properties->major * 10 + properties->minor;
}

}  // namespace

bool has_fp8_products(c10::Device device) { return capability(device) >= 89; }

bool has_int8_tensor_cores(c10::Device device) {
  const auto place = kernels::place_of(device);
  return place.is_cuda() && (!at::hasCUDA() || capability(place) >= 75);
}

at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b, const at::Tensor& bias,
                     bool fast_sums) {
  std::optional<at::Tensor> offset;
  if (bias.defined()) offset = bias.to(at::kBFloat16);
  return at::_scaled_mm(a, b, scale_a, scale_b, offset, /*scale_result=*/{}, at::kBFloat16, fast_sums);
}

}  // namespace burnish::quant
