#include "kernels/group_norm_silu/group_norm_silu.h"

#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/group_norm_silu/cpu.h"
#include "kernels/group_norm_silu/gpu.h"

namespace burnish::kernels {

namespace {

struct GroupNormSilu : torch::autograd::Function<GroupNormSilu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x_in, int64_t num_groups, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
    auto x = x_in.contiguous();
    auto batch = x.size(0), channels = x.size(1), pixels = x.numel() / (batch * channels);
    auto [z, mean, rstd] = at::native_group_norm(x, weight, bias, batch, channels, pixels, num_groups, eps);
    ctx->save_for_backward({x, weight, bias, mean, rstd});
    ctx->saved_data["num_groups"] = num_groups;
    ctx->saved_data["eps"] = eps;
    return at::silu_(z);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &bias = saved[2];
    auto num_groups = ctx->saved_data["num_groups"].toInt();
    auto batch = x.size(0), channels = x.size(1), pixels = x.numel() / (batch * channels);
    auto z = std::get<0>(at::native_group_norm(x, weight, bias, batch, channels, pixels, num_groups, ctx->saved_data["eps"].toDouble()));
    auto dz = at::silu_backward(grads[0].contiguous(), z);
    auto [dx, dw, db] = at::native_group_norm_backward(dz, x, saved[3], saved[4], weight, batch, channels, pixels, num_groups,
                                                       {ctx->needs_input_grad(0), ctx->needs_input_grad(1), ctx->needs_input_grad(2)});
    return {dx, at::Tensor(), dw, db, at::Tensor()};
  }
};

}  // namespace

at::Tensor group_norm_silu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  if (group_norm_silu_fits_cpu(x, num_groups, weight, bias)) return group_norm_silu_cpu(x, num_groups, weight, bias, eps);
  if (group_norm_silu_fits_gpu(x, num_groups, weight, bias)) return group_norm_silu_gpu(x, num_groups, weight, bias, eps);
  return GroupNormSilu::apply(x, num_groups, weight, bias, eps);
}

}  // namespace burnish::kernels
