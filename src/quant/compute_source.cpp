#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>

#include "kernels/rotate/rotate.h"
#include "quant/source.h"

namespace burnish::quant {

ComputeSource::ComputeSource(QuantizedWeight weight, CodeKind kind) : QuantizedSource(std::move(weight)), kind_(kind) {
  if (!can_compute(weight_.format, kind)) throw std::logic_error("products of codes with " + describe(weight_.format));
}

bool ComputeSource::can_compute(Format format, CodeKind kind) {
  const auto codes = format.codes == CodeKind::int8_convrot ? CodeKind::int8 : format.codes;
  return codes == kind && format.scaling != Scaling::block && format.scaling != Scaling::row_block;
}

kernels::CodedRows ComputeSource::rows_of_x(const at::Tensor& x) const {
  return kernels::quantize_rows(x.flatten(0, -2), {}, kind_, weight_.rotation);
}

kernels::CodedRows ComputeSource::rows_of_dy(const at::Tensor& dy) const {
  return kernels::quantize_rows(dy.flatten(0, -2), scales_1O().select(0, 0), kind_);
}

at::Tensor ComputeSource::multiply_in_fp32(const kernels::CodedRows& x, const at::Tensor& bias, c10::ScalarType dtype) const {
  auto exact_NI = x.codes_NI.to(at::kFloat);
  auto y = at::empty({exact_NI.size(0), weight_.out}, exact_NI.options().dtype(dtype));
  nn::for_each_tile(*this, [&](int64_t begin, int64_t end) {
    auto sums = at::mm(exact_NI, dequantize_rows(weight_, begin, end, at::kFloat, /*with_scales=*/false).t());
    sums.mul_(x.scales_N1).mul_(scales_1O().narrow(1, begin, end - begin));
    if (bias.defined()) sums.add_(bias.narrow(0, begin, end - begin));
    y.narrow(1, begin, end - begin).copy_(sums);
  });
  return y;
}

at::Tensor ComputeSource::multiply_transposed_in_fp32(const kernels::CodedRows& dy, c10::ScalarType dtype) const {
  auto exact_NO = dy.codes_NI.to(at::kFloat);
  auto dx = at::zeros({exact_NO.size(0), weight_.in}, exact_NO.options());
  nn::for_each_tile(*this, [&](int64_t begin, int64_t end) {
    dx.addmm_(exact_NO.narrow(1, begin, end - begin), dequantize_rows(weight_, begin, end, at::kFloat, /*with_scales=*/false));
  });
  dx.mul_(dy.scales_N1);
  if (weight_.rotation > 0) kernels::rotate_(dx, weight_.rotation);
  return dx.to(dtype);
}

}  // namespace burnish::quant
