#include <ATen/BlasBackend.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/_scaled_mm_v2.h>

#include "kernels/place.h"
#include "quant/scaled_mm.h"

namespace burnish::quant {

namespace {

/// Returns the compute capability of a GPU, as 89 for 8.9; 0 of other devices.
int capability(c10::Device device) {
  if (!device.is_cuda()) return 0;
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  return properties->major * 10 + properties->minor;
}

std::optional<at::Tensor> offset_of(const at::Tensor& bias) {
  return bias.defined() ? std::optional(bias.to(at::kBFloat16)) : std::nullopt;
}

/// Says how scales of blocks are told to `_scaled_mm_v2`: what each covers, in order, and how they lie.
struct Recipe {
  std::vector<at::Tensor> scales;
  std::vector<int64_t> covers, lies;
};
Recipe recipe_of(const kernels::CodedBlocks& coded) {
  using at::blas::ScalingType, at::blas::SwizzleType;
  const auto laid_out = static_cast<int64_t>(SwizzleType::SWIZZLE_32_4_4), plain = static_cast<int64_t>(SwizzleType::NO_SWIZZLE);
  if (!coded.whole.defined()) return {{coded.scales}, {static_cast<int64_t>(ScalingType::BlockWise1x32)}, {laid_out}};
  return {{coded.scales, coded.whole},
          {static_cast<int64_t>(ScalingType::BlockWise1x16), static_cast<int64_t>(ScalingType::TensorWise)},
          {laid_out, plain}};
}

}  // namespace

bool has_fp8_products(c10::Device device) { return capability(device) >= 89; }

bool has_block_products(c10::Device device) { return capability(device) >= 100; }

bool has_int8_tensor_cores(c10::Device device) {
  const auto place = kernels::place_of(device);
  return place.is_cuda() && (!at::hasCUDA() || capability(place) >= 75);
}

at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b, const at::Tensor& bias,
                     bool fast_sums) {
  return at::_scaled_mm(a, b, scale_a, scale_b, offset_of(bias), /*scale_result=*/{}, at::kBFloat16, fast_sums);
}

at::Tensor scaled_mm(const kernels::CodedBlocks& a, const kernels::CodedBlocks& b, const at::Tensor& bias) {
  const auto of_a = recipe_of(a), of_b = recipe_of(b);
  // The hardware takes the low half of a byte for the first of two numbers. That both factors have them the other way leaves every sum as
  // it is.
  const auto dtype = a.whole.defined() ? at::kFloat4_e2m1fn_x2 : at::kFloat8_e4m3fn;
  return at::_scaled_mm_v2(a.codes_NI.view(dtype), b.codes_NI.view(dtype).t(), of_a.scales, of_a.covers, of_a.lies, of_b.scales,
                           of_b.covers, of_b.lies, offset_of(bias), at::kBFloat16);
}

}  // namespace burnish::quant
