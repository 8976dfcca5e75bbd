#include "kernels/quantize_rows/quantize_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr double kLeastMagnitude = 1e-12, kLargestCode = 448;
constexpr int64_t kQuantizeBlock = 2048;

Fp8Rows quantize_anywhere(const at::Tensor& x_NI, const at::Tensor& gain_I) {
  auto x = x_NI.to(at::kFloat);
  if (gain_I.defined()) x = x * gain_I;
  // By a tensor: a GPU multiplies by the reciprocal of a number.
  auto scales = x.abs().amax(1, true).clamp_min_(kLeastMagnitude).div_(at::full({}, kLargestCode, x.options()));
  return {(x / scales).clamp_(-kLargestCode, kLargestCode).to(at::kFloat8_e4m3fn), scales};
}

}  // namespace

Fp8Rows quantize_rows(const at::Tensor& x_NI, const at::Tensor& gain_I) {
  const int64_t rows = x_NI.size(0), width = x_NI.size(1);
  auto dtype = kernel_dtype(x_NI.scalar_type());
  const Binary* kernel = nullptr;
  if (!runs_on_cpu(x_NI) && !dtype.empty() && x_NI.numel() > 0 && width % 16 == 0)
    kernel = find_kernel(kernel_name("quantize_rows.codes", dtype, {gain_I.defined(), kQuantizeBlock}), x_NI.device());
  if (kernel == nullptr) return quantize_anywhere(x_NI, gain_I);
  auto exact = x_NI.options().dtype(at::kFloat).requires_grad(false);
  Fp8Rows quantized{at::empty({rows, width}, exact.dtype(at::kFloat8_e4m3fn)), at::empty({rows, 1}, exact)};
  launch(*kernel, {rows, 1, 1},
         {{"x", contiguous_aligned(x_NI)},
          {"gain", gain_I.defined() ? contiguous_aligned(gain_I) : gain_I},
          {"codes", quantized.codes_NI},
          {"scales", quantized.scales_N1},
          {"width", width}});
  return quantized;
}

}  // namespace burnish::kernels
