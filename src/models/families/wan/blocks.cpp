#include "models/families/wan/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "models/families/wan/talk.h"
#include "nn/attention.h"
#include "nn/by_tokens.h"
#include "nn/modulation_in_fp32.h"

namespace burnish::models::wan {

namespace {

/// A key [B, L, D], its norm's weight and the turns of its places -> [B, H, L, E], ready for attention. The norm is of all heads together.
at::Tensor key_of(int64_t num_heads, const at::Tensor& x_BLD, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin) {
  auto heads = [num_heads](const at::Tensor& x) { return x.unflatten(-1, {num_heads, -1}); };
  if (kernels::qk_norm_rope_is_one_pass(heads(x_BLD), heads(weight), cos, sin))
    return kernels::qk_norm_rope(heads(x_BLD), heads(weight), cos, sin, kTokenEps);
  return nn::by_tokens(
      {{x_BLD}, {weight, nn::kShared}, {cos, 0}, {sin, 0}}, 2, nn::tokens_of_one_piece(x_BLD),
      [heads](const nn::Tensors& some) { return kernels::qk_norm_rope(heads(some[0]), heads(some[1]), some[2], some[3], kTokenEps); });
}

/// {query, key [B, L, D], weights of their norms, cos, sin} -> {query, key [B, H, L, E]}, ready for attention. Both in fp32 would be as
/// large as all that a block keeps.
nn::Compute heads_of(int64_t num_heads) {
  return [num_heads](const nn::Tensors& in) {
    return nn::Tensors{key_of(num_heads, in[0], in[2], in[4], in[5]), key_of(num_heads, in[1], in[3], in[4], in[5])};
  };
}

/// Attention of tokens [B, H, L, E] among each other, those of each frame but the first also to the tokens of a frame beside them
/// [B, H, S, E]. Keys and values of a frame, which are those of all tokens once more, are made anew for backward.
at::Tensor by_frames(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& beside_k,
                     const at::Tensor& beside_v) {
  const auto of_frame = q.size(2) - beside_k.size(2);
  nn::Tensors frames{nn::attention(q.narrow(2, 0, of_frame), k, v)};
  for (int64_t begin = of_frame; begin < q.size(2); begin += of_frame) {
    auto query = q.narrow(2, begin, of_frame);
    auto joined = [&](const at::Tensor& own, const at::Tensor& beside) {
      return nn::Tensors{own, beside.narrow(2, begin - of_frame, of_frame)};
    };
    auto keys = joined(k, beside_k), values = joined(v, beside_v);
    frames.push_back(nn::recomputed(
        {keys[0], keys[1], values[0], values[1]},
        [](const nn::Tensors& in) {
          return nn::Tensors{at::cat({in[0], in[1]}, 2), at::cat({in[2], in[3]}, 2)};
        },
        [&](const nn::Tensors& all) { return nn::Tensors{nn::attention(query, all[0], all[1])}; })[0]);
  }
  return at::cat(frames, 2);
}

}  // namespace

Attention::ForImage::ForImage(int64_t width, const at::TensorOptions& options)
    : k(width, width, options), v(width, width, options), norm_k(width, kTokenEps, options) {}

Attention::Attention(const Config& c, bool image, const at::TensorOptions& options)
    : SharesTokens(c.num_heads),
      num_heads_(c.num_heads),
      q_(c.width(), c.width(), options),
      k_(c.width(), c.width(), options),
      v_(c.width(), c.width(), options),
      out_(c.width(), c.width(), options),
      norm_q_(c.width(), kTokenEps, options),
      norm_k_(c.width(), kTokenEps, options) {
  own("to_q", q_);
  own("to_k", k_);
  own("to_v", v_);
  own("to_out.0", out_);
  own("norm_q", norm_q_);
  own("norm_k", norm_k_);
  if (!image) return;
  image_ = std::make_unique<ForImage>(c.width(), options);
  own("add_k_proj", image_->k);
  own("add_v_proj", image_->v);
  own("norm_added_k", image_->norm_k);
}

nn::Tensors Attention::projected(const nn::Tensors& in_norm, const nn::Compute& norm) const {
  return nn::recomputed(in_norm, norm, [&](const nn::Tensors& normed) { return nn::forward_all({&q_, &k_, &v_}, normed[0]); });
}

at::Tensor Attention::attended(const nn::Tensors& projected, const at::Tensor& cos_LP, const at::Tensor& sin_LP) const {
  const auto num_tokens = cos_LP.size(0);
  auto v = nn::split_heads(projected[2], num_heads_);
  nn::Tensors in{projected[0], projected[1], norm_q_.weight, norm_k_.weight, here(cos_LP, 0), here(sin_LP, 0)};
  auto attended = nn::recomputed(in, heads_of(num_heads_),
                                 [&](const nn::Tensors& qk) { return nn::Tensors{attention_of(qk[0], qk[1], v, {}, num_tokens)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

at::Tensor Attention::attended_with(const Beside& beside, const nn::Tensors& projected, const at::Tensor& cos_LP,
                                    const at::Tensor& sin_LP) const {
  const auto v = nn::split_heads(projected[2], num_heads_), beside_v = nn::split_heads(beside.values_BSD, num_heads_);
  nn::Tensors in{projected[0],    projected[1],    norm_q_.weight,         norm_k_.weight,        here(cos_LP, 0),
                 here(sin_LP, 0), beside.keys_BSD, here(beside.cos_SP, 0), here(beside.sin_SP, 0)};
  auto turned = [own = heads_of(num_heads_), num_heads = num_heads_](const nn::Tensors& all) {
    auto qk = own({all.begin(), all.begin() + 6});
    qk.push_back(key_of(num_heads, all[6], all[3], all[7], all[8]));
    return qk;
  };
  const auto num_tokens = cos_LP.size(0), num_beside = beside.cos_SP.size(0);
  auto attended = nn::recomputed(in, turned, [&](const nn::Tensors& qk) {
    auto* shares = this->shares();
    if (shares == nullptr) return nn::Tensors{by_frames(qk[0], qk[1], v, qk[2], beside_v)};
    auto all = shares->to_heads(at::stack({qk[0], qk[1], v}), num_tokens).unbind(0);
    auto all_beside = shares->to_heads(at::stack({qk[2], beside_v}), num_beside).unbind(0);
    return nn::Tensors{shares->to_tokens(by_frames(all[0], all[1], all[2], all_beside[0], all_beside[1]))};
  });
  return out_.forward(nn::merge_heads(attended[0]));
}

// Texts and pictures are whole in every place, so that attention to them needs no exchange.
at::Tensor Attention::to_others(const at::Tensor& x_BLD, const at::Tensor& text_BTD, const at::Tensor& bias,
                                const at::Tensor& image_BND) const {
  auto heads = [&](const at::Tensor& x) { return nn::split_heads(x, num_heads_); };
  auto query = heads(nn::by_tokens({{q_.forward(x_BLD)}, {norm_q_.weight, nn::kShared}}, 1, nn::tokens_of_one_piece(x_BLD),
                                   [](const nn::Tensors& in) { return at::rms_norm(in[0], in[1].sizes(), in[1], kTokenEps); }));
  auto of_text = nn::forward_all({&k_, &v_}, text_BTD);
  auto attended = nn::attention(query, heads(norm_k_.forward(of_text[0])), heads(of_text[1]), bias);
  if (image_) {
    auto of_image = nn::forward_all({&image_->k, &image_->v}, image_BND);
    attended = attended + nn::attention(query, heads(image_->norm_k.forward(of_image[0])), heads(of_image[1]));
  }
  return out_.forward(nn::merge_heads(attended));
}

struct Block::Hearing {
  Hearing(const Config& c, const at::TensorOptions& o) : norm(c.width(), kTokenEps, o), attention(c, o) {}
  nn::LayerNorm norm;
  AttentionToSound attention;
};

Block::~Block() = default;

Block::Block(const Config& c, const at::TensorOptions& options)
    : reads_image_(c.image_width > 0),
      table_(at::empty({1, kModulations, c.width()}, options.dtype(at::kFloat))),
      attn1_(c, false, options),
      attn2_(c, c.image_width > 0, options),
      norm2_(c.width(), kTokenEps, options),
      ffn_({.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = c.hidden}, options) {
  own("scale_shift_table", table_);
  own("attn1", attn1_);
  own("norm2", norm2_);
  own("attn2", attn2_);
  own("ffn", ffn_);
  if (!c.extras.talk.is_there()) return;
  hearing_ = std::make_unique<Hearing>(c, options);
  own("norm_x", hearing_->norm);
  own("audio_cross_attn", hearing_->attention);
}

/// Inputs that a block with a picture has for tokens, none of which are given.
constexpr size_t kOfTokens = 7;

const nn::Compute Block::kNorm = nn::modulated_runs(kTokenEps);

nn::Tensors Block::body(const nn::Tensors& in) {
  return body_with(in, [&](const nn::Tensors& in_norm) { return attn1_.to_itself(in_norm, kNorm, in[4], in[5]); });
}

nn::Tensors Block::body_with(const nn::Tensors& in, const std::function<at::Tensor(const nn::Tensors& in_norm)>& attend) const {
  const auto &modulation_BRM = in[1], &text = in[2], &bias = in[3];
  const auto image = reads_image_ ? in[6] : at::Tensor();
  nn::Tensors runs{in[0]};
  if (modulation_BRM.size(1) == 2) runs.insert(runs.begin(), in.back());
  const auto of_runs = (table_.flatten(1).unsqueeze(1) + modulation_BRM).chunk(6, -1);  // each [B, R, D]
  // Given frames come first and take the last row.
  auto row = [&](size_t part, size_t run) { return of_runs[part].select(1, std::ssize(runs) - 1 - static_cast<int64_t>(run)); };
  auto in_norms = [&](size_t shift, size_t scale) {
    nn::Tensors all;
    for (size_t i = 0; i < runs.size(); ++i) all.insert(all.end(), {runs[i], row(scale, i), row(shift, i)});
    return all;
  };
  auto part_of = [&](const at::Tensor& y, size_t run) {
    if (runs.size() == 1) return y;
    return run == 0 ? y.narrow(1, 0, runs[0].size(1)) : y.narrow(1, runs[0].size(1), runs[1].size(1));
  };
  auto add = [&](size_t gate, const at::Tensor& y) {
    for (size_t i = 0; i < runs.size(); ++i) runs[i] = nn::gated(runs[i], row(gate, i), part_of(y, i));
  };

  add(2, attend(in_norms(0, 1)));
  auto x = runs.size() == 1 ? runs[0] : at::cat(runs, 1);
  auto attended = norm2_.before([&](const at::Tensor& normed) { return attn2_.to_others(normed, text, bias, image); }, x);
  for (size_t i = 0; i < runs.size(); ++i) runs[i] = runs[i] + part_of(attended, i);
  if (hearing_) {
    auto attend_to_sound = [&](const at::Tensor& normed) { return hearing_->attention.forward(normed, in[kOfTokens], in[4].size(0)); };
    runs[0] = runs[0] + hearing_->norm.before(attend_to_sound, runs[0]);
  }
  add(5, nn::recomputed(in_norms(3, 4), kNorm, [&](const nn::Tensors& normed) { return nn::Tensors{ffn_.forward(normed[0])}; })[0]);
  return runs.size() == 1 ? runs : nn::Tensors{runs[1], runs[0]};
}

nn::Tensors DrivenBlock::body(const nn::Tensors& in) {
  if (in.size() <= kOfTokens) return Block::body(in);
  const auto half = in.begin() + std::ssize(in) / 2;
  const nn::Tensors own(in.begin(), half), clip(half, in.end());
  nn::Tensors seen;
  auto of_clip = body_with(clip, [&](const nn::Tensors& in_norm) {
    seen = attention().projected(in_norm, kNorm);
    return attention().attended(seen, clip[4], clip[5]);
  });
  auto tokens = body_with(own, [&](const nn::Tensors& in_norm) {
    return attention().attended_with({seen[1], seen[2], clip[4], clip[5]}, attention().projected(in_norm, kNorm), own[4], own[5]);
  });
  return {tokens[0], of_clip[0]};
}

}  // namespace burnish::models::wan
