#include "masking/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/relu.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "nn/attention.h"

namespace burnish::masking {

namespace {

constexpr const char* kWhat = "decoder of CLIPSeg";

void check(const DecoderConfig& c, const nlohmann::json& json, int64_t num_layers) {
  io::agree(json, "reduce_dim", c.reduced, kWhat);
  io::agree(json, "decoder_intermediate_size", c.hidden, kWhat);
  io::agree(json, "use_complex_transposed_convolution", c.is_refined, kWhat);
  io::check_above_0(c.eps, "layer_norm_eps", kWhat);
  if (c.num_heads < 1 || c.reduced % c.num_heads != 0)
    data_error("models", "the {}'s width {} does not divide into {} heads", kWhat, c.reduced, c.num_heads);
  const bool rises = std::ranges::is_sorted(c.layers, std::less_equal<>());
  if (c.layers.empty() || !rises || c.layers.front() < 0 || std::ssize(c.layers) != num_layers)
    data_error("models",
               "the {} has {} layers, and config.json has extract_layers = {}; as many, each behind the one before, were expected", kWhat,
               num_layers, nlohmann::json(c.layers).dump());
  if (c.conditional_layer < 0 || c.conditional_layer >= num_layers)
    data_error("models", "the config.json of the {} has conditional_layer = {}, and its layers are from 0 to {}", kWhat,
               c.conditional_layer, num_layers - 1);
}

}  // namespace

DecoderConfig decoder_config(const nlohmann::json& json, const io::Shapes& shapes) {
  DecoderConfig c;
  c.reduced = io::side_of(shapes, "film_mul.weight", 0, kWhat);
  c.condition = io::side_of(shapes, "film_mul.weight", 1, kWhat);
  c.width = io::side_of(shapes, "reduces.0.weight", 1, kWhat);
  c.hidden = io::side_of(shapes, "layers.0.mlp.fc1.weight", 0, kWhat);
  c.is_refined = shapes.contains("transposed_convolution.0.weight");
  c.patch = c.is_refined ? io::side_of(shapes, "transposed_convolution.2.weight", 2, kWhat) *
                               io::side_of(shapes, "transposed_convolution.4.weight", 2, kWhat)
                         : io::side_of(shapes, "transposed_convolution.weight", 2, kWhat);
  io::take(json, "decoder_num_attention_heads", c.num_heads, kWhat);
  io::take(json, "extract_layers", c.layers, kWhat);
  io::take(json, "conditional_layer", c.conditional_layer, kWhat);
  if (json.is_object() && json.contains("vision_config")) io::take(json["vision_config"], "layer_norm_eps", c.eps, kWhat);
  check(c, json, io::count_of(shapes, "layers.{}.layer_norm1.weight"));
  return c;
}

/// Self-attention and MLP, each before a layer norm.
struct Decoder::Layer : nn::Module {
  Layer(const DecoderConfig& c, const at::TensorOptions& options)
      : num_heads(c.num_heads),
        q(c.reduced, c.reduced, options),
        k(c.reduced, c.reduced, options),
        v(c.reduced, c.reduced, options),
        out(c.reduced, c.reduced, options),
        fc1(c.reduced, c.hidden, options),
        fc2(c.hidden, c.reduced, options),
        norm1(c.reduced, c.eps, options),
        norm2(c.reduced, c.eps, options) {
    own("self_attn.q_proj", q);
    own("self_attn.k_proj", k);
    own("self_attn.v_proj", v);
    own("self_attn.out_proj", out);
    own("mlp.fc1", fc1);
    own("mlp.fc2", fc2);
    own("layer_norm1", norm1);
    own("layer_norm2", norm2);
  }
  at::Tensor forward(const at::Tensor& x) const {
    auto heads = [&](const nn::Linear& layer) { return nn::split_heads(layer.forward(x), num_heads); };
    const auto mid = norm1.forward(x + out.forward(nn::merge_heads(nn::attention(heads(q), heads(k), heads(v)))));
    return norm2.forward(mid + fc2.forward(at::relu(fc1.forward(mid))));
  }
  int64_t num_heads;
  nn::Linear q, k, v, out, fc1, fc2;
  nn::LayerNorm norm1, norm2;
};

/// Makes of each pixel a square of `side` pixels.
struct Decoder::Deconvolution : nn::Module {
  Deconvolution(int64_t in, int64_t out, int64_t side, const at::TensorOptions& options)
      : weight(at::empty({in, out, side, side}, options)), bias(at::empty({out}, options)) {
    own("weight", weight);
    own("bias", bias);
  }
  at::Tensor forward(const at::Tensor& x) const { return at::conv_transpose2d(x, weight, bias, {weight.size(2), weight.size(3)}); }
  at::Tensor weight, bias;
};

Decoder::Decoder(const DecoderConfig& c, const at::TensorOptions& options)
    : config_(c), film_mul_(c.condition, c.reduced, options), film_add_(c.condition, c.reduced, options) {
  own("film_mul", film_mul_);
  own("film_add", film_add_);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    own("reduces." + std::to_string(i), *reduces_.emplace_back(std::make_unique<nn::Linear>(c.width, c.reduced, options)));
    own("layers." + std::to_string(i), *layers_.emplace_back(std::make_unique<Layer>(c, options)));
  }
  const std::string name = "transposed_convolution";
  if (!c.is_refined) {
    own(name, *deconvolutions_.emplace_back(std::make_unique<Deconvolution>(c.reduced, 1, c.patch, options)));
    return;
  }
  smooth_ = std::make_unique<nn::Conv2d>(c.reduced, c.reduced, 3, 1, 1, options);
  own(name + ".0", *smooth_);
  const int64_t half = c.reduced / 2, side = std::llround(std::sqrt(static_cast<double>(c.patch)));  // 4 of 16
  own(name + ".2", *deconvolutions_.emplace_back(std::make_unique<Deconvolution>(c.reduced, half, side, options)));
  own(name + ".4", *deconvolutions_.emplace_back(std::make_unique<Deconvolution>(half, 1, side, options)));
}

Decoder::~Decoder() = default;

at::Tensor Decoder::pixels(const at::Tensor& grid_PRhw) const {
  auto x = smooth_ ? at::relu(smooth_->forward(grid_PRhw)) : grid_PRhw;
  for (size_t i = 0; i < deconvolutions_.size(); ++i) {
    x = deconvolutions_[i]->forward(x);
    if (i + 1 < deconvolutions_.size()) x = at::relu(x);
  }
  return x.squeeze(1);
}

at::Tensor Decoder::forward(const std::vector<at::Tensor>& states_1LW, const at::Tensor& texts_PC) const {
  at::Tensor x_PLR;
  for (size_t i = 0; i < layers_.size(); ++i) {
    auto reduced = reduces_[i]->forward(states_1LW.at(layers_.size() - 1 - i));  // the last state first
    x_PLR = x_PLR.defined() ? x_PLR + reduced : reduced;
    if (static_cast<int64_t>(i) == config_.conditional_layer)
      x_PLR = film_mul_.forward(texts_PC).unsqueeze(1) * x_PLR + film_add_.forward(texts_PC).unsqueeze(1);
    x_PLR = layers_[i]->forward(x_PLR);
  }
  const auto patches = x_PLR.narrow(1, 1, x_PLR.size(1) - 1).transpose(1, 2);
  const auto side = std::llround(std::sqrt(static_cast<double>(patches.size(2))));
  return pixels(patches.reshape({patches.size(0), patches.size(1), side, side}));
}

}  // namespace burnish::masking
