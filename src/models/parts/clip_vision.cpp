#include "models/parts/clip_vision.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_bicubic2d.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/parts/find_components.h"
#include "models/text/clip_layer.h"
#include "models/text/scaled_places.h"

namespace burnish::models {

namespace {

constexpr const char* kWhat = "CLIP image encoder";
const std::string kPrefix = "vision_model.", kOriginalPrefix = "visual.";
const std::string kMark = "embeddings.class_embedding", kOriginalMark = "cls_embedding";

/// Returns what Wan's own file calls the tensors, below "visual." (Wan-Video: wan/modules/clip.py).
io::KeyMap original_clip_vision_keys() {
  using Op = io::KeyRule::Op;
  const std::string theirs = "transformer.{}.", ours = "encoder.layers.{}.";
  std::vector<io::KeyRule> rules{{"cls_embedding", {kMark}, Op::reshape},
                                 {"pos_embedding", {"embeddings.position_embedding.weight"}, Op::reshape},
                                 {"patch_embedding.weight", {"embeddings.patch_embedding.weight"}}};
  for (const std::string part : {"weight", "bias"}) {
    std::vector<std::string> qkv;
    for (const char* name : {"q_proj.", "k_proj.", "v_proj."}) qkv.push_back(ours + "self_attn." + name + part);
    rules.push_back({theirs + "attn.to_qkv." + part, qkv, Op::stack_rows});
    rules.push_back({theirs + "attn.proj." + part, {ours + "self_attn.out_proj." + part}});
    rules.push_back({theirs + "norm1." + part, {ours + "layer_norm1." + part}});
    rules.push_back({theirs + "norm2." + part, {ours + "layer_norm2." + part}});
    rules.push_back({theirs + "mlp.0." + part, {ours + "mlp.fc1." + part}});
    rules.push_back({theirs + "mlp.2." + part, {ours + "mlp.fc2." + part}});
    rules.push_back({"pre_norm." + part, {"pre_layrnorm." + part}});
    rules.push_back({"post_norm." + part, {"post_layernorm." + part}});
  }
  return io::KeyMap(rules);
}

void check_clip_vision(const ClipVisionConfig& c, const nlohmann::json& json) {
  io::agree(json, "hidden_size", c.width, kWhat);
  io::agree(json, "intermediate_size", c.hidden, kWhat);
  io::agree(json, "num_hidden_layers", c.num_layers, kWhat);
  io::agree(json, "patch_size", c.patch, kWhat);
  io::check_above_0(c.eps, "layer_norm_eps", kWhat);
  if (c.num_heads < 1 || c.width % c.num_heads != 0)
    data_error("models", "the {}'s width {} does not divide into {} heads", kWhat, c.width, c.num_heads);
  auto side = c.image_size() / c.patch;
  if (c.num_layers < 1 || side * side + 1 != c.num_places)
    data_error("models",
               "the {} has {} layers and {} places; at least 1 layer, and places for the patches of a square and one more were "
               "expected",
               kWhat, c.num_layers, c.num_places);
}

}  // namespace

int64_t ClipVisionConfig::image_size() const {
  return patch * std::llround(std::sqrt(static_cast<double>(std::max<int64_t>(0, num_places - 1))));
}

ClipVisionConfig clip_vision_config(const nlohmann::json& json, const io::Shapes& shapes) {
  ClipVisionConfig c;
  const auto numbers = json.is_object() && json.contains("vision_config") ? json.at("vision_config") : json;
  c.width = io::side_of(shapes, "embeddings.patch_embedding.weight", 0, kWhat);
  c.patch = io::side_of(shapes, "embeddings.patch_embedding.weight", 2, kWhat);
  // Wan's own file has the table of places with a batch of one before it.
  auto places = shapes.find("embeddings.position_embedding.weight");
  c.num_places =
      io::side_of(shapes, "embeddings.position_embedding.weight", places != shapes.end() && places->second.size() == 3 ? 1 : 0, kWhat);
  c.hidden = io::side_of(shapes, "encoder.layers.0.mlp.fc1.weight", 0, kWhat);
  c.num_layers = io::count_of(shapes, "encoder.layers.{}.layer_norm1.weight");
  c.num_heads = c.width % 80 == 0 ? c.width / 80 : 1;
  io::take(numbers, "num_attention_heads", c.num_heads, kWhat);
  io::take(numbers, "layer_norm_eps", c.eps, kWhat);
  std::string act = "gelu";
  io::take(numbers, "hidden_act", act, kWhat);
  if (act != "quick_gelu" && act != "gelu") data_error("models", "the CLIP image encoder uses '{}'; quick_gelu and gelu are known", act);
  c.quick_gelu = act == "quick_gelu";
  check_clip_vision(c, numbers);
  return c;
}

ClipVision::ClipVision(const ClipVisionConfig& c, const at::TensorOptions& options)
    : config_(c),
      class_embedding_(at::empty({c.width}, options)),
      patch_embedding_(3, c.width, c.patch, c.patch, 0, options, /*with_bias=*/false),
      position_embedding_(c.num_places, c.width, options),
      pre_norm_(c.width, c.eps, options),
      post_norm_(c.width, c.eps, options) {
  own(kMark, class_embedding_);
  own("embeddings.patch_embedding", patch_embedding_);
  own("embeddings.position_embedding", position_embedding_);
  own("pre_layrnorm", pre_norm_);
  const text::ClipLayer::Sizes sizes{c.width,         c.hidden, c.num_heads, c.eps, c.quick_gelu ? text::Gelu::quick : text::Gelu::exact,
                                     /*causal=*/false};
  for (int64_t i = 0; i < c.num_layers; ++i) {
    layers_.push_back(std::make_unique<text::ClipLayer>(sizes, options));
    own("encoder.layers." + std::to_string(i), *layers_.back());
  }
  own("post_layernorm", post_norm_);
}

std::vector<at::Tensor> ClipVision::states(const at::Tensor& image_B3HW, const std::vector<int64_t>& after) {
  const auto grid = patch_embedding_.forward(image_B3HW);
  auto whole = class_embedding_.expand({image_B3HW.size(0), 1, config_.width});
  auto x = pre_norm_.forward(at::cat({whole, grid.flatten(2).transpose(1, 2)}, 1) +
                             text::scaled_places(position_embedding_.weight, 1, grid.size(2), grid.size(3)));
  std::vector<at::Tensor> states;
  for (int64_t num_run = 0; states.size() < after.size(); ++num_run) {
    if (num_run == after[states.size()]) states.push_back(x);
    if (states.size() < after.size()) x = layers_.at(static_cast<size_t>(num_run))->run({x})[0];
  }
  return states;
}

at::Tensor seen_by_clip(const at::Tensor& image_B3HW, int64_t side) {
  auto scaled = at::upsample_bicubic2d(image_B3HW.to(at::kFloat), {side, side}, /*align_corners=*/false);
  auto numbers = [&](std::initializer_list<float> three) { return at::tensor(three).view({1, 3, 1, 1}).to(scaled.device()); };
  auto mean = numbers({0.48145466F, 0.4578275F, 0.40821073F}), deviation = numbers({0.26862954F, 0.26130258F, 0.27577711F});
  return (scaled * 0.5 + 0.5 - mean) / deviation;
}

Source find_clip_vision(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (auto tensors = find_below(entry, {kPrefix, "clip_vision." + kPrefix, ""}, kMark))
      return {&entry, tensors->without({"embeddings.position_ids"}), {}};
    if (auto tensors = find_below(entry, {kOriginalPrefix}, kOriginalMark))
      return {&entry, tensors->without({"head"}), original_clip_vision_keys()};
  }
  return {};
}

Recipe clip_vision_recipe(const std::string& name, const Source& source, const ClipVisionConfig& config) {
  return {.name = name, .what = kWhat, .source = source, .build = [config](const std::string&, const at::TensorOptions& options) {
            return std::make_unique<ClipVision>(config, options);
          }};
}

ComponentNames clip_vision_names(const std::string& name, const ClipVisionConfig& config) {
  auto names = plain_names(name);
  names.layers.weights = kPrefix;
  names.lora_targets = "q_proj,k_proj,v_proj,out_proj,fc1,fc2";
  names.high_precision = {"embeddings\\..*"};
  names.without_gradient = {"encoder.layers." + std::to_string(config.num_layers - 1), "post_layernorm"};
  names.folder_file = {kPrefix, {}};
  names.single_file = {"clip_vision." + kPrefix, {}};
  return names;
}

}  // namespace burnish::models
