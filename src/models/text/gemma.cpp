#include "models/text/gemma.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/blocks/gated_mlp.h"
#include "models/text/qwen.h"
#include "models/text/rotate_halves.h"
#include "nn/attention.h"

namespace burnish::models::text {

namespace {

/// Embeddings are multiplied by the root of the width as bf16 holds it, in which the models were trained: 62 for a width of 3840.
double embedding_scale(int64_t width) { return static_cast<float>(static_cast<c10::BFloat16>(std::sqrt(static_cast<float>(width)))); }

/// The angle of each place and pair [L, P], fp64; pairs that do not turn have 0.
at::Tensor angles_of(const GemmaAttention& c, int64_t length, const at::TensorOptions& options) {
  const auto num_pairs = c.head_dim / 2;
  const auto num_turned = static_cast<int64_t>(c.rotated * static_cast<double>(num_pairs));
  auto pairs = at::arange(0, 2 * num_turned, 2, options);
  auto frequencies = (pairs * (-std::log(c.rope_theta) / static_cast<double>(c.head_dim))).exp() / c.rope_factor;
  if (num_turned < num_pairs) frequencies = at::cat({frequencies, at::zeros({num_pairs - num_turned}, options)});
  return at::arange(length, options).unsqueeze(1) * frequencies;
}

/// Zero where the token of a row sees that of a column, which is one of the `window` up to itself, else minus infinity [L, L].
at::Tensor window_bias(int64_t length, int64_t window, const at::TensorOptions& options) {
  auto place = at::arange(length, options);
  auto distance = place.unsqueeze(1) - place.unsqueeze(0);
  auto hidden = at::full({}, -std::numeric_limits<double>::infinity(), options);
  return at::where((distance >= 0) & (distance < static_cast<double>(window)), at::zeros({}, options), hidden);
}

}  // namespace

io::TensorSource gemma_tensors(const io::TensorSource& source) { return qwen_tensors(source); }

io::KeyMap gemma_keys_below(const std::string& prefix) {
  std::vector<io::KeyRule> rules{{prefix + "embed_tokens.weight", {"embed_tokens.weight"}}, {prefix + "norm.weight", {"norm.weight"}}};
  for (const std::string layer :
       {"input_layernorm.weight", "post_attention_layernorm.weight", "pre_feedforward_layernorm.weight",
        "post_feedforward_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
        "self_attn.o_proj.weight", "self_attn.q_norm.weight", "self_attn.k_norm.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight",
        "mlp.down_proj.weight", "layer_scalar"})
    rules.push_back({prefix + "layers.{}." + layer, {"layers.{}." + layer}});
  return io::KeyMap(rules);
}

GemmaNorm::GemmaNorm(int64_t dim, const GemmaConfig& config, const at::TensorOptions& options)
    : weight_(at::empty({dim}, options)), eps_(config.eps), adds_one_(!config.is_gemma4) {
  own("weight", weight_);
}

at::Tensor GemmaNorm::forward(const at::Tensor& x) const {
  auto scale = weight_.to(at::kFloat);
  return at::rms_norm(x.to(at::kFloat), weight_.sizes(), adds_one_ ? scale + 1 : scale, eps_).to(x.scalar_type());
}

namespace {

/// Causal self-attention, with norms of every head's query and key.
class SelfAttention : public nn::Module {
 public:
  SelfAttention(const GemmaConfig& c, const GemmaAttention& a, const at::TensorOptions& options)
      : config_(c),
        sizes_(a),
        q_norm_(a.head_dim, c, options),
        k_norm_(a.head_dim, c, options),
        q_(c.width, c.num_heads * a.head_dim, options, false),
        k_(c.width, a.num_kv_heads * a.head_dim, options, false),
        o_(c.num_heads * a.head_dim, c.width, options, false) {
    own("q_norm", q_norm_);
    own("k_norm", k_norm_);
    own("q_proj", q_);
    own("k_proj", k_);
    own("o_proj", o_);
    if (!a.has_values) return;
    v_ = std::make_unique<nn::Linear>(c.width, a.num_kv_heads * a.head_dim, options, false);
    own("v_proj", *v_);
  }

  /// {cos, sin [L, P], and where not all that comes before a token is seen the bias of attention [L, L]} and tokens [B, L, E] -> [B, L, E].
  at::Tensor forward(const at::Tensor& x_BLE, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& bias) const {
    std::vector<const nn::Linear*> layers{&q_, &k_};
    if (v_) layers.push_back(v_.get());
    auto qkv = nn::forward_all(layers, x_BLE);
    auto turned = [&](const at::Tensor& heads_BLE, const GemmaNorm& norm) {
      return rotate_halves(norm.forward(heads_BLE.unflatten(-1, {-1, sizes_.head_dim})).transpose(1, 2), cos, sin);
    };
    auto q = turned(qkv[0], q_norm_), k = turned(qkv[1], k_norm_), v = nn::split_heads(qkv.back(), sizes_.num_kv_heads);
    if (config_.is_gemma4) v = at::rms_norm(v.to(at::kFloat), {sizes_.head_dim}, {}, config_.eps).to(v.scalar_type());
    const auto shared = config_.num_heads / sizes_.num_kv_heads;
    return o_.forward(nn::merge_heads(nn::attention(q, k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), bias,
                                                    /*causal=*/!bias.defined(), sizes_.scale)));
  }

