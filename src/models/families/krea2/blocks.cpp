#include "models/families/krea2/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::krea2 {

namespace {

constexpr GatedMlp::Names kMlpNames{.gate = "gate", .up = "up", .down = "down"};

/// 1 + a norm's weight, in fp32.
at::Tensor factor_of(const at::Tensor& weight) { return weight.to(at::kFloat) + 1; }

/// {weight, and of each run of tokens x, where modulated with scale and shift} -> {what Norm::before uses}.
nn::Compute normed_by(double eps, bool is_modulated) {
  return [=](const nn::Tensors& in) {
    nn::Tensors runs;
    for (size_t i = 1; i < in.size(); i += is_modulated ? 3 : 1) {
      auto normed = at::rms_norm(in[i].to(at::kFloat), in[0].sizes(), factor_of(in[0]), eps).to(in[i].scalar_type());
      runs.push_back(is_modulated ? normed * (in[i + 1] + 1).unsqueeze(1) + in[i + 2].unsqueeze(1) : normed);
    }
    return nn::Tensors{runs.size() == 1 ? runs[0] : at::cat(runs, 1)};
  };
}

/// {query, key [B, L, H, P], weights of their norms, cos, sin, and value where heads of keys serve several queries} -> {query, key, value
/// [B, H, L, P]}, ready for attention.
nn::Compute heads_by(int64_t queries_of_key, double eps) {
  return [=](const nn::Tensors& in) {
    auto rotated = [&](const at::Tensor& x, const at::Tensor& weight) {
      return kernels::qk_norm_rope(x.to(at::kFloat), factor_of(weight), in[4], in[5], eps).to(x.scalar_type());
    };
    nn::Tensors heads{rotated(in[0], in[2]), rotated(in[1], in[3])};
    if (queries_of_key == 1) return heads;
    heads[1] = heads[1].repeat_interleave(queries_of_key, 1);
    heads.push_back(in[6].transpose(1, 2).repeat_interleave(queries_of_key, 1));
    return heads;
  };
}

}  // namespace

Norm::Norm(int64_t dim, double eps, const at::TensorOptions& options) : weight(at::empty({dim}, options.dtype(at::kFloat))), eps_(eps) {
  own("weight", weight);
}

nn::Tensors Norm::before(const std::function<nn::Tensors(const at::Tensor& normed)>& use, const std::vector<Modulated>& runs) const {
  const bool is_modulated = runs.front().scale.defined();
  nn::Tensors from{weight};
  for (const auto& [x, scale, shift] : runs) {
    from.push_back(x);
    if (is_modulated) from.insert(from.end(), {scale, shift});
  }
  return nn::recomputed(from, normed_by(eps_, is_modulated), [&](const nn::Tensors& normed) { return use(normed[0]); });
}

Attention::Attention(const Stack& c, double eps, const at::TensorOptions& options)
    : num_heads_(c.num_heads),
      num_kv_heads_(c.num_kv_heads),
      eps_(eps),
      q_(c.width, c.width, options, false),
      k_(c.width, c.width / c.num_heads * c.num_kv_heads, options, false),
      v_(c.width, c.width / c.num_heads * c.num_kv_heads, options, false),
      gate_(c.width, c.width, options, false),
      out_(c.width, c.width, options, false),
      norm_q_(c.width / c.num_heads, eps, options),
      norm_k_(c.width / c.num_heads, eps, options) {
  own("to_q", q_);
  own("to_k", k_);
  own("to_v", v_);
  own("to_gate", gate_);
  own("norm_q", norm_q_);
  own("norm_k", norm_k_);
  own("to_out.0", out_);
}

nn::Tensors Attention::project(const at::Tensor& x_BLD) const {
  auto all = nn::forward_all({&q_, &k_, &v_, &gate_}, x_BLD);
  all[0] = all[0].unflatten(-1, {num_heads_, -1});
  for (size_t i = 1; i < 3; ++i) all[i] = all[i].unflatten(-1, {num_kv_heads_, -1});
  return all;
}

