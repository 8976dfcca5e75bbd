#include "models/parts/siglip.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "models/parts/find_components.h"
#include "models/text/clip_layer.h"
#include "models/text/resample.h"
#include "nn/attention.h"

namespace burnish::models {

namespace {

constexpr const char* kSiglip = "SigLIP image encoder";
constexpr int64_t kPillowLanczos = 1, kPillowBilinear = 2, kPillowBicubic = 3;
const std::string kSiglipPrefix = "vision_model.", kSiglipMark = "head.probe";

/// Returns what stands before the tower's names in an entry; nothing where it has no tower.
std::optional<std::string> tower_prefix(const ModelEntry& entry) {
  for (const auto& prefix : {kSiglipPrefix, std::string()}) {
    if (entry.tensors && entry.tensors->contains(prefix + kSiglipMark)) return prefix;
  }
  return std::nullopt;
}

class SiglipMlp : public nn::Module {
 public:
  SiglipMlp(const SiglipConfig& c, const at::TensorOptions& options) : fc1_(c.width, c.hidden, options), fc2_(c.hidden, c.width, options) {
    own("fc1", fc1_);
    own("fc2", fc2_);
  }
  at::Tensor forward(const at::Tensor& x) const { return fc2_.forward(at::gelu(fc1_.forward(x), "tanh")); }

 private:
  nn::Linear fc1_, fc2_;
};

}  // namespace

/// One query attends to all tokens; torch's MultiheadAttention, whose query, key and value weights lie in one matrix.
struct SiglipVision::Pool : nn::Module {
  Pool(const SiglipConfig& c, const at::TensorOptions& options)
      : num_heads(c.num_heads),
        probe_11E(at::empty({1, 1, c.width}, options)),
        in_proj_OE(at::empty({3 * c.width, c.width}, options)),
        in_bias_O(at::empty({3 * c.width}, options)),
        out(c.width, c.width, options),
        norm(c.width, c.eps, options),
        mlp(c, options) {
    own("probe", probe_11E);
    own("attention.in_proj_weight", in_proj_OE);
    own("attention.in_proj_bias", in_bias_O);
    own("attention.out_proj", out);
    own("layernorm", norm);
    own("mlp", mlp);
  }

  at::Tensor forward(const at::Tensor& tokens_BLE) const {
    auto weights = in_proj_OE.chunk(3), biases = in_bias_O.chunk(3);
    auto heads = [&](const at::Tensor& x, size_t i) { return nn::split_heads(at::matmul(x, weights[i].t()) + biases[i], num_heads); };
    auto query = probe_11E.expand({tokens_BLE.size(0), 1, probe_11E.size(2)});
    auto mid = out.forward(nn::merge_heads(nn::attention(heads(query, 0), heads(tokens_BLE, 1), heads(tokens_BLE, 2))));
    return (mid + mlp.forward(norm.forward(mid))).select(1, 0);
  }

