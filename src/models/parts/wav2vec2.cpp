#include "models/parts/wav2vec2.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/upsample_linear1d.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/parts/find_components.h"
#include "models/parts/layer_tables.h"
#include "models/text/clip_layer.h"
#include "nn/attention.h"

namespace burnish::models {

namespace {

constexpr const char* kSpeechEncoder = "wav2vec2 encoder";
constexpr const char *kLength = "encoder.pos_conv_embed.conv.weight_g", *kDirection = "encoder.pos_conv_embed.conv.weight_v";
const std::string kInCtc = "wav2vec2.";

/// Returns the names of its layers, which are those of CLIP's towers; newer files have other names for lengths and directions of weights.
io::KeyMap wav2vec2_keys(bool is_parametrized) {
  std::vector<io::KeyRule> rules;
  add_rules(rules,
            {{"attention.q_proj", {"self_attn.q_proj"}},
             {"attention.k_proj", {"self_attn.k_proj"}},
             {"attention.v_proj", {"self_attn.v_proj"}},
             {"attention.out_proj", {"self_attn.out_proj"}},
             {"layer_norm", {"layer_norm1"}},
             {"final_layer_norm", {"layer_norm2"}},
             {"feed_forward.intermediate_dense", {"mlp.fc1"}},
             {"feed_forward.output_dense", {"mlp.fc2"}}},
            "encoder.layers.{}.", "encoder.layers.{}.");
  if (!is_parametrized) return io::KeyMap(rules);
  rules.push_back({"encoder.pos_conv_embed.conv.parametrizations.weight.original0", {kLength}});
  rules.push_back({"encoder.pos_conv_embed.conv.parametrizations.weight.original1", {kDirection}});
  return io::KeyMap(rules);
}

void expect(const nlohmann::json& json, const char* key, const std::string& known) {
  std::string stated = known;
  io::take(json, key, stated, kSpeechEncoder);
  if (stated != known)
    data_error("models", "the {}'s config.json says {} = {}; {} was expected, as its tensors have it", kSpeechEncoder, key, stated, known);
}

void refuse_others(const nlohmann::json& json, Wav2Vec2Config::Norms norms) {
  const bool are_before = norms == Wav2Vec2Config::Norms::before;
  expect(json, "feat_extract_norm", are_before ? "layer" : "group");
  expect(json, "feat_extract_activation", "gelu");
  expect(json, "hidden_act", "gelu");
  bool is_stable = are_before;
  io::take(json, "do_stable_layer_norm", is_stable, kSpeechEncoder);
  if (is_stable != are_before)
    data_error("models", "the {}'s config.json says do_stable_layer_norm = {}; {} was expected, as {} has it", kSpeechEncoder, is_stable,
               are_before, are_before ? "wav2vec2-large-xlsr-53" : "wav2vec2-base");
}

void check_wav2vec2(const Wav2Vec2Config& c, const nlohmann::json& json) {
  io::agree(json, "hidden_size", c.width, kSpeechEncoder);
  io::agree(json, "intermediate_size", c.hidden, kSpeechEncoder);
  io::agree(json, "num_hidden_layers", c.num_layers, kSpeechEncoder);
  io::check_above_0(c.eps, "layer_norm_eps", kSpeechEncoder);
  if (c.num_heads < 1 || c.width % c.num_heads != 0)
    data_error("models", "the {}'s width {} does not divide into {} heads", kSpeechEncoder, c.width, c.num_heads);
  const bool fits = c.place_groups >= 1 && c.width % c.place_groups == 0 && c.num_layers >= 1 && !c.convolutions.kernels.empty();
  if (!fits || c.convolutions.strides.size() != c.convolutions.kernels.size() || *std::ranges::min_element(c.convolutions.strides) < 1)
    data_error("models",
               "the {} has {} layers, {} convolutions, {} strides and {} groups of places for a width of {}; at least one layer, as many "
               "strides as convolutions, and groups that divide the width were expected",
               kSpeechEncoder, c.num_layers, c.convolutions.kernels.size(), c.convolutions.strides.size(), c.place_groups, c.width);
}

}  // namespace

int64_t Wav2Vec2Config::num_steps(int64_t num_samples) const {
  const auto &kernels = convolutions.kernels, &strides = convolutions.strides;
  for (size_t i = 0; i < kernels.size(); ++i) num_samples = num_samples < kernels[i] ? 0 : (num_samples - kernels[i]) / strides[i] + 1;
  return num_samples;
}

Wav2Vec2Config wav2vec2_config(const nlohmann::json& json, const io::Shapes& shapes) {
  Wav2Vec2Config c;
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, kSpeechEncoder); };
  c.convolutions.channels = side("feature_projection.projection.weight", 1);
  c.width = side("feature_projection.projection.weight", 0);
  c.hidden = side("encoder.layers.0.mlp.fc1.weight", 0);
  c.num_layers = io::count_of(shapes, "encoder.layers.{}.layer_norm1.weight");
  c.place_kernel = side(kDirection, 2);
  c.place_groups = c.width / std::max<int64_t>(1, side(kDirection, 1));
  c.num_heads = c.width % 64 == 0 ? c.width / 64 : 1;
  c.convolutions.kernels.clear();
  for (int64_t i = 0; i < io::count_of(shapes, "feature_extractor.conv_layers.{}.conv.weight"); ++i)
    c.convolutions.kernels.push_back(side("feature_extractor.conv_layers." + std::to_string(i) + ".conv.weight", 2));
  const bool are_before = shapes.contains("feature_extractor.conv_layers.1.layer_norm.weight");
  c.norms = are_before ? Wav2Vec2Config::Norms::before : Wav2Vec2Config::Norms::behind;
  c.convolutions.has_biases = shapes.contains("feature_extractor.conv_layers.0.conv.bias");
  if (json.is_object()) {
    refuse_others(json, c.norms);
    io::take(json, "num_attention_heads", c.num_heads, kSpeechEncoder);
    io::take(json, "layer_norm_eps", c.eps, kSpeechEncoder);
    io::take(json, "conv_stride", c.convolutions.strides, kSpeechEncoder);
  }
  check_wav2vec2(c, json);
  return c;
}

