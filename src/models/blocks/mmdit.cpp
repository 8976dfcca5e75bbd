#include "models/blocks/mmdit.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::mmdit {

namespace {
constexpr double kEps = 1e-6;

/// Heads of tokens of two streams, in the order in memory that they have: merging heads of tokens that lie side by side copies nothing.
at::Tensor joined(const at::Tensor& text_BHLD, const at::Tensor& image_BHLD) {
  auto by_tokens = text_BHLD.transpose(1, 2);
  if (!by_tokens.is_contiguous()) return at::cat({text_BHLD, image_BHLD}, 2);
  return at::cat({by_tokens, image_BHLD.transpose(1, 2)}, 1).transpose(1, 2);
}

/// Tokens of a stream that are modulated alike, by the six parts of their modulation.
struct ModulatedRun {
  at::Tensor tokens_BLD;
  nn::Tensors modulation;
};

/// Returns what normed_by reads of a stream.
nn::Tensors in_norms(const std::vector<ModulatedRun>& runs, size_t scale, size_t shift) {
  nn::Tensors in;
  for (const auto& run : runs) in.insert(in.end(), {run.tokens_BLD, run.modulation[scale], run.modulation[shift]});
  return in;
}

/// Adds y [B, L, D] of all runs to their tokens.
void add_gated(std::vector<ModulatedRun>& runs, size_t gate, const at::Tensor& y_BLD) {
  int64_t first = 0;
  for (auto& [tokens_BLD, modulation] : runs) {
    auto count = tokens_BLD.size(1);
    auto own_BLD = count == y_BLD.size(1) ? y_BLD : y_BLD.narrow(1, first, count);
    tokens_BLD = kernels::gated_residual(tokens_BLD, modulation[gate], own_BLD);
    first += count;
  }
}
}  // namespace

nn::Tensors with_further(nn::Tensors inputs, const Further& further) {
  if (further.bias.defined()) inputs.push_back(further.bias);
  if (further.keys.defined()) inputs.insert(inputs.end(), {further.keys, further.values});
  return inputs;
}

Further further_in(const nn::Tensors& inputs, size_t count) {
  Further further;
  if ((inputs.size() - count) % 2 == 1) further.bias = inputs[count];
  if (inputs.size() - count >= 2) {
    further.keys = inputs[inputs.size() - 2];
    further.values = inputs[inputs.size() - 1];
  }
  return further;
}

nn::Tensors normed_by(const nn::Tensors& in) {
  nn::Tensors runs;
  for (size_t i = 0; i < in.size(); i += 3) runs.push_back(kernels::modulated_norm(in[i], in[i + 1], in[i + 2], kEps));
  return {runs.size() == 1 ? runs[0] : at::cat(runs, 1)};
}

nn::Tensors heads_of(const nn::Tensors& in) {
  return {kernels::qk_norm_rope(in[0], in[2], in[4], in[5], kEps), kernels::qk_norm_rope(in[1], in[3], in[4], in[5], kEps)};
}

nn::Tensors joint_heads(const nn::Tensors& in) {
  const auto &cos = in[10], &sin = in[11];
  const int64_t num_text = in[0].size(1), num_image = in[5].size(1);
  auto t = heads_of({in[0], in[1], in[3], in[4], cos.narrow(0, 0, num_text), sin.narrow(0, 0, num_text)});
  auto i = heads_of({in[5], in[6], in[8], in[9], cos.narrow(0, num_text, num_image), sin.narrow(0, num_text, num_image)});
  return {joined(t[0], i[0]), joined(t[1], i[1]), joined(in[2].transpose(1, 2), in[7].transpose(1, 2))};
}

HeldLayers layers_of_part(const std::string& name) {
  const bool modulation = name.ends_with(".modulation"), text = name.ends_with(".text"), body = name.ends_with(".body");
  const bool is_whole = !modulation && !text && !body;
  return {.modulation = is_whole || modulation, .body = is_whole || body, .text = is_whole || text};
}