at::Tensor Attention::attend(const nn::Tensors& projected, const at::Tensor& cos_LP, const at::Tensor& sin_LP,
                             const Attend& attention) const {
  const auto queries_of_key = num_heads_ / num_kv_heads_;
  nn::Tensors from{projected[0], projected[1], norm_q_.weight, norm_k_.weight, cos_LP, sin_LP};
  if (queries_of_key > 1) from.push_back(projected[2]);
  const auto v_BHLP = projected[2].transpose(1, 2);
  auto attended = nn::recomputed(from, heads_by(queries_of_key, eps_), [&](const nn::Tensors& heads) {
    return nn::Tensors{attention(heads[0], heads[1], heads.size() > 2 ? heads[2] : v_BHLP)};
  });
  return nn::recomputed(
      {attended[0], projected[3]}, [](const nn::Tensors& in) { return nn::merge_heads(in[0]) * at::sigmoid(in[1]); },
      [&](const at::Tensor& gated) { return out_.forward(gated); });
}

FusionBlock::FusionBlock(const Config& c, const at::TensorOptions& options)
    : norm1_(c.caption_width, c.norm_eps, options),
      norm2_(c.caption_width, c.norm_eps, options),
      attention_(c.fusion(), c.norm_eps, options),
      feed_forward_(c.caption_width, c.caption_hidden, options, kMlpNames) {
  own("norm1", norm1_);
  own("norm2", norm2_);
  own("attn", attention_);
  own("ff", feed_forward_);
}

nn::Tensors FusionBlock::body(const nn::Tensors& in) {
  const auto& x = in[0];
  auto bias = in.size() > 1 ? in[1] : at::Tensor();
  auto projected = norm1_.before([&](const at::Tensor& normed) { return attention_.project(normed); }, {{x}});
  const auto pairs = projected[0].size(-1) / 2;
  auto options = x.options().dtype(at::kFloat);
  auto mid = x + attention_.attend(projected, at::ones({x.size(1), pairs}, options), at::zeros({x.size(1), pairs}, options),
                                   [&](const auto& q, const auto& k, const auto& v) { return nn::attention(q, k, v, bias); });
  return {mid + norm2_.before([&](const at::Tensor& normed) { return nn::Tensors{feed_forward_.forward(normed)}; }, {{mid}})[0]};
}

MainBlock::MainBlock(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads),
      table_(at::empty({6, c.width()}, options)),
      norm1_(c.width(), c.norm_eps, options),
      norm2_(c.width(), c.norm_eps, options),
      attention_(c.main(), c.norm_eps, options),
      feed_forward_(c.width(), c.hidden, options, kMlpNames) {
  own("scale_shift_table", table_);
  own("norm1", norm1_);
  own("norm2", norm2_);
  own("attn", attention_);
  own("ff", feed_forward_);
}

nn::Tensors MainBlock::body(const nn::Tensors& in) {
  const auto num_tokens = in[2].size(0), width = in[0].size(2);
  const bool are_two = in[1].size(1) > 6 * width;
  // Tokens with scale, shift and gate of attention, and of the MLP.
  struct Run {
    at::Tensor x;
    nn::Tensors m;
  };
  auto modulation = [&](int64_t kind) { return (in[1].narrow(1, kind * 6 * width, 6 * width).unflatten(-1, {6, -1}) + table_).unbind(1); };
  std::vector<Run> runs{{in[0], modulation(0)}};
  if (are_two) runs.push_back({in[4], modulation(1)});
  const size_t num_before = are_two ? 5 : 4;
  auto bias = in.size() > num_before ? in[num_before] : at::Tensor();
  auto normed = [&](const Norm& norm, size_t first, const std::function<nn::Tensors(const at::Tensor& normed)>& use) {
    std::vector<Norm::Modulated> all;
    for (const auto& [x, m] : runs) all.push_back({x, m[first], m[first + 1]});
    return norm.before(use, all);
  };
  auto add = [&](size_t gate, const at::Tensor& y) {
    int64_t begin = 0;
    for (auto& [x, m] : runs) {
      x = kernels::gated_residual(x, m[gate], are_two ? y.narrow(1, begin, x.size(1)).contiguous() : y);
      begin += x.size(1);
    }
  };
  auto projected = normed(norm1_, 0, [&](const at::Tensor& x) { return attention_.project(x); });
  add(2, attention_.attend(projected, here(in[2], 0), here(in[3], 0),
                           [&](const auto& q, const auto& k, const auto& v) { return attention_of(q, k, v, bias, num_tokens); }));
  add(5, normed(norm2_, 3, [&](const at::Tensor& x) { return nn::Tensors{feed_forward_.forward(x)}; })[0]);
  nn::Tensors out;
  for (const auto& [x, m] : runs) out.push_back(x);
  return out;
}

}  // namespace burnish::models::krea2
