#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "kernels/quantize_rows/quantize_rows.h"
#include "kernels/transpose_codes/transpose_codes.h"
#include "quant/scaled_mm.h"
#include "quant/source.h"

namespace burnish::quant {

namespace {

bool multiple_of_16(const QuantizedWeight& w) { return w.in % 16 == 0 && w.out % 16 == 0; }

}  // namespace

Fp8ComputeSource::Fp8ComputeSource(QuantizedWeight weight) : QuantizedSource(std::move(weight)) {
  if (weight_.format.codes != CodeKind::e4m3 || weight_.format.scaling == Scaling::block)
    config_error("quant", "fp8_compute multiplies E4M3 codes with a scale per row or weight, not {}; choose weight_format fp8",
                 describe(weight_.format));
}

at::Tensor Fp8ComputeSource::row_scales() const { return weight_.scales.expand({weight_.out, 1}); }

at::Tensor Fp8ComputeSource::forward(const kernels::Product&, const at::Tensor& x, const at::Tensor& bias) const {
  auto sizes = x.sizes().vec();
  sizes.back() = weight_.out;
  return multiply_rows(x.flatten(0, -2), bias).view(sizes);
}

at::Tensor Fp8ComputeSource::input_gradient(const kernels::Product&, const at::Tensor& dy, at::IntArrayRef x_sizes) const {
  return multiply_transposed(dy.flatten(0, -2)).view(x_sizes);
}

at::Tensor Fp8ComputeSource::multiply_rows(const at::Tensor& x_NI, const at::Tensor& bias) const {
  auto x = kernels::quantize_rows(x_NI, {});
  auto scales_1O = row_scales().t();
  if (has_fp8_products(device()) && multiple_of_16(weight_)) {
    auto codes = weight_.codes.view(at::kFloat8_e4m3fn);
    return scaled_mm(x.codes_NI, codes.t(), x.scales_N1, scales_1O.contiguous(), bias, /*fast_sums=*/true).to(x_NI.scalar_type());
  }
  auto exact_NI = x.codes_NI.to(at::kFloat);
  auto y = at::empty({x_NI.size(0), weight_.out}, x_NI.options().requires_grad(false));
  nn::for_each_tile(*this, [&](int64_t begin, int64_t end) {
    auto sums = at::mm(exact_NI, dequantize_rows(weight_, begin, end, at::kFloat, /*with_scales=*/false).t());
    sums.mul_(x.scales_N1).mul_(scales_1O.narrow(1, begin, end - begin));
    if (bias.defined()) sums.add_(bias.narrow(0, begin, end - begin));
    y.narrow(1, begin, end - begin).copy_(sums);
  });
  return y;
}

at::Tensor Fp8ComputeSource::multiply_transposed(const at::Tensor& dy_NO) const {
  auto dy = kernels::quantize_rows(dy_NO, row_scales().select(1, 0));
  if (has_fp8_products(device()) && multiple_of_16(weight_)) {
    auto transposed =
        kernels::transpose_codes(weight_.codes).view(at::kFloat8_e4m3fn);  // [in, out]: the product needs it contiguous along out
    auto ones = at::ones({1, weight_.in}, dy.scales_N1.options());
    return scaled_mm(dy.codes_NI, transposed.t(), dy.scales_N1, ones, {}, /*fast_sums=*/false).to(dy_NO.scalar_type());
  }
  auto exact_NO = dy.codes_NI.to(at::kFloat);
  auto dx = at::zeros({dy_NO.size(0), weight_.in}, exact_NO.options());
  nn::for_each_tile(*this, [&](int64_t begin, int64_t end) {
    dx.addmm_(exact_NO.narrow(1, begin, end - begin), dequantize_rows(weight_, begin, end, at::kFloat, /*with_scales=*/false));
  });
  return dx.mul_(dy.scales_N1).to(dy_NO.scalar_type());
}

}  // namespace burnish::quant
