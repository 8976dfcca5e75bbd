#include <ATen/ops/ones.h>

#include "kernels/transpose_codes/transpose_codes.h"
#include "quant/scaled_mm.h"
#include "quant/source.h"

namespace burnish::quant {

namespace {

bool multiple_of_16(const QuantizedWeight& w) { return w.in % 16 == 0 && w.out % 16 == 0; }

}  // namespace

at::Tensor Fp8ComputeSource::forward(const kernels::Product&, const at::Tensor& x, const at::Tensor& bias) const {
  auto sizes = x.sizes().vec();
  sizes.back() = weight_.out;
  auto rows = rows_of_x(x);
  if (!has_fp8_products(device()) || !multiple_of_16(weight_)) return multiply_in_fp32(rows, bias, x.scalar_type()).view(sizes);
  auto codes = weight_.codes.view(at::kFloat8_e4m3fn);
  auto y = scaled_mm(rows.codes_NI, codes.t(), rows.scales_N1, scales_1O().contiguous(), bias, /*fast_sums=*/true);
  return y.to(x.scalar_type()).view(sizes);
}

at::Tensor Fp8ComputeSource::input_gradient(const kernels::Product&, const at::Tensor& dy, at::IntArrayRef x_sizes) const {
  auto rows = rows_of_dy(dy);
  if (!has_fp8_products(device()) || !multiple_of_16(weight_)) return multiply_transposed_in_fp32(rows, dy.scalar_type()).view(x_sizes);
  auto transposed =
      kernels::transpose_codes(weight_.codes).view(at::kFloat8_e4m3fn);  // [in, out]: the product needs it contiguous along out
  auto ones = at::ones({1, weight_.in}, rows.scales_N1.options());
  return scaled_mm(rows.codes_NI, transposed.t(), rows.scales_N1, ones, {}, /*fast_sums=*/false).to(dy.scalar_type()).view(x_sizes);
}

}  // namespace burnish::quant
