#include "captioning/bart.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "nn/attention.h"

namespace burnish::captioning {

namespace {

constexpr double kBartEps = 1e-5;
constexpr int64_t kFirstPlace = 2;  // rows of the table of places before that of the first token
constexpr int64_t kBartHeadWidth = 64;
constexpr const char* kBart = "BART";

}  // namespace

BartConfig bart_config(const nlohmann::json& json, const io::Shapes& shapes) {
  BartConfig c;
  c.vocab_size = io::side_of(shapes, "shared.weight", 0, kBart);
  c.width = io::side_of(shapes, "shared.weight", 1, kBart);
  c.hidden = io::side_of(shapes, "decoder.layers.0.fc1.weight", 0, kBart);
  c.num_encoder_layers = io::count_of(shapes, "encoder.layers.{}.fc1.weight");
  c.num_decoder_layers = io::count_of(shapes, "decoder.layers.{}.fc1.weight");
  c.num_places = io::side_of(shapes, "decoder.embed_positions.weight", 0, kBart) - kFirstPlace;
  c.num_encoder_heads = c.num_decoder_heads = std::max<int64_t>(c.width / kBartHeadWidth, 1);
  io::take(json, "encoder_attention_heads", c.num_encoder_heads, kBart);
  io::take(json, "decoder_attention_heads", c.num_decoder_heads, kBart);
  io::take(json, "scale_embedding", c.scales_embedding, kBart);
  auto divides = [&](int64_t heads) { return heads >= 1 && c.width % heads == 0; };
  if (!divides(c.num_encoder_heads) || !divides(c.num_decoder_heads) || c.num_places < 2 || c.num_encoder_layers < 1)
    data_error(
        "captioning",
        "the {} is {} wide with {} and {} heads, has {} layers that read, and {} places; heads that divide the width, a layer and two "
        "places were expected",
        kBart, c.width, c.num_encoder_heads, c.num_decoder_heads, c.num_encoder_layers, c.num_places);
  return c;
}

void BartPast::keep(const std::vector<int64_t>& texts, const std::vector<int64_t>& inputs) {
  auto are_all = [](const std::vector<int64_t>& rows, const at::Tensor& of) {
    if (std::ssize(rows) != of.size(0)) return false;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] != static_cast<int64_t>(i)) return false;
    }
    return true;
  };
  auto select = [&](at::Tensor& of, const std::vector<int64_t>& rows) {
    if (of.defined() && !are_all(rows, of)) of = of.index_select(0, at::tensor(rows).to(of.device()));
  };
  for (auto& layer : layers) {
    select(layer.keys, texts);
    select(layer.values, texts);
    select(layer.input_keys, inputs);
    select(layer.input_values, inputs);
  }
}

struct Bart::Attention : nn::Module {
  Attention(int64_t width, int64_t heads, const at::TensorOptions& options)
      : num_heads(heads), q(width, width, options), k(width, width, options), v(width, width, options), out(width, width, options) {
    own("q_proj", q);
    own("k_proj", k);
    own("v_proj", v);
    own("out_proj", out);
  }
  at::Tensor split(const nn::Linear& layer, const at::Tensor& x) const { return nn::split_heads(layer.forward(x), num_heads); }
  at::Tensor attend(const at::Tensor& x_BLE, const at::Tensor& keys, const at::Tensor& values) const {
    return out.forward(nn::merge_heads(nn::attention(split(q, x_BLE), keys, values)));
  }
  int64_t num_heads;
  nn::Linear q, k, v, out;
};