HeldStacks held_stacks(const HeldLayers& part, const std::vector<int64_t>& counts) {
  const auto all = std::accumulate(counts.begin(), counts.end(), int64_t{0}), end = part.end < 0 ? all + 1 : part.end;
  HeldStacks held{.stacks = {}, .begins = part.begin == 0, .ends = end > all};
  int64_t before = 0;
  for (const auto count : counts) {
    auto within = [&](int64_t number) { return std::clamp(number - before, int64_t{0}, count); };
    held.stacks.push_back({within(part.begin), within(end) - within(part.begin)});
    before += count;
  }
  return held;
}

at::Tensor time_projection(const at::Tensor& t_B, at::ScalarType dtype) {
  auto half = kTimeChannels / 2;
  auto freqs = (at::arange(half, t_B.options().dtype(at::kFloat)) * (-std::log(10000.0) / static_cast<double>(half))).exp();
  auto angles = (t_B.to(at::kFloat) * 1000.0).unsqueeze(1) * freqs.unsqueeze(0);
  return at::cat({angles.cos(), angles.sin()}, -1).to(dtype);
}

std::pair<at::Tensor, at::Tensor> rotary_tables(const std::vector<at::Tensor>& places, const std::vector<int64_t>& dims, double theta) {
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    auto frequencies =
        (at::arange(0, dims[axis], 2, places.at(axis).options()) * (-std::log(theta) / static_cast<double>(dims[axis]))).exp();
    angles.push_back(places[axis].unsqueeze(-1) * frequencies);
  }
  auto table = at::cat(angles, -1);
  return {table.cos().to(at::kFloat), table.sin().to(at::kFloat)};
}

EmbedMlp::EmbedMlp(int64_t in, int64_t out, const at::TensorOptions& options, bool with_biases)
    : linear_1_(in, out, options, with_biases), linear_2_(out, out, options, with_biases) {
  own("linear_1", linear_1_);
  own("linear_2", linear_2_);
}

at::Tensor EmbedMlp::forward(const at::Tensor& x) const { return linear_2_.forward(at::silu(linear_1_.forward(x))); }

at::Tensor swiglu(const at::Tensor& x) {
  auto halves = x.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

FeedForward::FeedForward(const Widths& c, const at::TensorOptions& options)
    : is_gated_(c.is_gated),
      up_(c.width(), c.is_gated ? 2 * c.hidden : c.hidden, options, c.with_biases),
      down_(c.hidden, c.width(), options, c.with_biases) {
  own(is_gated_ ? "linear_in" : "net.0.proj", up_);
  own(is_gated_ ? "linear_out" : "net.2", down_);
}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  auto layers = [this](const nn::Tensors& in) {
    return nn::recomputed(
        {up_.forward(in[0])}, [is_gated = is_gated_](const auto& in) { return is_gated ? swiglu(in[0]) : kernels::gelu_tanh(in[0]); },
        [&](const at::Tensor& hidden) { return down_.forward(hidden); });
  };
  return nn::by_tokens({{x}}, 1, tokens_at_once, layers, /*has_parameters=*/true);
}

StreamQkv::StreamQkv(const Widths& c, const at::TensorOptions& options, const Names& names)
    : num_heads_(c.num_heads),
      q_(c.width(), c.width(), options, c.with_biases),
      k_(c.width(), c.width(), options, c.with_biases),
      v_(c.width(), c.width(), options, c.with_biases),
      norm_q_(c.head_dim, kEps, options),
      norm_k_(c.head_dim, kEps, options) {
  own(names.q, q_);
  own(names.k, k_);
  own(names.v, v_);
  own(names.norm_q, norm_q_);
  own(names.norm_k, norm_k_);
}

nn::Tensors StreamQkv::project(const at::Tensor& x_BLD, const nn::Linear* beside) const {
  std::vector<const nn::Linear*> layers{&q_, &k_, &v_};
  if (beside) layers.push_back(beside);
  auto all = nn::forward_all(layers, x_BLD);
  for (size_t i = 0; i < 3; ++i) all[i] = all[i].unflatten(-1, {num_heads_, -1});
  return all;
}