  int64_t num_heads;
  at::Tensor probe_11E, in_proj_OE, in_bias_O;
  nn::Linear out;
  nn::LayerNorm norm;
  SiglipMlp mlp;
};

SiglipConfig siglip_config(const nlohmann::json& json, const io::Shapes& shapes) {
  SiglipConfig c;
  const auto numbers = json.is_object() && json.contains("vision_config") ? json.at("vision_config") : json;
  c.width = io::side_of(shapes, "embeddings.patch_embedding.weight", 0, kSiglip);
  c.patch = io::side_of(shapes, "embeddings.patch_embedding.weight", 2, kSiglip);
  c.num_patches = io::side_of(shapes, "embeddings.position_embedding.weight", 0, kSiglip);
  c.hidden = io::side_of(shapes, "encoder.layers.0.mlp.fc1.weight", 0, kSiglip);
  c.num_layers = io::count_of(shapes, "encoder.layers.{}.layer_norm1.weight");
  c.num_heads = c.width % 72 == 0 ? c.width / 72 : 1;
  auto side = std::llround(std::sqrt(static_cast<double>(c.num_patches)));
  c.image_size = side * c.patch == 378 ? 384 : side * c.patch;
  io::take(numbers, "num_attention_heads", c.num_heads, kSiglip);
  io::take(numbers, "layer_norm_eps", c.eps, kSiglip);
  io::take(numbers, "image_size", c.image_size, kSiglip);
  io::agree(numbers, "hidden_size", c.width, kSiglip);
  io::agree(numbers, "intermediate_size", c.hidden, kSiglip);
  io::agree(numbers, "num_hidden_layers", c.num_layers, kSiglip);
  io::agree(numbers, "patch_size", c.patch, kSiglip);
  io::check_above_0(c.eps, "layer_norm_eps", kSiglip);
  if (c.num_heads < 1 || c.width % c.num_heads != 0)
    data_error("models", "the {}'s width {} does not divide into {} heads", kSiglip, c.width, c.num_heads);
  if (side * side != c.num_patches || c.image_size / c.patch != side)
    data_error("models", "the {} has places for {} patches, and pictures of {} pixels have {} by {}", kSiglip, c.num_patches, c.image_size,
               c.image_size / c.patch, c.image_size / c.patch);
  return c;
}

SiglipVision::SiglipVision(const SiglipConfig& c, const at::TensorOptions& options)
    : config_(c),
      patch_embedding_(3, c.width, c.patch, c.patch, 0, options),
      position_embedding_(c.num_patches, c.width, options),
      post_norm_(c.pools ? std::make_unique<nn::LayerNorm>(c.width, c.eps, options) : nullptr),
      pool_(c.pools ? std::make_unique<Pool>(c, options) : nullptr) {
  own("embeddings.patch_embedding", patch_embedding_);
  own("embeddings.position_embedding", position_embedding_);
  const text::ClipLayer::Sizes sizes{c.width, c.hidden, c.num_heads, c.eps, text::Gelu::tanh, /*causal=*/false};
  for (int64_t i = 0; i < c.num_layers; ++i) {
    layers_.push_back(std::make_unique<text::ClipLayer>(sizes, options));
    own("encoder.layers." + std::to_string(i), *layers_.back());
  }
  if (!c.pools) return;
  own("post_layernorm", *post_norm_);
  own("head", *pool_);
}

SiglipVision::~SiglipVision() = default;

SiglipVision::Output SiglipVision::forward(const at::Tensor& image_B3SS) {
  auto places = at::arange(config_.num_patches, at::TensorOptions().dtype(at::kLong).device(image_B3SS.device()));
  auto tokens = patch_embedding_.forward(image_B3SS).flatten(2).transpose(1, 2) + position_embedding_.forward(places);
  for (auto& layer : layers_) tokens = layer->run({tokens})[0];
  if (!pool_) return {tokens, {}};
  tokens = post_norm_->forward(tokens);
  return {tokens, pool_->forward(tokens)};
}

SquareRule siglip_rule(const ModelFiles& files, const ModelEntry& entry, int64_t side, const std::string& chosen) {
  SquareRule rule{.scaled = side, .side = side};
  rule.colours.mean = rule.colours.deviation = {0.5, 0.5, 0.5};
  const auto beside = folder_with(entry, {"preprocessor_config.json", "processor_config.json"});
  const auto processor = find_processor(files, chosen.empty() ? beside : chosen);
  if (!processor) return rule;
  return naming(processor->file.string(), [&] {
    const auto& json = processor->of_pictures;
    rule.colours = text::pixel_rule(json);
    int64_t height = side, filter = kPillowBicubic;
    if (json.is_object() && json.contains("size")) io::take(json["size"], "height", height, kSiglip);
    if (json.is_object()) io::take(json, "resample", filter, kSiglip);
    if (height != side)
      data_error("models", "pictures are scaled to {} pixels, and {} were expected, which the tower has places for", height, side);
    if (filter != kPillowLanczos && filter != kPillowBilinear && filter != kPillowBicubic)
      data_error("models", "pictures are scaled by filter {}; 1 (lanczos), 2 (bilinear) or 3 (bicubic) was expected", filter);
    rule.filter = filter == kPillowLanczos    ? text::Filter::lanczos
                  : filter == kPillowBilinear ? text::Filter::bilinear
                                              : text::Filter::bicubic;
    return rule;
  });
}

bool is_siglip(const ModelEntry& entry) { return tower_prefix(entry).has_value(); }

Source find_siglip(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (is_siglip(entry)) return {&entry, find_below(entry, {kSiglipPrefix, ""}, kSiglipMark), {}};
  }
  return {};
}

Recipe siglip_recipe(const std::string& name, const Source& source, const SiglipConfig& config) {
  return {.name = name, .what = kSiglip, .source = source, .build = [config](const std::string&, const at::TensorOptions& options) {
            return std::make_unique<SiglipVision>(config, options);
          }};
}

ComponentNames siglip_names(const std::string& name, const Source& source) {
  auto names = plain_names(name);
  names.layers.weights = tower_prefix(*source.entry).value_or("");
  names.lora_targets = "q_proj,k_proj,v_proj,out_proj,fc1,fc2";
  names.high_precision = {"embeddings\\..*"};
  names.folder_file = names.single_file = {names.layers.weights, {}};
  return names;
}

at::Tensor resized_bicubic(const at::Tensor& image_3HW, int64_t height, int64_t width) {
  return text::from_levels(text::resampled(text::to_levels(image_3HW), height, width, text::Filter::bicubic));
}

}  // namespace burnish::models