 private:
  GemmaConfig config_;
  GemmaAttention sizes_;
  GemmaNorm q_norm_, k_norm_;
  nn::Linear q_, k_, o_;
  std::unique_ptr<nn::Linear> v_;
};

}  // namespace

/// {tokens [B, L, E], and what SelfAttention reads beside them} -> {tokens}: attention and gated MLP, each between two norms.
class GemmaLayer : public nn::Block {
 public:
  GemmaLayer(const GemmaConfig& c, const GemmaAttention& a, const at::TensorOptions& options)
      : attention_(c, a, options),
        mlp_(c.width, c.hidden, options, {.gate = "gate_proj", .up = "up_proj", .down = "down_proj"}, GatedMlp::Gate::gelu_tanh),
        attention_norm1_(c.width, c, options),
        attention_norm2_(c.width, c, options),
        mlp_norm1_(c.width, c, options),
        mlp_norm2_(c.width, c, options) {
    own("self_attn", attention_);
    own("mlp", mlp_);
    own("input_layernorm", attention_norm1_);
    own("post_attention_layernorm", attention_norm2_);
    own("pre_feedforward_layernorm", mlp_norm1_);
    own("post_feedforward_layernorm", mlp_norm2_);
    if (!c.is_gemma4) return;
    layer_scalar_ = at::empty({1}, options);
    own("layer_scalar", layer_scalar_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    const auto& x = in[0];
    auto attended = attention_.forward(attention_norm1_.forward(x), in[1], in[2], in.size() > 3 ? in[3] : at::Tensor());
    auto mid = x + attention_norm2_.forward(attended);
    auto out = mid + mlp_norm2_.forward(mlp_.forward(mlp_norm1_.forward(mid)));
    return {layer_scalar_.defined() ? out * layer_scalar_ : out};
  }

 private:
  SelfAttention attention_;
  GatedMlp mlp_;
  GemmaNorm attention_norm1_, attention_norm2_, mlp_norm1_, mlp_norm2_;
  at::Tensor layer_scalar_;
};

GemmaEncoder::GemmaEncoder(const GemmaConfig& c, const at::TensorOptions& options)
    : config_(c), embed_tokens_(c.vocab_size, c.width, options), norm_(c.width, c, options) {
  own("embed_tokens", embed_tokens_);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    layers_.push_back(std::make_unique<GemmaLayer>(c, c.attention(i), options));
    own("layers." + std::to_string(i), *layers_.back());
  }
  own("norm", norm_);
}

GemmaEncoder::~GemmaEncoder() = default;

void GemmaEncoder::run(const at::Tensor& ids_BL, int64_t num_layers, const Take& take) {
  const auto length = ids_BL.size(1);
  auto x = embed_tokens_.forward(ids_BL) * embedding_scale(config_.width);
  auto shared_by = [&](const GemmaAttention& attention) {
    auto angles_LP = angles_of(attention, length, x.options().dtype(at::kDouble));
    nn::Tensors shared{angles_LP.cos().to(at::kFloat), angles_LP.sin().to(at::kFloat)};
    if (attention.window > 0 && length > attention.window) shared.push_back(window_bias(length, attention.window, shared[0].options()));
    return shared;
  };
  const auto sliding = shared_by(config_.sliding), full = shared_by(config_.full);
  take(0, x);
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const auto& shared = config_.is_full(layer) ? full : sliding;
    nn::Tensors inputs{x};
    inputs.insert(inputs.end(), shared.begin(), shared.end());
    x = layers_[static_cast<size_t>(layer)]->run(inputs)[0];
    take(layer + 1, layer + 1 == config_.num_layers ? norm_.forward(x) : x);
  }
}

void GemmaEncoder::each_state(const at::Tensor& ids_BL, const Take& take) { run(ids_BL, config_.num_layers, take); }

nn::Tensors GemmaEncoder::forward(const at::Tensor& ids_BL, const std::vector<int64_t>& after) {
  nn::Tensors states;
  run(ids_BL, after.back(), [&](int64_t layer, const at::Tensor& state_BLE) {
    if (std::ranges::find(after, layer) != after.end()) states.push_back(state_BLE);
  });
  return states;
}

}  // namespace burnish::models::text
