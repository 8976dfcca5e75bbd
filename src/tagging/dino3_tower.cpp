#include "tagging/dino3_tower.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/silu.h>

#include <numbers>

#include "base/input_error.h"
#include "io/model_values.h"
#include "nn/attention.h"

namespace burnish::tagging {

namespace {

constexpr const char* kDino3 = "DINOv3";

/// A gain for each channel of what a layer adds.
struct LayerScale : nn::Module {
  LayerScale(int64_t width, const at::TensorOptions& options) : lambda(at::empty({width}, options)) { own("lambda1", lambda); }
  at::Tensor forward(const at::Tensor& x) const { return x * lambda; }
  at::Tensor lambda;
};

/// Turns halves of the tokens of patches, which are the last ones; cos and sin are [L', D / 2]. x [B, heads, L, D] -> as x.
at::Tensor turned_halves(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto num_before = x.size(2) - cos.size(0);
  const auto halves = x.narrow(2, num_before, cos.size(0)).to(at::kFloat).chunk(2, -1);
  const auto after = at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1).to(x.scalar_type());
  return at::cat({x.narrow(2, 0, num_before), after}, 2);
}

struct Dino3Attention : nn::Module {
  Dino3Attention(const Dino3Config& c, const at::TensorOptions& options)
      : num_heads(c.num_heads),
        q(c.width, c.width, options),
        k(c.width, c.width, options, c.has_key_bias),
        v(c.width, c.width, options),
        out(c.width, c.width, options) {
    own("q_proj", q);
    own("k_proj", k);
    own("v_proj", v);
    own("o_proj", out);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) const {
    auto heads = [&](const nn::Linear& layer) { return nn::split_heads(layer.forward(x), num_heads); };
    const auto asked = turned_halves(heads(q), cos, sin), keys = turned_halves(heads(k), cos, sin);
    return out.forward(nn::merge_heads(nn::attention(asked, keys, heads(v))));
  }
  int64_t num_heads;
  nn::Linear q, k, v, out;
};

struct Dino3Mlp : nn::Module {
  Dino3Mlp(const Dino3Config& c, const at::TensorOptions& options) : up(c.width, c.hidden, options), down(c.hidden, c.width, options) {
    own("up_proj", up);
    own("down_proj", down);
    if (!c.is_gated) return;
    own("gate_proj", *(gate = std::make_unique<nn::Linear>(c.width, c.hidden, options)));
  }
  at::Tensor forward(const at::Tensor& x) const {
    return down.forward(gate ? at::silu(gate->forward(x)) * up.forward(x) : at::gelu(up.forward(x)));
  }
  nn::Linear up, down;
  std::unique_ptr<nn::Linear> gate;
};

/// Self-attention and MLP, each behind a layer norm and with a gain: {tokens, cos, sin} -> {tokens}.
class Dino3Block : public nn::Block {
 public:
  Dino3Block(const Dino3Config& c, const at::TensorOptions& options)
      : norm1_(c.width, c.eps, options),
        norm2_(c.width, c.eps, options),
        attention_(c, options),
        mlp_(c, options),
        scale1_(c.width, options),
        scale2_(c.width, options) {
    own("norm1", norm1_);
    own("norm2", norm2_);
    own("attention", attention_);
    own("mlp", mlp_);
    own("layer_scale1", scale1_);
    own("layer_scale2", scale2_);
  }
  nn::Tensors body(const nn::Tensors& in) override {
    const auto mid = in[0] + scale1_.forward(attention_.forward(norm1_.forward(in[0]), in[1], in[2]));
    return {mid + scale2_.forward(mlp_.forward(norm2_.forward(mid)))};
  }

 private:
  nn::LayerNorm norm1_, norm2_;
  Dino3Attention attention_;
  Dino3Mlp mlp_;
  LayerScale scale1_, scale2_;
};

/// Computes {cos, sin [rows · columns, D / 2]}: a quarter of a head turns with a patch's row and a quarter with its column, each by where
/// its centre lies between -1 and 1.
nn::Tensors turns_of_patches(int64_t num_rows, int64_t num_columns, int64_t head_width, double theta) {
  const auto num_bands = head_width / 4;
  const auto bands = at::pow(theta, at::arange(num_bands, at::kDouble) * (-4.0 / static_cast<double>(head_width)));
  auto along = [&](int64_t count) {
    const auto places = (at::arange(count, at::kDouble) + 0.5) * (2.0 / static_cast<double>(count)) - 1;
    return places.unsqueeze(1) * (bands * (2 * std::numbers::pi)).unsqueeze(0);
  };
  const auto rows = along(num_rows).unsqueeze(1).expand({num_rows, num_columns, num_bands});
  const auto columns = along(num_columns).unsqueeze(0).expand({num_rows, num_columns, num_bands});
  const auto angles = at::cat({rows, columns}, -1).flatten(0, 1);
  return {angles.cos().to(at::kFloat), angles.sin().to(at::kFloat)};
}

}  // namespace

