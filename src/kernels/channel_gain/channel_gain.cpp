#include "kernels/channel_gain/channel_gain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/channel_gain/cpu.h"
#include "kernels/channel_gain/gpu.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A vector of C numbers such that it multiplies the dimension `dim`.
at::Tensor along(const at::Tensor& vector, int64_t dim) {
  std::vector<int64_t> sizes(static_cast<size_t>(-dim), 1);
  sizes[0] = vector.size(0);
  return vector.view(sizes);
}

/// y ← x · gain (+ offset), computed in gain's dtype and rounded once to x's. y is as x, or x itself.
void scale(const at::Tensor& x, const at::Tensor& gain_C, const at::Tensor& offset_C, int64_t dim, at::Tensor& y) {
  if (dim == -1 && channel_gain_fits_cpu(x, gain_C) && y.is_contiguous()) return scale_channels_cpu(x, gain_C, offset_C, y);
  if (dim == -1 && channel_gain_fits_gpu(x, gain_C) && y.is_contiguous()) return scale_channels_gpu(x, gain_C, offset_C, y);
  auto gain = along(gain_C, dim), offset = offset_C.defined() ? along(offset_C, dim) : offset_C;
  if (offset.defined()) {
    at::addcmul_out(y, offset, x, gain);
  } else {
    at::mul_out(y, x, gain);
  }
}

at::Tensor scaled(const at::Tensor& x, const at::Tensor& gain_C, int64_t dim) {
  auto y = at::empty_like(x);
  scale(x, gain_C, {}, dim, y);
  return y;
}

/// Sums over all rows of a · b (b undefined: of a) per channel, in fp32 or better, some rows at a time.
at::Tensor column_sums(const at::Tensor& a, const at::Tensor& b, int64_t dim) {
  if (dim != -1) return column_sums(a.movedim(dim, -1), b.defined() ? b.movedim(dim, -1) : b, -1);
  auto a_NC = a.flatten(0, -2), b_NC = b.defined() ? b.flatten(0, -2) : b;
  auto exact = a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto sums = at::zeros({a_NC.size(1)}, a.options().dtype(exact));
  const int64_t step = std::max<int64_t>(1, (runs_on_cpu(a) ? int64_t{1} << 18 : int64_t{1} << 24) / std::max<int64_t>(1, a_NC.size(1)));
  for (int64_t begin = 0; begin < a_NC.size(0); begin += step) {
    auto count = std::min(step, a_NC.size(0) - begin);
    auto part = a_NC.narrow(0, begin, count).to(exact);
    sums.add_(b.defined() ? (part * b_NC.narrow(0, begin, count)).sum(0) : part.sum(0));
  }
  return sums;
}

/// dy · gain and the sums of dy · y and dy per channel.
ChannelGradients gradients(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& gain, bool with_sum, int64_t dim) {
  if (dim == -1 && channel_gain_fits_cpu(dy, gain) && y.is_contiguous() && y.scalar_type() == dy.scalar_type())
    return channel_gradients_cpu(dy, y, gain);
  if (dim == -1 && channel_gain_fits_gpu(dy, gain) && y.scalar_type() == dy.scalar_type()) return channel_gradients_gpu(dy, y, gain);
  return {scaled(dy, gain, dim), column_sums(dy, y, dim), with_sum ? column_sums(dy, {}, dim) : at::Tensor()};
}

struct ChannelGain : torch::autograd::Function<ChannelGain> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& gain, const std::optional<at::Tensor>& fixed,
                            int64_t dim) {
    auto fixed_exact = fixed ? fixed->to(gain.scalar_type()) : at::Tensor();
    auto y = x.detach();  // not marked as changed: autograd refuses that for views, as products return them
    scale(x, gain, fixed ? fixed_exact * (1 - gain) : at::Tensor(), dim, y);
    ctx->saved_data["dim"] = dim;
    ctx->save_for_backward({y, gain, fixed_exact});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &y = saved[0], &gain = saved[1], &fixed = saved[2];
    auto dim = ctx->saved_data["dim"].toInt();
    auto [dx, dot, sum] = gradients(grads[0].contiguous(), y, gain, fixed.defined(), dim);
    if (fixed.defined()) dot = dot - fixed * sum;
    // A gain of 0 comes from a weight of zeros alone, which has no direction to learn from.
    auto dgain = (dot / gain).masked_fill_(gain == 0, 0).to(gain.scalar_type());
    return {dx, dgain, at::Tensor(), at::Tensor()};
  }
};

struct InputGain : torch::autograd::Function<InputGain> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& gain, int64_t dim) {
    ctx->save_for_backward({x, gain});
    ctx->saved_data["dim"] = dim;
    return scaled(x, gain, dim);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    auto dim = ctx->saved_data["dim"].toInt();
    auto [dx, dot, sum] = gradients(grads[0].contiguous(), saved[0], saved[1], false, dim);
    auto dgain = dot.to(saved[1].scalar_type());
    return {dx, dgain, at::Tensor()};
  }
};

}  // namespace

at::Tensor channel_gain_(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& fixed, int64_t dim) {
  return ChannelGain::apply(x, gain, fixed.defined() ? std::optional(fixed) : std::nullopt, dim);
}

at::Tensor input_gain(const at::Tensor& x, const at::Tensor& gain, int64_t dim) { return InputGain::apply(x, gain, dim); }

}  // namespace burnish::kernels
