#include "models/wan/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "nn/attention.h"
#include "nn/by_tokens.h"

namespace burnish::models::wan {

namespace {

constexpr double kEps = 1e-6;

/// Rotates pairs of neighbours (x₀, x₁) of each head in fp32. x [B, L, H, 2 P] -> [B, H, L, 2 P].
at::Tensor rotated(const at::Tensor& x_BLHE, const at::Tensor& cos_LP, const at::Tensor& sin_LP) {
  auto pairs = x_BLHE.transpose(1, 2).to(at::kFloat).unflatten(-1, {-1, 2});
  auto first = pairs.select(-1, 0), second = pairs.select(-1, 1);
  auto turned = at::stack({first * cos_LP - second * sin_LP, second * cos_LP + first * sin_LP}, -1);
  return turned.flatten(-2).to(x_BLHE.scalar_type());
}

/// Tokens of [.., L, D] whose numbers take 32 MiB in fp32.
int64_t of_one_piece(const at::Tensor& x_BLD) {
  return std::max<int64_t>(1, (int64_t{32} << 20) / (x_BLD.size(0) * x_BLD.size(2) * int64_t{sizeof(float)}));
}

/// {query, key [B, L, D], weights of their norms, cos, sin} -> {query, key [B, H, L, E]}, ready for attention. Both in fp32 would be as
/// large as all that a block keeps.
nn::Compute heads_of(int64_t num_heads) {
  return [num_heads](const nn::Tensors& in) {
    auto ready = [&](const at::Tensor& x, const at::Tensor& weight) {
      return nn::by_tokens({{x}, {weight, nn::kShared}, {in[4], 0}, {in[5], 0}}, 2, of_one_piece(x), [num_heads](const nn::Tensors& some) {
        auto normed = at::rms_norm(some[0], some[1].sizes(), some[1], kEps).unflatten(-1, {num_heads, -1});
        return rotated(normed, some[2], some[3]);
      });
    };
    return nn::Tensors{ready(in[0], in[2]), ready(in[1], in[3])};
  };
}

/// Runs of tokens one behind the other, each modulated by a row of its own: {x, scale, shift} of each.
nn::Tensors normed_runs(const nn::Tensors& in) {
  nn::Tensors runs;
  for (size_t i = 0; i < in.size(); i += 3) runs.push_back(modulated(in[i], in[i + 1], in[i + 2]));
  return {runs.size() == 1 ? runs[0] : at::cat(runs, 1)};
}

/// x + gate · y in the gate's dtype, for a gate that needs no gradient: backward reads neither x nor y.
struct AddGated : torch::autograd::Function<AddGated> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& gate, const at::Tensor& y) {
    ctx->save_for_backward({gate});
    const at::NoGradGuard no_grad;
    return nn::by_tokens({{x}, {gate, nn::kShared}, {y}}, 1, of_one_piece(x), in_dtype_of_gate);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto of_y = nn::by_tokens({{grads[0]}, {ctx->get_saved_variables()[0], nn::kShared}}, 1, of_one_piece(grads[0]),
                              [](const auto& in) { return (in[0].to(in[1].scalar_type()) * in[1].unsqueeze(1)).to(in[0].scalar_type()); });
    return {grads[0], at::Tensor(), of_y};
  }
  static at::Tensor in_dtype_of_gate(const nn::Tensors& in) {
    auto dtype = in[1].scalar_type();
    return kernels::gated_residual(in[0].to(dtype), in[1], in[2].to(dtype)).to(in[0].scalar_type());
  }
};

}  // namespace

at::Tensor modulated(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD) {
  if (x_BLD.scalar_type() == scale_BD.scalar_type()) return kernels::modulated_norm(x_BLD, scale_BD, shift_BD, kEps);
  return nn::by_tokens({{x_BLD}, {scale_BD, nn::kShared}, {shift_BD, nn::kShared}}, 1, of_one_piece(x_BLD), [](const nn::Tensors& in) {
    return kernels::modulated_norm(in[0].to(in[1].scalar_type()), in[1], in[2], kEps).to(in[0].scalar_type());
  });
}

