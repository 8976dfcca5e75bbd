#include "models/families/minimax_h3/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <numbers>

#include "models/families/minimax_h3/blocks.h"
#include "nn/attention.h"

namespace burnish::models::minimax_h3 {

namespace {

constexpr int64_t kColours = 3;

/// Rotary tables {cos, sin} [L, R] of the tokens of latents, whose places go from -1 to 1 along each side, and of those behind them, which
/// are in the middle.
std::pair<at::Tensor, at::Tensor> tables_of(const DecoderConfig& d, at::IntArrayRef sides, int64_t num_behind, const at::TensorOptions& o) {
  const auto opts = o.dtype(at::kFloat);
  std::vector<at::Tensor> places;
  for (size_t axis = 0; axis < 3; ++axis) {
    std::vector<int64_t> along(3, 1);
    along[axis] = sides[axis];
    auto grid = (at::arange(sides[axis], opts) + 0.5) / static_cast<double>(sides[axis]) * 2 - 1;
    places.push_back(at::cat({grid.view(along).expand(sides).flatten(), at::zeros({num_behind}, opts)}));
  }
  const auto count = static_cast<int64_t>(static_cast<double>(d.head_dim) * d.rotated_share) / 6;
  auto frequencies = (at::arange(count, opts.dtype(at::kDouble)) * (-std::log(d.rope_theta) / static_cast<double>(count))).exp();
  auto angles = at::stack(places, 1).unsqueeze(-1) * (2 * std::numbers::pi) * frequencies.to(at::kFloat);
  return {angles.flatten(1).cos(), angles.flatten(1).sin()};
}

}  // namespace

/// Runs self-attention over tokens x [B, L, D], whose heads of queries and keys are brought to one length.
class DecoderAttention : public nn::Module {
 public:
  DecoderAttention(const DecoderConfig& d, const at::TensorOptions& o)
      : eps_(d.eps),
        head_dim_(d.head_dim),
        q_(d.width(), d.width(), o),
        k_(d.width(), d.width(), o),
        v_(d.width(), d.width(), o),
        out_(d.width(), d.width(), o) {
    own("to_q", q_);
    own("to_k", k_);
    own("to_v", v_);
    own("to_out.0", out_);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) const {
    auto projected = nn::forward_all({&q_, &k_, &v_}, x);
    for (auto& heads : projected) heads = heads.unflatten(-1, {-1, head_dim_});
    auto head = [&](const at::Tensor& heads) { return turned(at::rms_norm(heads, {head_dim_}, {}, eps_), cos, sin); };
    return out_.forward(nn::merge_heads(nn::attention(head(projected[0]), head(projected[1]), projected[2].transpose(1, 2))));
  }

 private:
  double eps_;
  int64_t head_dim_;
  nn::Linear q_, k_, v_, out_;
};

/// Runs attention and an MLP over tokens x [B, L, D], each scaled number by number before it is added.
class DecoderBlock : public nn::Module {
 public:
  DecoderBlock(const DecoderConfig& d, const at::TensorOptions& o)
      : norm1_(d.width(), d.eps, o),
        norm2_(d.width(), d.eps, o),
        attention_(d, o),
        in_mlp_(d.width(), 2 * d.hidden, o),
        out_mlp_(d.hidden, d.width(), o),
        scale1_(at::empty({d.width()}, o)),
        scale2_(at::empty({d.width()}, o)) {
    own("norm1", norm1_);
    own("attn", attention_);
    own("scale1", scale1_);
    own("norm2", norm2_);
    own("ff.net.0.proj", in_mlp_);
    own("ff.net.2", out_mlp_);
    own("scale2", scale2_);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) const {
    auto mid = x + attention_.forward(norm1_.forward(x), cos, sin) * scale1_;
    const auto halves = in_mlp_.forward(norm2_.forward(mid)).chunk(2, -1);
    return mid + out_mlp_.forward(halves[0] * at::silu(halves[1])) * scale2_;
  }

 private:
  nn::RMSNorm norm1_, norm2_;
  DecoderAttention attention_;
  nn::Linear in_mlp_, out_mlp_;
  at::Tensor scale1_, scale2_;
};

Decoder::Decoder(const AutoencoderConfig& c, const at::TensorOptions& o)
    : config_(c),
      in_(c.latent_channels, c.decoder.width(), o),
      registers_(at::empty({1, c.decoder.num_registers, c.decoder.width()}, o)),
      norm_(c.decoder.width(), c.decoder.eps, o),
      out_(c.decoder.width(), kColours * c.frames_per_latent() * c.downsampling() * c.downsampling(), o) {
  own("proj_in", in_);
  own("register_tokens", registers_);
  for (int64_t i = 0; i < c.decoder.num_layers; ++i) {
    blocks_.push_back(std::make_unique<DecoderBlock>(c.decoder, o));
    own("transformer_blocks." + std::to_string(i), *blocks_.back());
  }
  own("norm_out", norm_);
  own("proj_out", out_);
}

Decoder::~Decoder() = default;

at::Tensor Decoder::forward(const at::Tensor& latents) const {
  const auto b = latents.size(0), frames = latents.size(2), rows = latents.size(3), columns = latents.size(4);
  const auto& d = config_.decoder;
  auto tokens = in_.forward(latents.flatten(2).transpose(1, 2));
  const auto num_tokens = tokens.size(1);
  tokens = at::cat({tokens, registers_.expand({b, -1, -1}), at::zeros({b, 1, d.width()}, tokens.options())}, 1);
  const auto [cos, sin] = tables_of(d, {frames, rows, columns}, d.num_registers + 1, tokens.options());
  for (const auto& block : blocks_) tokens = block->forward(tokens, cos, sin);
  const auto out = out_.forward(norm_.forward(tokens.narrow(1, 0, num_tokens)));
  const auto in_time = config_.frames_per_latent(), side = config_.downsampling();
  auto patches = out.view({b, frames, rows, columns, kColours, in_time, side, side}).permute({0, 4, 1, 5, 2, 6, 3, 7});
  return patches.reshape({b, kColours, frames * in_time, rows * side, columns * side});
}

}  // namespace burnish::models::minimax_h3
