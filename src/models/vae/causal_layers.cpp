#include "models/vae/causal_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <algorithm>
#include <cmath>

#include "kernels/place.h"
#include "memory/heap.h"
#include "nn/attention.h"

namespace burnish::models::vae {

namespace {

constexpr int64_t kTimeKernel = 3;

/// A convolution over frames alone.
std::unique_ptr<nn::Conv> time_conv(int64_t in, int64_t out, int64_t stride, const at::TensorOptions& options) {
  return std::make_unique<nn::Conv>(
      in, out,
      kernels::Window{.kernel = {kTimeKernel, 1, 1}, .stride = {stride, 1, 1}, .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .causal = true},
      options);
}

kernels::Window causal_window(int64_t kernel, bool in_time) {
  if (!in_time) return kernels::Window::cube(2, kernel, 1, kernel / 2);
  auto window = kernels::Window::cube(3, kernel, 1, kernel / 2);
  window.padding[0] = 0;
  window.causal = true;
  return window;
}

/// The length of every place's channels. ATen's norm takes one place of a CPU after another, and its sum whole rows of them.
at::Tensor lengths(const at::Tensor& x) {
  if (!kernels::runs_on_cpu(x)) return at::norm(x, 2, {1}, /*keepdim=*/true);
  auto wide = x.to(at::promoteTypes(x.scalar_type(), at::kFloat));
  return (wide * wide).sum(1, /*keepdim=*/true).sqrt_().to(x.scalar_type());
}

}  // namespace

void Past::begin_chunk(bool is_last) {
  memory::trim_heap();  // the layers of a chunk leave holes in the heap, which would stay while the largest values of the next are made
  ++num_chunks_;
  is_last_ = is_last;
}

at::Tensor Past::joined(const nn::Module& layer, const at::Tensor& x, int64_t count) {
  if (count == 0) return x;
  auto found = frames_.extract(&layer);
  std::vector<at::Tensor> parts{x};
  if (found) parts.insert(parts.begin(), found.mapped());
  auto missing = count - (found ? found.mapped().size(2) : 0);
  if (missing > 0 && (found || x.size(2) > 1)) {
    auto sizes = x.sizes().vec();
    sizes[2] = missing;
    parts.insert(parts.begin(), at::empty(sizes, x.options(), x.suggest_memory_format()).zero_());
  }
  auto whole = parts.size() == 1 ? x : at::cat(parts, 2);
  // A copy, since a view would keep all frames.
  if (!is_last_) frames_[&layer] = whole.size(2) <= count ? whole : whole.narrow(2, whole.size(2) - count, count).clone();
  return whole;
}

at::Tensor by_frame(const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& part) {
  if (x.size(2) == 1) return part(x.squeeze(2)).unsqueeze(2);
  return part(x.transpose(1, 2).flatten(0, 1)).unflatten(0, {x.size(0), -1}).transpose(1, 2);
}

CausalConv::CausalConv(int64_t in_channels, int64_t out_channels, int64_t kernel, bool in_time, const at::TensorOptions& options)
    : nn::Conv(in_channels, out_channels, causal_window(kernel, in_time), options), num_before_(kernel - 1), in_time_(in_time) {}

at::Tensor CausalConv::forward(const at::Tensor& x, Past& past) const {
  if (in_time_) return Conv::forward(past.joined(*this, x, num_before_));
  return by_frame(x, [&](const at::Tensor& pictures) { return Conv::forward(pictures); });
}

ChannelNorm::ChannelNorm(int64_t channels, bool of_clips, const at::TensorOptions& options)
    : gamma_(at::empty(of_clips ? std::vector<int64_t>{channels, 1, 1, 1} : std::vector<int64_t>{channels, 1, 1}, options)) {
  own("gamma", gamma_);
}

at::Tensor ChannelNorm::forward(const at::Tensor& x) const {
  std::vector<int64_t> along(static_cast<size_t>(x.dim()) - 1, 1);
  along[0] = -1;
  return (x / lengths(x).clamp_min(1e-12)).mul_(gamma_.view(along) * std::sqrt(static_cast<double>(gamma_.size(0))));
}

at::Tensor ChannelNorm::forward_silu(const at::Tensor& x) const {
  auto y = forward(x);
  return at::silu_(y);
}

CausalResnet::CausalResnet(int64_t in, int64_t out, bool in_time, const at::TensorOptions& options)
    : norm1_(in, true, options), norm2_(out, true, options), conv1_(in, out, 3, in_time, options), conv2_(out, out, 3, in_time, options) {
  own("norm1", norm1_);
  own("conv1", conv1_);
  own("norm2", norm2_);
  own("conv2", conv2_);
  if (in != out) own("conv_shortcut", *(shortcut_ = std::make_unique<CausalConv>(in, out, 1, in_time, options)));
}

at::Tensor CausalResnet::forward(const at::Tensor& x, Past& past) const {
  auto y = conv2_.forward(norm2_.forward_silu(conv1_.forward(norm1_.forward_silu(x), past)), past);
  return (shortcut_ ? shortcut_->forward(x, past) : x) + y;
}

CausalMiddle::CausalMiddle(int64_t channels, bool in_time, const at::TensorOptions& options)
    : first_(channels, channels, in_time, options),
      second_(channels, channels, in_time, options),
      norm_(channels, false, options),
      qkv_(channels, 3 * channels, 1, 1, 0, options),
      proj_(channels, channels, 1, 1, 0, options) {
  own("resnets.0", first_);
  own("attentions.0.norm", norm_);
  own("attentions.0.to_qkv", qkv_);
  own("attentions.0.proj", proj_);
  own("resnets.1", second_);
}

at::Tensor CausalMiddle::forward(const at::Tensor& in, Past& past) const {
  auto attended = by_frame(first_.forward(in, past), [&](const at::Tensor& x_BCHW) {
    auto parts = qkv_.forward(norm_.forward(x_BCHW)).chunk(3, 1);
    auto head = [](const at::Tensor& part_BCHW) { return part_BCHW.flatten(2).transpose(1, 2).unsqueeze(1); };
    auto y_BLC = nn::attention(head(parts[0]), head(parts[1]), head(parts[2])).squeeze(1);
    return x_BCHW + proj_.forward(y_BLC.transpose(1, 2).reshape(x_BCHW.sizes()));
  });
  return second_.forward(attended, past);
}

StepDown::StepDown(int64_t channels, bool halves_frames, const at::TensorOptions& options) : conv_(channels, channels, 3, 2, 0, options) {
  own("resample.1", conv_);
  if (halves_frames) own("time_conv", *(time_ = time_conv(channels, channels, 2, options)));
}

at::Tensor StepDown::forward(const at::Tensor& in, Past& past) const {
  auto x = by_frame(in, [&](const at::Tensor& pictures) {
    return conv_.forward(at::pad(pictures, {0, 1, 0, 1}));  // one row and column at the far sides only
  });
  if (!time_) return x;
  x = past.joined(*time_, x, 1);
  return past.is_first() ? x : time_->forward(x);
}

StepUp::StepUp(int64_t in, int64_t out, bool doubles_frames, const at::TensorOptions& options) : conv_(in, out, 3, 1, 1, options) {
  own("resample.1", conv_);
  if (doubles_frames) own("time_conv", *(time_ = time_conv(in, 2 * in, 1, options)));
}

at::Tensor StepUp::forward(const at::Tensor& in, Past& past) const {
  auto x = in;
  if (time_ && !past.is_first()) {  // which gives the channels of two frames
    auto pairs_B2CFHW = time_->forward(past.joined(*time_, x, kTimeKernel - 1)).unflatten(1, {2, -1});
    x = pairs_B2CFHW.permute({0, 2, 3, 1, 4, 5}).flatten(2, 3).contiguous(in.suggest_memory_format());
  }
  return by_frame(x, [&](const at::Tensor& pictures) {
    return conv_.forward(at::upsample_nearest2d(pictures, {pictures.size(2) * 2, pictures.size(3) * 2}));
  });
}

at::Tensor averaged(const at::Tensor& x, int64_t channels, int64_t in_time, int64_t in_space) {
  auto missing = (in_time - x.size(2) % in_time) % in_time;
  auto whole = missing == 0 ? x : at::pad(x, {0, 0, 0, 0, missing, 0});
  auto cut = whole.unflatten(4, {-1, in_space}).unflatten(3, {-1, in_space}).unflatten(2, {-1, in_time});  // B C f t h row w column
  return cut.permute({0, 1, 3, 5, 7, 2, 4, 6}).flatten(1, 4).unflatten(1, {channels, -1}).mean(2);
}

at::Tensor repeated(const at::Tensor& x, int64_t channels, int64_t in_time, int64_t in_space, const Past& past) {
  auto many = x.repeat_interleave(channels * in_time * in_space * in_space / x.size(1), 1);
  auto apart = many.unflatten(1, {channels, in_time, in_space, in_space});  // B C t row column f h w
  auto y = apart.permute({0, 1, 5, 2, 6, 3, 7, 4}).flatten(6, 7).flatten(4, 5).flatten(2, 3);
  return past.is_first() ? y.narrow(2, in_time - 1, y.size(2) - in_time + 1) : y;
}

}  // namespace burnish::models::vae