DoubleBlock::DoubleBlock(const Widths& c, const at::TensorOptions& options, const Names& names)
    : SharesTokens(c.num_heads),
      image_qkv_(c, options, StreamQkv::kImage),
      text_qkv_(c, options, StreamQkv::kText),
      to_out_(c.width(), c.width(), options, c.with_biases),
      to_add_out_(c.width(), c.width(), options, c.with_biases),
      image_mlp_(c, options),
      text_mlp_(c, options) {
  own("attn", image_qkv_);
  own("attn", text_qkv_);
  own("attn.to_out.0", to_out_);
  own("attn.to_add_out", to_add_out_);
  own(names.image_mlp, image_mlp_);
  own(names.text_mlp, text_mlp_);
}

nn::Tensors DoubleBlock::body(const nn::Tensors& in) {
  const auto &text = in[1], &modulation_BM = in[2];
  const auto num_tokens = in[3].size(0);
  const auto cos = here(in[3], 0), sin = here(in[4], 0);
  const bool is_apart = modulation_BM.size(1) > 12 * in[0].size(2);
  const auto further = further_in(in, is_apart ? 6 : 5);
  const int64_t num_text = text.size(1), num_image = in[0].size(1) + (is_apart ? in[5].size(1) : 0);
  // Order of the six parts of each stream: shift, scale, gate of attention; shift, scale, gate of the MLP.
  auto m = modulation_BM.chunk(is_apart ? 18 : 12, -1);
  auto six_from = [&](int64_t first) { return nn::Tensors(m.begin() + first, m.begin() + first + 6); };
  std::vector<ModulatedRun> texts{{text, six_from(6)}}, images{{in[0], six_from(0)}};
  if (is_apart) images.push_back({in[5], six_from(12)});

  nn::Tensors in_heads;
  auto add_heads = [&](const StreamQkv& qkv, const std::vector<ModulatedRun>& runs) {
    auto projected = nn::recomputed(in_norms(runs, 1, 0), normed_by, [&](const nn::Tensors& normed) { return qkv.project(normed[0]); });
    in_heads.insert(in_heads.end(), projected.begin(), projected.end());
    for (const auto& weight : qkv.norm_weights()) in_heads.push_back(weight);
  };
  add_heads(text_qkv_, texts);
  add_heads(image_qkv_, images);
  in_heads.insert(in_heads.end(), {cos, sin});
  auto attend = [&](const nn::Tensors& qkv) { return nn::Tensors{attention_of(qkv[0], qkv[1], qkv[2], further.bias, num_tokens)}; };
  auto joint = nn::merge_heads(nn::recomputed(in_heads, joint_heads, attend)[0]);
  auto of_image = joint.narrow(1, num_text, num_image);
  if (further.keys.defined()) {
    auto query = kernels::qk_norm_rope(in_heads[5], in_heads[8], at::ones_like(cos.narrow(0, num_text, num_image)),
                                       at::zeros_like(sin.narrow(0, num_text, num_image)), kEps);
    of_image = of_image + nn::merge_heads(nn::attention(query, further.keys, further.values));
  }

  auto finish = [](std::vector<ModulatedRun> runs, const at::Tensor& attended, const nn::Linear& out, const FeedForward& ff) {
    add_gated(runs, 2, out.forward(attended));
    auto y = nn::recomputed(in_norms(runs, 4, 3), normed_by, [&](const nn::Tensors& normed) { return nn::Tensors{ff.forward(normed[0])}; });
    add_gated(runs, 5, y[0]);
    return runs;
  };
  images = finish(images, of_image, to_out_, image_mlp_);
  texts = finish(texts, joint.narrow(1, 0, num_text), to_add_out_, text_mlp_);
  nn::Tensors out{images[0].tokens_BLD, texts[0].tokens_BLD};
  if (is_apart) out.push_back(images[1].tokens_BLD);
  return out;
}

SingleBlock::SingleBlock(const Widths& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads),
      qkv_(c, options, StreamQkv::kImage),
      proj_mlp_(c.width(), c.hidden, options),
      proj_out_(c.width() + c.hidden, c.width(), options) {
  own("attn", qkv_);
  own("proj_mlp", proj_mlp_);
  own("proj_out", proj_out_);
}