/// A layer of either half; each part of it is added to what was there, and a norm stands behind the sum.
struct Bart::Layer : nn::Module {
  Layer(const BartConfig& c, int64_t heads, bool asks_input, const at::TensorOptions& options)
      : attention(c.width, heads, options),
        attention_norm(c.width, kBartEps, options),
        fc1(c.width, c.hidden, options),
        fc2(c.hidden, c.width, options),
        final_norm(c.width, kBartEps, options) {
    own("self_attn", attention);
    own("self_attn_layer_norm", attention_norm);
    own("fc1", fc1);
    own("fc2", fc2);
    own("final_layer_norm", final_norm);
    if (!asks_input) return;
    own("encoder_attn", *(input_attention = std::make_unique<Attention>(c.width, heads, options)));
    own("encoder_attn_layer_norm", *(input_norm = std::make_unique<nn::LayerNorm>(c.width, kBartEps, options)));
  }
  at::Tensor fed_forward(const at::Tensor& x) const { return final_norm.forward(x + fc2.forward(at::gelu(fc1.forward(x)))); }
  at::Tensor encode(const at::Tensor& x_BLE) const {
    const auto keys = attention.split(attention.k, x_BLE), values = attention.split(attention.v, x_BLE);
    return fed_forward(attention_norm.forward(x_BLE + attention.attend(x_BLE, keys, values)));
  }
  /// Texts of one input are further queries of it, so that its keys are read once and copied never.
  at::Tensor decode(const at::Tensor& x_R1E, BartPast::Layer& past) const {
    auto append = [](at::Tensor& all, const at::Tensor& more) { all = all.defined() ? at::cat({all, more}, 2) : more; };
    append(past.keys, attention.split(attention.k, x_R1E));
    append(past.values, attention.split(attention.v, x_R1E));
    auto x = attention_norm.forward(x_R1E + attention.attend(x_R1E, past.keys, past.values));
    const auto by_input = x.view({past.input_keys.size(0), -1, x.size(2)});
    x = input_norm->forward(x + input_attention->attend(by_input, past.input_keys, past.input_values).view_as(x));
    return fed_forward(x);
  }
  Attention attention;
  nn::LayerNorm attention_norm;
  nn::Linear fc1, fc2;
  nn::LayerNorm final_norm;
  std::unique_ptr<Attention> input_attention;
  std::unique_ptr<nn::LayerNorm> input_norm;
};

struct Bart::Half : nn::Module {
  Half(const BartConfig& c, int64_t num_layers, int64_t heads, bool asks_input, const at::TensorOptions& options)
      : places(c.num_places + kFirstPlace, c.width, options), norm(c.width, kBartEps, options) {
    own("embed_positions", places);
    own("layernorm_embedding", norm);
    for (int64_t i = 0; i < num_layers; ++i)
      own("layers." + std::to_string(i), *layers.emplace_back(std::make_unique<Layer>(c, heads, asks_input, options)));
  }
  at::Tensor placed(const at::Tensor& x_BLE, int64_t first) const {
    const auto rows_L = at::arange(first + kFirstPlace, first + kFirstPlace + x_BLE.size(1), x_BLE.options().dtype(at::kLong));
    return norm.forward(x_BLE + places.forward(rows_L));
  }
  nn::Embedding places;
  nn::LayerNorm norm;
  std::vector<std::unique_ptr<Layer>> layers;
};

Bart::Bart(const BartConfig& c, const at::TensorOptions& options)
    : config_(c),
      shared_(c.vocab_size, c.width, options),
      encoder_(std::make_unique<Half>(c, c.num_encoder_layers, c.num_encoder_heads, false, options)),
      decoder_(std::make_unique<Half>(c, c.num_decoder_layers, c.num_decoder_heads, true, options)) {
  own("shared", shared_);
  own("encoder", *encoder_);
  own("decoder", *decoder_);
}

Bart::~Bart() = default;

at::Tensor Bart::embed(const at::Tensor& ids_BL) const {
  const auto rows = shared_.forward(ids_BL);
  return config_.scales_embedding ? rows * std::sqrt(static_cast<double>(config_.width)) : rows;
}

at::Tensor Bart::encode(const at::Tensor& embedded_BLE) {
  if (embedded_BLE.size(1) > config_.num_places)
    data_error("captioning", "a picture and what is asked about it are {} tokens, and the {} has places for {}; ask less",
               embedded_BLE.size(1), kBart, config_.num_places);
  auto x = encoder_->placed(embedded_BLE, 0);
  for (const auto& layer : encoder_->layers) x = layer->encode(x);
  return x;
}

BartPast Bart::begin(const at::Tensor& states_BLE) const {
  BartPast past;
  for (const auto& layer : decoder_->layers) {
    const auto& attention = *layer->input_attention;
    past.layers.push_back(
        {.input_keys = attention.split(attention.k, states_BLE), .input_values = attention.split(attention.v, states_BLE)});
  }
  return past;
}

at::Tensor Bart::scores(const at::Tensor& ids_R, BartPast& past) {
  auto x = decoder_->placed(embed(ids_R.unsqueeze(1)), past.num_tokens++);
  for (size_t i = 0; i < decoder_->layers.size(); ++i) x = decoder_->layers[i]->decode(x, past.layers[i]);
  return at::linear(x.squeeze(1), shared_.weight).to(at::kFloat);
}

}  // namespace burnish::captioning
