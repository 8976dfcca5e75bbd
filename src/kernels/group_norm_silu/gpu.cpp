#include "kernels/group_norm_silu/gpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kPixelBlock = 1024, kLargestGroup = 128;

/// The sizes of x [B, C, ...] that the kernels are given, in their order.
struct GroupSizes {
  int64_t batch, channels, pixels, per_group;
  double eps;

  GroupSizes(const at::Tensor& x, int64_t num_groups, double epsilon)
      : batch(x.size(0)), channels(x.size(1)), pixels(x.numel() / (batch * channels)), per_group(channels / num_groups), eps(epsilon) {}

  std::array<int64_t, 3> by_channel() const { return {batch * channels, 1, 1}; }
  std::array<int64_t, 3> by_block() const { return {batch * channels, (pixels + kPixelBlock - 1) / kPixelBlock, 1}; }

  std::vector<Argument> after(std::vector<Argument> tensors) const {
    tensors.insert(tensors.end(), {{"channels", channels}, {"pixels", pixels}, {"per_group", per_group}, {"eps", eps}});
    return tensors;
  }
};

const Binary* group_norm_silu_kernel(const char* function, const at::Tensor& x) {
  return find_kernel(kernel_name(function, kernel_dtype(x.scalar_type()), {kPixelBlock, kLargestGroup}), x.device());
}

const Binary* channel_statistics_kernel(const at::Tensor& x) {
  return find_kernel(kernel_name("group_norm_silu.channel_statistics", kernel_dtype(x.scalar_type()), {kPixelBlock}), x.device());
}

struct GroupNormSiluGpu : torch::autograd::Function<GroupNormSiluGpu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, int64_t num_groups, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
    const GroupSizes sizes(x, num_groups, eps);
    auto statistics = at::empty({sizes.batch, sizes.channels, 2}, x.options().dtype(at::kFloat));
    auto y = at::empty_like(x);
    launch(*channel_statistics_kernel(x), sizes.by_channel(), {{"x", x}, {"statistics", statistics}, {"pixels", sizes.pixels}});
    launch(*group_norm_silu_kernel("group_norm_silu.forward", x), sizes.by_block(),
           sizes.after({{"x", x}, {"weight", weight}, {"bias", bias}, {"statistics", statistics}, {"y", y}}));
    ctx->save_for_backward({x, weight, bias, statistics});
    ctx->saved_data["num_groups"] = num_groups;
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &bias = saved[2], &statistics = saved[3];
    const GroupSizes sizes(x, ctx->saved_data["num_groups"].toInt(), ctx->saved_data["eps"].toDouble());
    auto dy = contiguous_aligned(grads[0]);
    auto sums = at::empty_like(statistics), dx = at::empty_like(x);
    std::vector<Argument> tensors{{"x", x}, {"dy", dy}, {"weight", weight}, {"bias", bias}, {"statistics", statistics}, {"sums", sums}};
    launch(*group_norm_silu_kernel("group_norm_silu.channel_sums", x), sizes.by_channel(), sizes.after(tensors));
    tensors.push_back({"dx", dx});
    launch(*group_norm_silu_kernel("group_norm_silu.backward", x), sizes.by_block(), sizes.after(tensors));
    auto over_batch = sums.sum(0);
    auto dweight = over_batch.select(1, 1).to(weight.scalar_type()), dbias = over_batch.select(1, 0).to(bias.scalar_type());
    return {dx, at::Tensor(), dweight, dbias, at::Tensor()};
  }
};

}  // namespace

bool group_norm_silu_fits_gpu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias) {
  auto dtype = x.scalar_type();
  if (runs_on_cpu(x) || kernel_dtype(dtype).empty() || x.dim() < 2 || x.numel() == 0 || x.size(1) % num_groups != 0) return false;
  const GroupSizes sizes(x, num_groups, 0);
  return x.is_contiguous() && is_aligned(x) && sizes.pixels % 16 == 0 && sizes.per_group <= kLargestGroup &&
         weight.scalar_type() == dtype && bias.scalar_type() == dtype && weight.is_contiguous() && bias.is_contiguous() &&
         group_norm_silu_kernel("group_norm_silu.forward", x) != nullptr;
}

at::Tensor group_norm_silu_gpu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  return GroupNormSiluGpu::apply(x, num_groups, weight, bias, eps);
}

}  // namespace burnish::kernels
