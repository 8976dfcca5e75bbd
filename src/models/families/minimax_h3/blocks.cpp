#include "models/families/minimax_h3/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>

#include "kernels/gated_residual/gated_residual.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::minimax_h3 {

namespace {

/// {query, key [B, L, H, P], weights of their norms, and where tokens have places cos and sin} -> {query, key [B, H, L, P]}. All heads in
/// fp32 would be larger than what a block keeps of them, so they are turned piece by piece.
nn::Compute heads_by(double eps) {
  return [=](const nn::Tensors& in) {
    auto normed = [=](const at::Tensor& heads_BLHP, const at::Tensor& weight) {
      return at::rms_norm(heads_BLHP, weight.sizes(), weight, eps);
    };
    auto head = [&](size_t i) {
      if (in.size() == 4) return normed(in[i], in[i + 2]).transpose(1, 2);
      const auto of_tokens = in[4].dim() - 2;
      return nn::by_tokens({{in[i]}, {in[i + 2], nn::kShared}, {in[4], of_tokens}, {in[5], of_tokens}}, 2, nn::tokens_of_one_piece(in[i]),
                           [=](const nn::Tensors& some) { return turned(normed(some[0], some[1]), some[2], some[3]); });
    };
    return nn::Tensors{head(0), head(1)};
  };
}

/// Tokens of a kind, and the six numbers [B, D] of each by which they are modulated.
struct ModulatedRun {
  at::Tensor x_BLD;
  nn::Tensors modulation;
};

/// {weight, and of each run of tokens x, scale and shift} -> {the runs, normed and modulated, one behind the other}.
nn::Compute normed_by(double eps) {
  return [=](const nn::Tensors& in) {
    nn::Tensors runs;
    for (size_t i = 1; i < in.size(); i += 3) {
      runs.push_back(nn::by_tokens({{in[i]}, {in[0], nn::kShared}, {in[i + 1], nn::kShared}, {in[i + 2], nn::kShared}}, 1,
                                   nn::tokens_of_one_piece(in[i]),
                                   [=](const nn::Tensors& some) { return modulated(some[0], some[1], some[2], some[3], eps); }));
    }
    return nn::Tensors{at::cat(runs, 1)};
  };
}

/// Returns what normed_by reads, with the shift that stands at `shift` and the scale behind it.
nn::Tensors in_norm(const nn::RMSNorm& norm, const std::vector<ModulatedRun>& runs, size_t shift) {
  nn::Tensors in{norm.weight};
  for (const auto& run : runs) in.insert(in.end(), {run.x_BLD, run.modulation[shift + 1], run.modulation[shift]});
  return in;
}

/// Adds y [B, L, D] of all runs to their tokens.
void add_gated(std::vector<ModulatedRun>& runs, size_t gate, const at::Tensor& y_BLD) {
  int64_t begin = 0;
  for (auto& [x_BLD, modulation] : runs) {
    x_BLD = kernels::gated_residual(x_BLD, modulation[gate], y_BLD.narrow(1, begin, x_BLD.size(1)).contiguous());
    begin += x_BLD.size(1);
  }
}

}  // namespace

at::Tensor turned(const at::Tensor& heads_BLHP, const at::Tensor& cos, const at::Tensor& sin) {
  const auto num_pairs = cos.size(-1);
  auto x = heads_BLHP.transpose(1, 2).to(at::kFloat);
  auto over_heads = [](const at::Tensor& table) { return table.dim() == 3 ? table.unsqueeze(1) : table; };
  const auto first = x.narrow(-1, 0, num_pairs), second = x.narrow(-1, num_pairs, num_pairs);
  const auto c = over_heads(cos), s = over_heads(sin);
  const auto still = x.narrow(-1, 2 * num_pairs, x.size(-1) - 2 * num_pairs);
  return at::cat({first * c - second * s, second * c + first * s, still}, -1).to(heads_BLHP.scalar_type());
}

at::Tensor modulated(const at::Tensor& x_BLD, const at::Tensor& weight, const at::Tensor& scale_BD, const at::Tensor& shift_BD,
                     double eps) {
  auto normed = at::rms_norm(x_BLD.to(at::kFloat), weight.sizes(), weight.to(at::kFloat), eps);
  return (normed * (scale_BD.to(at::kFloat) + 1).unsqueeze(1) + shift_BD.to(at::kFloat).unsqueeze(1)).to(x_BLD.scalar_type());
}

Attention::Attention(const Config& c, const at::TensorOptions& options)
    : num_heads_(c.heads.num),
      q_(c.width, c.heads.width(), options, false),
      k_(c.width, c.heads.width(), options, false),
      v_(c.width, c.heads.width(), options, false),
      out_(c.heads.width(), c.width, options, false),
      norm_q_(c.heads.dim, c.eps.heads, options),
      norm_k_(c.heads.dim, c.eps.heads, options) {
  own("to_q", q_);
  own("to_k", k_);
  own("to_v", v_);
  own("norm_q", norm_q_);
  own("norm_k", norm_k_);
  own("to_out.0", out_);
}

