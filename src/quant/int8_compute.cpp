#include <ATen/ops/empty.h>

#include "kernels/linear/linear.h"
#include "quant/int8_mm.h"
#include "quant/source.h"

namespace burnish::quant {

at::Tensor Int8ComputeSource::forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const {
  if (has_few_rows(x)) return QuantizedSource::forward(product, x, bias);
  auto sizes = x.sizes().vec();
  sizes.back() = weight_.out;
  const auto rows = rows_of_x(x);
  if (!is_fast()) return multiply_in_fp32(rows, bias, x.scalar_type()).view(sizes);
  auto y = at::empty(sizes, x.options().requires_grad(false));
  multiply_(y, rows, bias, /*adds=*/false);
  return y;
}

at::Tensor Int8ComputeSource::input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const {
  if (has_few_rows(dy)) return QuantizedSource::input_gradient(product, dy, x_sizes);
  const auto rows = rows_of_dy(dy);
  if (!is_fast()) return multiply_transposed_in_fp32(rows, dy.scalar_type()).view(x_sizes);
  auto dx = at::empty(x_sizes, dy.options());
  multiply_transposed_(dx, rows, /*adds=*/false);
  return dx;
}

bool Int8ComputeSource::adds(const kernels::Product& product, const at::Tensor& operand) const {
  if (has_few_rows(operand)) return QuantizedSource::adds(product, operand);
  return is_fast() && kernels::product_dtype(operand) == operand.scalar_type();
}

void Int8ComputeSource::add_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& x) const {
  if (has_few_rows(x)) return QuantizedSource::add_(product, sum, x);
  if (is_fast()) multiply_(sum, rows_of_x(x), {}, /*adds=*/true);
  else sum.add_(multiply_in_fp32(rows_of_x(x), {}, at::kFloat).view(sum.sizes()));
}

void Int8ComputeSource::add_input_gradient_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& dy) const {
  if (has_few_rows(dy)) return QuantizedSource::add_input_gradient_(product, sum, dy);
  if (is_fast()) multiply_transposed_(sum, rows_of_dy(dy), /*adds=*/true);
  else sum.add_(multiply_transposed_in_fp32(rows_of_dy(dy), at::kFloat).view(sum.sizes()));
}

bool Int8ComputeSource::is_fast() const { return has_int8_products(device(), weight_.out, weight_.in); }

void Int8ComputeSource::multiply_(const at::Tensor& y, const kernels::CodedRows& x, const at::Tensor& bias, bool adds) const {
  int8_mm_(rows_of(y), x.codes_NI, weight_.codes.view(at::kChar).t(), {x.scales_N1, scales_1O(), bias}, adds);
}

void Int8ComputeSource::multiply_transposed_(const at::Tensor& dx, const kernels::CodedRows& dy, bool adds) const {
  int8_mm_(rows_of(dx), dy.codes_NI, weight_.codes.view(at::kChar), {dy.scales_N1, {}, {}, weight_.rotation}, adds);
}

}  // namespace burnish::quant
