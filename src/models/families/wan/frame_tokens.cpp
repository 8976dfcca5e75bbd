#include "models/families/wan/frame_tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/silu.h>

namespace burnish::models::wan {

namespace {

constexpr double kFrameEps = 1e-6;

kernels::Window over_time(int64_t stride) { return kernels::Window::cube(1, 3, stride); }

/// Before the first frame it is the first.
at::Tensor convolved(const nn::Conv& layer, const at::Tensor& x_BCF) {
  auto first = x_BCF.narrow(2, 0, 1).expand({-1, -1, 2});
  return layer.forward(at::cat({first, x_BCF}, 2));
}

at::Tensor activated(const at::Tensor& x_BCF) {
  auto by_frame = x_BCF.transpose(1, 2);
  return at::silu(at::layer_norm(by_frame, {by_frame.size(-1)}, {}, {}, kFrameEps)).transpose(1, 2).contiguous();
}

}  // namespace

FrameTokens::FrameTokens(const Sizes& s, const at::TensorOptions& o)
    : sizes_(s),
      apart_(s.in, s.first * s.num_tokens, over_time(1), o),
      second_(s.first, s.second, over_time(2), o),
      third_(s.second, s.third, over_time(2), o),
      learned_(at::empty({1, 1, 1, s.width()}, o)) {
  own("conv1_local", apart_);
  own("conv2", second_);
  own("conv3", third_);
  if (s.projected > 0) {
    out_ = std::make_unique<nn::Linear>(s.third, s.projected, o);
    own("out_proj", *out_);
  }
  if (s.has_whole) {
    together_ = std::make_unique<nn::Conv>(s.in, s.first, over_time(1), o);
    whole_ = std::make_unique<nn::Linear>(s.third, s.third, o);
    own("conv1_global", *together_);
    own("final_linear", *whole_);
  }
  own("padding_tokens", learned_);
}

/// [B, first, F] -> [B, f, third].
at::Tensor FrameTokens::halved(const at::Tensor& x_BCF) const {
  auto x = activated(convolved(second_, activated(x_BCF)));
  return activated(convolved(third_, x)).transpose(1, 2);
}

FrameTokens::Made FrameTokens::forward(const at::Tensor& x_BFM) const {
  const auto batch = x_BFM.size(0);
  const auto x = x_BFM.transpose(1, 2);
  auto apart = convolved(apart_, x).unflatten(1, {sizes_.num_tokens, -1}).flatten(0, 1);
  auto made = halved(apart);
  auto tokens = (out_ ? out_->forward(made) : made).unflatten(0, {batch, -1}).transpose(1, 2);
  Made all{at::cat({tokens, learned_.expand({batch, tokens.size(1), 1, -1})}, 2), {}};
  if (whole_) all.whole_BFD = whole_->forward(halved(convolved(*together_, x)));
  return all;
}

at::Tensor FramesHere::whole(const at::Tensor& tokens, const std::function<at::Tensor(const at::Tensor&)>& of_frames) const {
  if (before == 0 && behind == 0) return of_frames(tokens);
  return of_frames(at::constant_pad_nd(tokens, {0, 0, before, behind})).narrow(1, before, tokens.size(1));
}

FramesHere frames_here(const nn::TokenShares* shares, int64_t num_frames, int64_t num_tokens, int64_t num_given) {
  if (shares == nullptr) return {.count = num_frames};
  const auto of_frame = num_tokens / (num_frames + num_given);
  auto before = [&](int64_t place) { return shares->begin(num_tokens, place) - shares->begin(num_given * of_frame, place); };
  const auto begin = before(shares->place()), end = before(shares->place() + 1);
  const auto first = begin / of_frame, last = (end + of_frame - 1) / of_frame;
  return {.first = first, .count = last - first, .before = begin - first * of_frame, .behind = last * of_frame - end};
}

}  // namespace burnish::models::wan
