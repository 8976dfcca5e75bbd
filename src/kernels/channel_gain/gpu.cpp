#include "kernels/channel_gain/gpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kGainBlock = 1024, kGainRowsOfProgram = 32;

const Binary* channel_gain_kernel(const char* function, const at::Tensor& x, std::initializer_list<int64_t> constants) {
  return find_kernel(kernel_name(function, kernel_dtype(x.scalar_type()), constants), x.device());
}

}  // namespace

bool channel_gain_fits_gpu(const at::Tensor& x, const at::Tensor& gain) {
  return !runs_on_cpu(x) && !kernel_dtype(x.scalar_type()).empty() && x.numel() > 0 && x.size(-1) % 16 == 0 && x.is_contiguous() &&
         is_aligned(x) && gain.scalar_type() == at::kFloat && gain.is_contiguous() && is_aligned(gain) &&
         channel_gain_kernel("channel_gain.backward", x, {kGainBlock}) != nullptr;
}

void scale_channels_gpu(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& offset, const at::Tensor& y) {
  const int64_t width = x.size(-1);
  auto exact = offset.defined() ? contiguous_aligned(offset.to(at::kFloat)) : at::Tensor();
  launch(*channel_gain_kernel("channel_gain.forward", x, {kGainBlock, offset.defined()}),
         {x.numel() / width, (width + kGainBlock - 1) / kGainBlock, 1},
         {{"x", x}, {"gain", gain}, {"offset", exact}, {"y", y}, {"width", width}});
}

ChannelGradients channel_gradients_gpu(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& gain) {
  const int64_t width = dy.size(-1), rows = dy.numel() / width, programs = (rows + kGainRowsOfProgram - 1) / kGainRowsOfProgram;
  auto dx = at::empty_like(dy);
  auto sums = at::empty({programs, 2, width}, gain.options().requires_grad(false));
  launch(*channel_gain_kernel("channel_gain.backward", dy, {kGainBlock}), {programs, (width + kGainBlock - 1) / kGainBlock, 1},
         {{"dy", contiguous_aligned(dy)},
          {"y", contiguous_aligned(y)},
          {"gain", gain},
          {"dx", dx},
          {"sums", sums},
          {"rows", rows},
          {"width", width},
          {"rows_each", kGainRowsOfProgram}});
  auto total = sums.sum(0);
  return {dx, total.select(0, 0), total.select(0, 1)};
}

}  // namespace burnish::kernels