at::Tensor gated(const at::Tensor& x_BLD, const at::Tensor& gate_BD, const at::Tensor& y_BLD) {
  if (x_BLD.scalar_type() == gate_BD.scalar_type()) return kernels::gated_residual(x_BLD, gate_BD, y_BLD);
  if (!gate_BD.requires_grad()) return AddGated::apply(x_BLD, gate_BD, y_BLD);
  return nn::by_tokens({{x_BLD}, {gate_BD, nn::kShared}, {y_BLD}}, 1, of_one_piece(x_BLD), AddGated::in_dtype_of_gate);
}

Attention::ForImage::ForImage(int64_t width, const at::TensorOptions& options)
    : k(width, width, options), v(width, width, options), norm_k(width, kEps, options) {}

Attention::Attention(const Config& c, bool image, const at::TensorOptions& options)
    : SharesTokens(c.num_heads),
      num_heads_(c.num_heads),
      q_(c.width(), c.width(), options),
      k_(c.width(), c.width(), options),
      v_(c.width(), c.width(), options),
      out_(c.width(), c.width(), options),
      norm_q_(c.width(), kEps, options),
      norm_k_(c.width(), kEps, options) {
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

at::Tensor Attention::to_itself(const nn::Tensors& in_norm, const nn::Compute& norm, const at::Tensor& cos_LP,
                                const at::Tensor& sin_LP) const {
  auto projected = nn::remade(in_norm, norm, [&](const nn::Tensors& normed) { return nn::forward_all({&q_, &k_, &v_}, normed[0]); });
  const auto num_tokens = cos_LP.size(0);
  auto v = nn::split_heads(projected[2], num_heads_);
  nn::Tensors in{projected[0], projected[1], norm_q_.weight, norm_k_.weight, here(cos_LP, 0), here(sin_LP, 0)};
  auto attended = nn::remade(in, heads_of(num_heads_),
                             [&](const nn::Tensors& qk) { return nn::Tensors{attention_of(qk[0], qk[1], v, {}, num_tokens)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

// Texts and pictures are whole in every place, so that attention to them needs no exchange.
at::Tensor Attention::to_others(const at::Tensor& x_BLD, const at::Tensor& text_BTD, const at::Tensor& bias,
                                const at::Tensor& image_BND) const {
  auto heads = [&](const at::Tensor& x) { return nn::split_heads(x, num_heads_); };
  auto query = heads(nn::by_tokens({{q_.forward(x_BLD)}, {norm_q_.weight, nn::kShared}}, 1, of_one_piece(x_BLD),
                                   [](const nn::Tensors& in) { return at::rms_norm(in[0], in[1].sizes(), in[1], kEps); }));
  auto of_text = nn::forward_all({&k_, &v_}, text_BTD);
  auto attended = nn::attention(query, heads(norm_k_.forward(of_text[0])), heads(of_text[1]), bias);
  if (image_) {
    auto of_image = nn::forward_all({&image_->k, &image_->v}, image_BND);
    attended = attended + nn::attention(query, heads(image_->norm_k.forward(of_image[0])), heads(of_image[1]));
  }
  return out_.forward(nn::merge_heads(attended));
}

Block::Block(const Config& c, const at::TensorOptions& options)
    : reads_image_(c.image_width > 0),
      table_(at::empty({1, kModulations, c.width()}, options.dtype(at::kFloat))),
      attn1_(c, false, options),
      attn2_(c, c.image_width > 0, options),
      norm2_(c.width(), kEps, options),
      ffn_({.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = c.hidden}, options) {
  own("scale_shift_table", table_);
  own("attn1", attn1_);
  own("norm2", norm2_);
  own("attn2", attn2_);
  own("ffn", ffn_);
}

nn::Tensors Block::body(const nn::Tensors& in) {
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
    for (size_t i = 0; i < runs.size(); ++i) runs[i] = gated(runs[i], row(gate, i), part_of(y, i));
  };

  add(2, attn1_.to_itself(in_norms(0, 1), normed_runs, in[4], in[5]));
  auto x = runs.size() == 1 ? runs[0] : at::cat(runs, 1);
  auto attended = norm2_.before([&](const at::Tensor& normed) { return attn2_.to_others(normed, text, bias, image); }, x);
  for (size_t i = 0; i < runs.size(); ++i) runs[i] = runs[i] + part_of(attended, i);
  add(5, nn::remade(in_norms(3, 4), normed_runs, [&](const nn::Tensors& normed) { return nn::Tensors{ffn_.forward(normed[0])}; })[0]);
  return runs.size() == 1 ? runs : nn::Tensors{runs[1], runs[0]};
}

}  // namespace burnish::models::wan
