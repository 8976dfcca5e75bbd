#include "models/text/t5.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

#include "base/input_error.h"
#include "models/text/shape_reading.h"
#include "models/text/vocabulary_tensor.h"
#include "nn/attention.h"

namespace burnish::models::text {

namespace {

/// {tokens [B,L,E], position bias [1,H,L,L]} -> {tokens}.
class T5Layer : public nn::Block {
 public:
  T5Layer(const T5Config& c, const at::TensorOptions& options)
      : config_(c),
        norm1_(c.width, c.eps, options),
        norm2_(c.width, c.eps, options),
        q_(c.width, c.num_heads * c.head_dim, options, false),
        k_(c.width, c.num_heads * c.head_dim, options, false),
        v_(c.width, c.num_heads * c.head_dim, options, false),
        o_(c.num_heads * c.head_dim, c.width, options, false),
        up_(c.width, c.hidden, options, false),
        down_(c.hidden, c.width, options, false) {
    own("layer.0.layer_norm", norm1_);
    own("layer.0.SelfAttention.q", q_);
    own("layer.0.SelfAttention.k", k_);
    own("layer.0.SelfAttention.v", v_);
    own("layer.0.SelfAttention.o", o_);
    own("layer.1.layer_norm", norm2_);
    own(c.gated ? "layer.1.DenseReluDense.wi_0" : "layer.1.DenseReluDense.wi", up_);
    if (c.gated) {
      gate_ = std::make_unique<nn::Linear>(c.width, c.hidden, options, false);
      own("layer.1.DenseReluDense.wi_1", *gate_);
    }
    own("layer.1.DenseReluDense.wo", down_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    auto normed = norm1_.forward(in[0]);
    auto qkv = nn::forward_all({&q_, &k_, &v_}, normed);
    for (auto& heads : qkv) heads = nn::split_heads(heads, config_.num_heads);
    // T5 folds the usual 1/sqrt(d) into its initialisation.
    auto attended = nn::attention(qkv[0], qkv[1], qkv[2], in[1], false, /*scale=*/1.0);
    auto mid = in[0] + o_.forward(nn::merge_heads(attended));
    auto normed_mid = norm2_.forward(mid);
    std::vector<const nn::Linear*> layers{&up_};
    if (gate_) layers.push_back(gate_.get());
    const auto up = nn::forward_all(layers, normed_mid);
    auto hidden = config_.gelu ? at::gelu(up[0], "tanh") : at::relu(up[0]);
    if (gate_) hidden = hidden * up[1];
    return {mid + down_.forward(hidden)};
  }

 private:
  T5Config config_;
  nn::RMSNorm norm1_, norm2_;
  nn::Linear q_, k_, v_, o_, up_, down_;
  std::unique_ptr<nn::Linear> gate_;
};

const std::string kFirst = "encoder.block.0.layer.0.SelfAttention.";
const std::string kBias = "layer.0.SelfAttention.relative_attention_bias";
const std::string kMlp = "encoder.block.0.layer.1.DenseReluDense.";

}  // namespace

static void check_t5(const T5Config& c, const nlohmann::json& json) {
  agree(json, "vocab_size", c.vocab_size);
  agree(json, "d_model", c.width);
  agree(json, "d_ff", c.hidden);
  agree(json, "d_kv", c.head_dim);
  agree(json, "num_layers", c.num_layers);
  agree(json, "num_heads", c.num_heads);
  agree(json, "relative_attention_num_buckets", c.num_buckets);
  agree(json, "is_gated_act", c.gated);
  if (c.max_distance <= c.num_buckets / 4)
    data_error("models", "the T5 encoder's relative_attention_max_distance is {}, and must be above {}", c.max_distance, c.num_buckets / 4);
  io::check_above_0(c.eps, "layer_norm_epsilon", "T5 encoder");
}

T5Config t5_config(const nlohmann::json& json, const io::Shapes& shapes) {
  T5Config c;
  c.vocab_size = dim_of(shapes, "shared.weight", 0);
  c.width = dim_of(shapes, "shared.weight", 1);
  c.num_layers = io::count_of(shapes, "encoder.block.{}.");
  c.num_buckets = dim_of(shapes, kFirst + "relative_attention_bias.weight", 0);
  c.num_heads = dim_of(shapes, kFirst + "relative_attention_bias.weight", 1);
  c.head_dim = dim_of(shapes, kFirst + "q.weight", 0) / c.num_heads;
  if (c.head_dim < 1 || c.num_buckets < 4)
    data_error("models", "the T5 encoder's tensors give it {} heads of {} and {} distances: '{}' is damaged", c.num_heads, c.head_dim,
               c.num_buckets, kFirst + "relative_attention_bias.weight");
  c.bias_by_layer = shapes.contains("encoder.block.1." + kBias + ".weight");
  c.gated = shapes.contains(kMlp + "wi_0.weight");
  c.hidden = dim_of(shapes, kMlp + (c.gated ? "wi_0.weight" : "wi.weight"), 0);
  std::string act = c.gated ? "gated-gelu" : "relu";
  take(json, "feed_forward_proj", act);
  c.gelu = act.find("gelu") != std::string::npos;
  take(json, "layer_norm_epsilon", c.eps);
  take(json, "relative_attention_max_distance", c.max_distance);
  check_t5(c, json);
  return c;
}

io::TensorSource t5_tensors(const io::TensorSource& source) {
  auto part = source.without({"decoder.", "lm_head.", kVocabularyTensor});
  return part.contains("shared.weight") ? part.without({"encoder.embed_tokens."}) : part;
}

io::KeyMap t5_keys(const io::TensorSource& tensors) {
  if (tensors.contains("shared.weight")) return {};
  if (!tensors.contains("token_embedding.weight"))
    return io::KeyMap(std::vector<io::KeyRule>{{"encoder.embed_tokens.weight", {"shared.weight"}}});
  // Facts: Wan-Video's wan/modules/t5.py.
  const std::string theirs = "blocks.{}.", attention = "encoder.block.{}.layer.0.", mlp = "encoder.block.{}.layer.1.";
  std::vector<io::KeyRule> rules{
      {"token_embedding.weight", {"shared.weight"}},
      {"norm.weight", {"encoder.final_layer_norm.weight"}},
      {theirs + "norm1.weight", {attention + "layer_norm.weight"}},
      {theirs + "norm2.weight", {mlp + "layer_norm.weight"}},
      {theirs + "pos_embedding.embedding.weight", {attention + "SelfAttention.relative_attention_bias.weight"}},
      {theirs + "ffn.gate.0.weight", {mlp + "DenseReluDense.wi_0.weight"}},
      {theirs + "ffn.fc1.weight", {mlp + "DenseReluDense.wi_1.weight"}},
      {theirs + "ffn.fc2.weight", {mlp + "DenseReluDense.wo.weight"}},
  };
  for (const std::string layer : {"q", "k", "v", "o"})
    rules.push_back({theirs + "attn." + layer + ".weight", {attention + "SelfAttention." + layer + ".weight"}});
  return io::KeyMap(rules);
}

T5Encoder::T5Encoder(const T5Config& c, const at::TensorOptions& options)
    : config_(c), shared_(c.vocab_size, c.width, options), final_layer_norm_(c.width, c.eps, options) {
  own("shared", shared_);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    auto name = "encoder.block." + std::to_string(i);
    if (i == 0 || c.bias_by_layer) {
      relative_biases_.push_back(std::make_unique<nn::Embedding>(c.num_buckets, c.num_heads, options));
      own(name + "." + kBias, *relative_biases_.back());
    }
    layers_.push_back(std::make_unique<T5Layer>(c, options));
    own(name, *layers_.back());
  }
  own("encoder.final_layer_norm", final_layer_norm_);
}

T5Encoder::~T5Encoder() = default;

/// Half of the buckets for each direction; near distances have one each, far ones share logarithmically.
at::Tensor T5Encoder::buckets(int64_t length) const {
  auto options = shared_.weight.options().dtype(at::kLong);
  auto position = at::arange(length, options);
  auto relative = position.unsqueeze(0) - position.unsqueeze(1);  // key - query
  auto half = config_.num_buckets / 2, exact = half / 2;
  auto distance = relative.abs();
  auto log_ratio = std::log(static_cast<double>(config_.max_distance) / static_cast<double>(exact));
  auto far =
      ((distance.to(at::kFloat) / static_cast<double>(exact)).log() / log_ratio * static_cast<double>(half - exact)).to(at::kLong) + exact;
  far = at::minimum(far, at::full_like(far, half - 1));
  return (relative > 0).to(at::kLong) * half + at::where(distance < exact, distance, far);
}

at::Tensor T5Encoder::forward(const at::Tensor& ids_BL, std::optional<int64_t> num_tokens) {
  auto x = shared_.forward(ids_BL);
  const auto length = ids_BL.size(1);
  const auto bucket_LL = buckets(length);
  auto bias_of = [&](const nn::Embedding& table) {
    auto bias = table.forward(bucket_LL).permute({2, 0, 1}).unsqueeze(0).contiguous();
    if (!num_tokens || *num_tokens >= length) return bias;
    auto is_read = at::arange(length, bucket_LL.options()) < *num_tokens;
    return at::where(is_read, bias, at::full({}, -std::numeric_limits<double>::infinity(), bias.options()));
  };
  at::Tensor bias;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i < relative_biases_.size()) bias = bias_of(*relative_biases_[i]);
    x = layers_[i]->run({x, bias})[0];
  }
  return final_layer_norm_.forward(x);
}

}  // namespace burnish::models::text