at::Tensor SingleBlock::joined(const at::Tensor& attended, const at::Tensor& hidden) const {
  return nn::recomputed(
      {attended, hidden},
      [](const nn::Tensors& in) {
        return at::cat({nn::merge_heads(in[0]), kernels::gelu_tanh(in[1])}, -1);
      },
      [&](const at::Tensor& both) { return proj_out_.forward(both); });
}

nn::Tensors SingleBlock::body(const nn::Tensors& in) {
  const auto &x = in[0], &modulation_BM = in[1];
  const auto num_tokens = in[2].size(0);
  const auto cos = here(in[2], 0), sin = here(in[3], 0);
  const auto further = further_in(in, 4);
  auto m = modulation_BM.chunk(3, -1);  // shift, scale, gate
  // Some tokens at a time, the MLP's hidden numbers are made where they are read.
  const bool in_pieces = tokens_at_once > 0 && x.size(1) > tokens_at_once;
  auto projected = nn::recomputed({x, m[1], m[0]}, normed_by,
                                  [&](const nn::Tensors& normed) { return qkv_.project(normed[0], in_pieces ? nullptr : &proj_mlp_); });
  const auto v = projected[2].transpose(1, 2);
  const auto weights = qkv_.norm_weights();
  auto attended = nn::recomputed({projected[0], projected[1], weights[0], weights[1], cos, sin}, heads_of, [&](const nn::Tensors& qk) {
    auto out = attention_of(qk[0], qk[1], v, further.bias, num_tokens);
    return nn::Tensors{further.keys.defined() ? out + nn::attention(qk[0], further.keys, further.values) : out};
  });
  auto of_piece = [this](const nn::Tensors& some) {
    auto hidden = nn::recomputed({some[1], some[2], some[3]}, normed_by,
                                 [&](const nn::Tensors& normed) { return nn::Tensors{proj_mlp_.forward(normed[0])}; });
    return joined(some[0], hidden[0]);
  };
  auto y = in_pieces ? nn::by_tokens({{attended[0], 2}, {x}, {m[1], nn::kShared}, {m[0], nn::kShared}}, 1, tokens_at_once, of_piece,
                                     /*has_parameters=*/true)
                     : joined(attended[0], projected[3]);
  return {kernels::gated_residual(x, m[2], y)};
}

at::Tensor to_tokens(const at::Tensor& x) {
  auto patches = x.view({x.size(0), x.size(1), x.size(2) / 2, 2, x.size(3) / 2, 2});
  return patches.permute({0, 2, 4, 1, 3, 5}).flatten(3).flatten(1, 2);
}

at::Tensor from_tokens(const at::Tensor& x_BIC, int64_t rows, int64_t columns) {
  auto x = x_BIC.view({x_BIC.size(0), rows, columns, -1, 2, 2}).permute({0, 3, 1, 4, 2, 5});
  return x.reshape({x.size(0), x.size(1), rows * 2, columns * 2});
}

at::Tensor padding_bias(const at::Tensor& mask_BT, int64_t num_image) {
  auto reads_BL = at::constant_pad_nd(mask_BT, {0, num_image}, 1) > 0;
  auto masked = at::full({}, -std::numeric_limits<double>::infinity(), mask_BT.options().dtype(at::kFloat));
  return at::where(reads_BL, at::zeros_like(masked), masked).unsqueeze(1).unsqueeze(1);
}

void initialise(nn::Module& transformer, uint64_t seed, const std::function<bool(const std::string& path)>& begins_as_zero) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  transformer.visit_parameters([&](const std::string& path, at::Tensor& p) {
    bool zero = path.ends_with(".bias") || begins_as_zero(path);
    auto fresh = at::empty(p.sizes(), at::TensorOptions().dtype(at::kFloat));
    if (zero || p.dim() < 2) {
      fresh.fill_(zero ? 0.0 : 1.0);
    } else {
      auto bound = std::sqrt(6.0 / static_cast<double>(p.size(0) + p.size(1)));
      fresh.uniform_(-bound, bound, generator);
    }
    p = fresh.to(p.scalar_type());
  });
}

}  // namespace burnish::models::mmdit