nn::Tensors Attention::project(const at::Tensor& x_BLD) const {
  auto all = nn::forward_all({&q_, &k_, &v_}, x_BLD);
  for (auto& heads : all) heads = heads.unflatten(-1, {num_heads_, -1});
  return all;
}

at::Tensor Attention::attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const Attend& attention) const {
  const auto v_BHLP = projected[2].transpose(1, 2);
  nn::Tensors from{projected[0], projected[1], norm_q_.weight, norm_k_.weight};
  if (cos.defined()) from.insert(from.end(), {cos, sin});
  auto attended =
      nn::recomputed(from, heads_by(norm_q_.eps()), [&](const nn::Tensors& qk) { return nn::Tensors{attention(qk[0], qk[1], v_BHLP)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

FeedForward::FeedForward(const Config& c, const at::TensorOptions& options)
    : in_(c.width, 2 * c.hidden, options, false), out_(c.hidden, c.width, options, false) {
  own("net.0.proj", in_);
  own("net.2", out_);
}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  auto layers = [this](const nn::Tensors& in) {
    return nn::recomputed(
        {in_.forward(in[0])},
        [](const nn::Tensors& both) {
          return nn::by_tokens({{both[0]}}, 1, nn::tokens_of_one_piece(both[0]), [](const nn::Tensors& some) {
            const auto halves = some[0].chunk(2, -1);
            return halves[0] * at::silu(halves[1]);
          });
        },
        [&](const at::Tensor& hidden) { return out_.forward(hidden); });
  };
  return nn::by_tokens({{x}}, 1, tokens_at_once, layers, /*has_parameters=*/true);
}

RefinerBlock::RefinerBlock(const Config& c, const at::TensorOptions& options)
    : norm1_(c.width, c.eps.tokens, options), norm2_(c.width, c.eps.tokens, options), attention_(c, options), feed_forward_(c, options) {
  own("norm1", norm1_);
  own("attn", attention_);
  own("norm2", norm2_);
  own("ff", feed_forward_);
}

nn::Tensors RefinerBlock::body(const nn::Tensors& in) {
  const auto& x = in[0];
  auto bias = in.size() > 1 ? in[1] : at::Tensor();
  auto attention = [&](const auto& q, const auto& k, const auto& v) { return nn::attention(q, k, v, bias); };
  auto mid = x + attention_.attend(attention_.project(norm1_.forward(x)), {}, {}, attention);
  return {mid + feed_forward_.forward(norm2_.forward(mid))};
}

MainBlock::MainBlock(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.heads.num),
      norm1_(c.width, c.eps.tokens, options),
      norm2_(c.width, c.eps.tokens, options),
      attention_(c, options),
      feed_forward_(c, options) {
  own("norm1", norm1_);
  own("attn", attention_);
  own("norm2", norm2_);
  own("ff", feed_forward_);
}

nn::Tensors MainBlock::body(const nn::Tensors& in) {
  const auto &cos = in[3], &sin = in[4];
  const auto num_tokens = cos.size(-2);
  const auto by_run = in[2].unflatten(-1, {-1, kModulations, in[0].size(2)}).unbind(1);
  const size_t first_between = 5, behind = first_between + by_run.size() - 2;
  auto bias = in.size() > behind ? in[behind] : at::Tensor();
  std::vector<ModulatedRun> runs{{in[0], by_run.front().unbind(1)}};
  for (size_t i = first_between; i < behind; ++i) runs.push_back({in[i], by_run[i - first_between + 1].unbind(1)});
  runs.push_back({in[1], by_run.back().unbind(1)});

  auto projected = nn::recomputed(in_norm(norm1_, runs, 0), normed_by(norm1_.eps()),
                                  [&](const nn::Tensors& normed) { return attention_.project(normed[0]); });
  auto attention = [&](const auto& q, const auto& k, const auto& v) { return attention_of(q, k, v, bias, num_tokens); };
  add_gated(runs, 2, attention_.attend(projected, here(cos, -2), here(sin, -2), attention));
  auto fed = nn::recomputed(in_norm(norm2_, runs, 3), normed_by(norm2_.eps()),
                            [&](const nn::Tensors& normed) { return nn::Tensors{feed_forward_.forward(normed[0])}; });
  add_gated(runs, 5, fed[0]);
  nn::Tensors out{runs.front().x_BLD, runs.back().x_BLD};
  for (size_t i = 1; i + 1 < runs.size(); ++i) out.push_back(runs[i].x_BLD);
  return out;
}

}  // namespace burnish::models::minimax_h3