/// A convolution over time, a norm of each step's channels, of each channel over time, or none, and GELU.
class Wav2Vec2::Convolution : public nn::Module {
 public:
  Convolution(const Wav2Vec2Config& c, size_t number, const at::TensorOptions& o)
      : conv_(number == 0 ? 1 : c.convolutions.channels, c.convolutions.channels,
              kernels::Window::cube(1, c.convolutions.kernels[number], c.convolutions.strides[number]), o, c.convolutions.has_biases) {
    own("conv", conv_);
    if (c.norms == Wav2Vec2Config::Norms::before)
      own("layer_norm", *(of_steps_ = std::make_unique<nn::LayerNorm>(c.convolutions.channels, c.eps, o)));
    else if (number == 0)
      own("layer_norm", *(of_channels_ = std::make_unique<nn::GroupNorm>(c.convolutions.channels, c.convolutions.channels, c.eps, o)));
  }
  at::Tensor run(const at::Tensor& x_BCN) const {
    auto made = conv_.forward(x_BCN);
    if (of_steps_) return at::gelu(of_steps_->forward(made.transpose(1, 2))).transpose(1, 2);
    return at::gelu(of_channels_ ? of_channels_->forward(made) : made);
  }

 private:
  nn::Conv conv_;
  std::unique_ptr<nn::LayerNorm> of_steps_;
  std::unique_ptr<nn::GroupNorm> of_channels_;
};