Dino3Config dino3_config(const nlohmann::json& json, const io::Shapes& shapes) {
  Dino3Config c;
  c.width = io::side_of(shapes, "embeddings.patch_embeddings.weight", 0, kDino3);
  c.patch = io::side_of(shapes, "embeddings.patch_embeddings.weight", 2, kDino3);
  c.hidden = io::side_of(shapes, "layer.0.mlp.up_proj.weight", 0, kDino3);
  c.num_layers = io::count_of(shapes, "layer.{}.norm1.weight");
  c.num_registers = shapes.contains("embeddings.register_tokens") ? io::side_of(shapes, "embeddings.register_tokens", 1, kDino3) : 0;
  c.is_gated = shapes.contains("layer.0.mlp.gate_proj.weight");
  c.has_key_bias = shapes.contains("layer.0.attention.k_proj.bias");
  constexpr int64_t kHeadWidth = 64;  // of published ones
  c.num_heads = c.width % kHeadWidth == 0 ? c.width / kHeadWidth : 1;
  io::take(json, "num_attention_heads", c.num_heads, kDino3);
  io::take(json, "layer_norm_eps", c.eps, kDino3);
  io::take(json, "rope_theta", c.theta, kDino3);
  if (json.is_object() && json.contains("rope_parameters")) io::take(json["rope_parameters"], "rope_theta", c.theta, kDino3);
  std::string activation = c.is_gated ? "silu" : "gelu";
  const auto expected = activation;
  io::take(json, "hidden_act", activation, kDino3);
  if (activation != expected)
    data_error("tagging", "this DINOv3 has hidden_act = {}, and {} was expected, as of those whose MLPs are {}", activation, expected,
               c.is_gated ? "gated" : "plain");
  if (c.num_layers < 1 || c.num_heads < 1 || c.width % (4 * c.num_heads) != 0)
    data_error("tagging", "this DINOv3 has {} layers and {} heads over {} channels; at least 1 and heads of a multiple of 4 were expected",
               c.num_layers, c.num_heads, c.width);
  return c;
}

Dino3Tower::Dino3Tower(const Dino3Config& c, const at::TensorOptions& options)
    : config_(c),
      picture_token_11C_(at::empty({1, 1, c.width}, options)),
      patch_embedding_(3, c.width, c.patch, c.patch, 0, options),
      norm_(c.width, c.eps, options) {
  own("embeddings.cls_token", picture_token_11C_);
  if (c.num_registers > 0) {
    registers_1RC_ = at::empty({1, c.num_registers, c.width}, options);
    own("embeddings.register_tokens", registers_1RC_);
  }
  own("embeddings.patch_embeddings", patch_embedding_);
  for (int64_t i = 0; i < c.num_layers; ++i)
    own("layer." + std::to_string(i), *blocks_.emplace_back(std::make_unique<Dino3Block>(c, options)));
  own("norm", norm_);
}

at::Tensor Dino3Tower::pooled(const at::Tensor& image_B3SS) {
  const auto patches = patch_embedding_.forward(image_B3SS);
  const auto count = patches.size(0);
  std::vector<at::Tensor> tokens{picture_token_11C_.expand({count, 1, config_.width})};
  if (registers_1RC_.defined()) tokens.push_back(registers_1RC_.expand({count, config_.num_registers, config_.width}));
  tokens.push_back(patches.flatten(2).transpose(1, 2));
  nn::Tensors inputs{at::cat(tokens, 1)};
  for (const auto& turn : turns_of_patches(patches.size(2), patches.size(3), config_.width / config_.num_heads, config_.theta))
    inputs.push_back(turn.to(patches.device()));
  for (auto& block : blocks_) inputs[0] = block->run(inputs)[0];
  return norm_.forward(inputs[0].select(1, 0));
}

}  // namespace burnish::tagging
