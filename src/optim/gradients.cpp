#include "optim/gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "optim/distance.h"

namespace burnish::optim {
namespace {

std::vector<at::Tensor> gradients_of(const ParameterList& parameters) {
  std::vector<at::Tensor> gradients;
  for (const NamedParameter& parameter : parameters) {
    if (parameter.value.grad().defined() && parameter.value.numel() > 0) gradients.push_back(parameter.value.grad());
  }
  return gradients;
}

/// Sum of squares on the CPU: dot products of short pieces (fast, and short enough for fp32), added up in fp64.
double sum_of_squares(const at::Tensor& gradient) {
  constexpr int64_t kPiece = 1 << 12;
  const at::Tensor flat = gradient.reshape({-1});
  double sum = 0;
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const at::Tensor piece = flat.narrow(0, begin, std::min(kPiece, flat.numel() - begin)).to(at::kFloat);
    sum += *at::dot(piece, piece).const_data_ptr<float>();
  }
  return sum;
}

}  // namespace

// A part is a sum of squares on the CPU, and a norm elsewhere.
at::Tensor norm_part(const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  if (gradient.is_cpu()) return at::full({}, sum_of_squares(gradient), at::kDouble);
  return at::linalg_vector_norm(gradient, 2, /*dim=*/{}, /*keepdim=*/false, at::kFloat);
}

at::Tensor norm_of_parts(const std::vector<at::Tensor>& parts) {
  const at::NoGradGuard no_grad;
  double sum = 0;
  std::vector<at::Tensor> on_device;
  for (const at::Tensor& part : parts) {
    if (part.is_cpu()) sum += number_of(part);
    else on_device.push_back(part);
  }
  if (on_device.empty()) return at::full({}, std::sqrt(sum), at::kDouble);
  return at::stack(on_device).to(at::kDouble).square().sum().add_(sum).sqrt_();
}

at::Tensor gradient_norm(const ParameterList& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts, on_device;
  for (const at::Tensor& gradient : gradients_of(parameters)) {
    if (gradient.is_cpu()) parts.push_back(norm_part(gradient));
    else on_device.push_back(gradient);
  }
  if (!on_device.empty()) {  // a LoRA has a thousand, which a GPU is not told one by one
    const std::vector<at::Tensor> norms = at::_foreach_norm(on_device, 2, at::kFloat);
    parts.insert(parts.end(), norms.begin(), norms.end());
  }
  return norm_of_parts(parts);
}

at::Tensor gradient_norm_of_owners(const ParameterList& parameters, const std::function<void(const at::Tensor&)>& sum) {
  const at::NoGradGuard no_grad;
  if (!parameters.empty() && parameters.front().value.is_meta()) return gradient_norm(parameters);  // there is nothing to sum
  // One number a parameter, so that they are added in one order wherever they come from.
  const at::Tensor squares = at::zeros({std::ssize(parameters)}, at::kDouble);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = parameters[i].value.grad();
    if (!parameters[i].owned || !gradient.defined()) continue;
    const at::Tensor part = norm_part(gradient).to(at::kDouble);
    squares.select(0, static_cast<int64_t>(i)).copy_(gradient.is_cpu() ? part : part.square());
  }
  sum(squares);
  double all = 0;
  for (const auto* p = squares.const_data_ptr<double>(); const double square : std::span(p, parameters.size())) all += square;
  return at::full({}, std::sqrt(all), at::kDouble);
}

void scale_gradients(const ParameterList& parameters, double factor) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  if (!gradients.empty()) at::_foreach_mul_(gradients, at::Scalar(factor));
}

void clip_gradients(const ParameterList& parameters, const at::Tensor& norm, double max_norm) {
  if (!(max_norm > 0)) return;
  if (norm.is_cpu()) {
    const double known = number_of(norm);
    const double factor = max_norm / (known + 1e-6);
    if (std::isfinite(known) && factor < 1) scale_gradients(parameters, factor);
    return;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor not_finite = (norm - norm).ne(0);
  const at::Tensor factor = (max_norm / (norm + 1e-6)).clamp_max_(1).masked_fill_(not_finite, 1).to(at::kFloat);
  for (const at::Tensor& gradient : gradients_of(parameters)) gradient.mul_(factor);
}

}  // namespace burnish::optim