/// A layer with its norms behind attention and MLP: {x [B, T, W]} -> {x}; names are ClipLayer's.
class Wav2Vec2::LayerBeforeNorm : public nn::Block {
 public:
  LayerBeforeNorm(const text::ClipLayer::Sizes& s, const at::TensorOptions& o)
      : num_heads_(s.num_heads),
        norm1_(s.width, s.eps, o),
        norm2_(s.width, s.eps, o),
        q_(s.width, s.width, o),
        k_(s.width, s.width, o),
        v_(s.width, s.width, o),
        out_(s.width, s.width, o),
        fc1_(s.width, s.hidden, o),
        fc2_(s.hidden, s.width, o) {
    own("layer_norm1", norm1_);
    own("layer_norm2", norm2_);
    own("self_attn.q_proj", q_);
    own("self_attn.k_proj", k_);
    own("self_attn.v_proj", v_);
    own("self_attn.out_proj", out_);
    own("mlp.fc1", fc1_);
    own("mlp.fc2", fc2_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    auto qkv = nn::forward_all({&q_, &k_, &v_}, in[0]);
    for (auto& heads : qkv) heads = nn::split_heads(heads, num_heads_);
    auto mid = norm1_.forward(in[0] + out_.forward(nn::merge_heads(nn::attention(qkv[0], qkv[1], qkv[2]))));
    return {norm2_.forward(mid + fc2_.forward(at::gelu(fc1_.forward(mid))))};
  }

 private:
  int64_t num_heads_;
  nn::LayerNorm norm1_, norm2_;
  nn::Linear q_, k_, v_, out_, fc1_, fc2_;
};

Wav2Vec2::Wav2Vec2(const Wav2Vec2Config& c, const at::TensorOptions& o)
    : config_(c),
      projected_norm_(c.convolutions.channels, c.eps, o),
      projection_(c.convolutions.channels, c.width, o),
      place_length_(at::empty({1, 1, c.place_kernel}, o)),
      place_direction_(at::empty({c.width, c.width / c.place_groups, c.place_kernel}, o)),
      place_bias_(at::empty({c.width}, o)),
      norm_(c.width, c.eps, o) {
  for (size_t i = 0; i < c.convolutions.kernels.size(); ++i) {
    convolutions_.push_back(std::make_unique<Convolution>(c, i, o));
    own("feature_extractor.conv_layers." + std::to_string(i), *convolutions_.back());
  }
  own("feature_projection.layer_norm", projected_norm_);
  own("feature_projection.projection", projection_);
  own("encoder.pos_conv_embed.conv.bias", place_bias_);
  own(kLength, place_length_);
  own(kDirection, place_direction_);
  const text::ClipLayer::Sizes sizes{c.width, c.hidden, c.num_heads, c.eps, text::Gelu::exact, /*causal=*/false};
  for (int64_t i = 0; i < c.num_layers; ++i) {
    if (c.norms == Wav2Vec2Config::Norms::before) layers_.push_back(std::make_unique<text::ClipLayer>(sizes, o));
    else layers_.push_back(std::make_unique<LayerBeforeNorm>(sizes, o));
    own("encoder.layers." + std::to_string(i), *layers_.back());
  }
  own("encoder.layer_norm", norm_);
}

Wav2Vec2::~Wav2Vec2() = default;

at::Tensor Wav2Vec2::states(const at::Tensor& samples_BN, int64_t num_steps) {
  auto made = samples_BN.unsqueeze(1);
  for (const auto& convolution : convolutions_) made = convolution->run(made);
  if (num_steps > 0) made = at::upsample_linear1d(made, {num_steps}, /*align_corners=*/true);
  auto x = projection_.forward(projected_norm_.forward(made.transpose(1, 2)));
  auto places = place_direction_ * (place_length_ / at::linalg_vector_norm(place_direction_, 2, at::IntArrayRef{0, 1}, /*keepdim=*/true));
  const auto steps = x.size(1);
  auto told = at::conv1d(x.transpose(1, 2), places, place_bias_, at::IntArrayRef{1}, at::IntArrayRef{config_.place_kernel / 2},
                         at::IntArrayRef{1}, config_.place_groups);
  x = x + at::gelu(told.narrow(2, 0, steps)).transpose(1, 2);
  const bool is_normed_first = config_.norms == Wav2Vec2Config::Norms::behind;
  if (is_normed_first) x = norm_.forward(x);
  nn::Tensors all{x};
  for (const auto& layer : layers_) all.push_back(x = layer->run({x})[0]);
  if (!is_normed_first) all.back() = norm_.forward(x);
  return at::stack(all, 1);
}

at::Tensor heard(const at::Tensor& samples_BN) {
  auto x = samples_BN.to(at::kFloat);
  auto apart = x - x.mean(1, /*keepdim=*/true);
  return apart / ((apart * apart).mean(1, /*keepdim=*/true) + 1e-7).sqrt();
}

Source find_wav2vec2(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    auto tensors = find_below(entry, {kInCtc, "audio_encoder." + kInCtc, ""}, "feature_projection.projection.weight");
    if (!tensors) continue;
    return {&entry, tensors->without({"masked_spec_embed"}), wav2vec2_keys(!tensors->contains(kLength))};
  }
  return {};
}

Recipe wav2vec2_recipe(const std::string& name, const Source& source, const Wav2Vec2Config& config) {
  return {.name = name, .what = kSpeechEncoder, .source = source, .build = [config](const std::string&, const at::TensorOptions& options) {
            return std::make_unique<Wav2Vec2>(config, options);
          }};
}

ComponentNames wav2vec2_names(const std::string& name) {
  auto names = plain_names(name);
  names.layers.weights = kInCtc;
  names.lora_targets = "q_proj,k_proj,v_proj,out_proj,fc1,fc2";
  names.high_precision = {"feature_.*"};
  names.folder_file = {kInCtc, wav2vec2_keys(false)};
  names.single_file = {"audio_encoder." + kInCtc, wav2vec2_keys(false)};
  return names;
}

}  // namespace burnish::models
