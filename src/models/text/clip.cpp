#include "models/text/clip.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "base/input_error.h"
#include "models/text/clip_layer.h"
#include "models/text/shape_reading.h"

namespace burnish::models::text {

ClipConfig open_clip_big_g() {
  return {.width = 1280, .hidden = 5120, .num_layers = 32, .num_heads = 20, .quick_gelu = false, .projection_dim = 1280};
}

static void check_clip(const ClipConfig& c, const nlohmann::json& json) {
  agree(json, "vocab_size", c.vocab_size);
  agree(json, "hidden_size", c.width);
  agree(json, "intermediate_size", c.hidden);
  agree(json, "num_hidden_layers", c.num_layers);
  agree(json, "max_position_embeddings", c.max_positions);
  if (c.projection_dim > 0) agree(json, "projection_dim", c.projection_dim);  // others state it without having one
  if (c.num_heads < 1 || c.width % c.num_heads != 0)
    data_error("models", "the CLIP text encoder's width {} does not divide into {} heads", c.width, c.num_heads);
  if (c.eos_token_id < 0 || c.eos_token_id >= c.vocab_size)
    data_error("models", "the config.json of the CLIP text encoder has eos_token_id = {}, and its tokens are from 0 to {}", c.eos_token_id,
               c.vocab_size - 1);
  io::check_above_0(c.eps, "layer_norm_eps", "CLIP text encoder");
}

ClipConfig clip_config(const nlohmann::json& json, const io::Shapes& shapes, const ClipConfig& otherwise) {
  auto c = otherwise;
  c.vocab_size = dim_of(shapes, "embeddings.token_embedding.weight", 0);
  c.width = dim_of(shapes, "embeddings.token_embedding.weight", 1);
  c.max_positions = dim_of(shapes, "embeddings.position_embedding.weight", 0);
  c.num_layers = io::count_of(shapes, "encoder.layers.{}.");
  c.hidden = dim_of(shapes, "encoder.layers.0.mlp.fc1.weight", 0);
  c.num_heads = c.width % 64 == 0 ? c.width / 64 : 1;
  take(json, "num_attention_heads", c.num_heads);
  take(json, "layer_norm_eps", c.eps);
  take(json, "eos_token_id", c.eos_token_id);
  c.projection_dim = shapes.contains("text_projection.weight") ? dim_of(shapes, "text_projection.weight", 0) : 0;
  std::string act = otherwise.quick_gelu ? "quick_gelu" : "gelu";
  take(json, "hidden_act", act);
  if (act != "quick_gelu" && act != "gelu") data_error("models", "the CLIP text encoder uses '{}'; quick_gelu and gelu are known", act);
  c.quick_gelu = act == "quick_gelu";
  check_clip(c, json);
  return c;
}

io::TensorSource clip_tensors(const io::TensorSource& source, Projection projection) {
  const std::string prefix = source.contains("text_model.embeddings.token_embedding.weight") ? "text_model." : "";
  auto part = source.renamed([&](const std::string& name) {
    if (name.starts_with("text_projection")) return projection == Projection::keep ? name : std::string();
    return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string();
  });
  return part.without({"embeddings.position_ids", "logit_scale", "visual", "vision_model", "attn_mask"});
}

bool has_open_clip_names(const io::TensorSource& source) { return source.contains("transformer.resblocks.0.attn.in_proj_weight"); }

namespace {

// Facts: mlfoundations' open_clip/transformer.py.
std::vector<io::KeyRule> open_clip_rules() {
  using Op = io::KeyRule::Op;
  const std::string theirs = "transformer.resblocks.{}.", ours = "encoder.layers.{}.";
  std::vector<io::KeyRule> rules{
      {"token_embedding.weight", {"embeddings.token_embedding.weight"}},
      {"positional_embedding", {"embeddings.position_embedding.weight"}},
      {"text_projection", {"text_projection.weight"}, Op::transpose},
  };
  for (const std::string part : {"weight", "bias"}) {
    std::vector<std::string> qkv;
    for (const char* name : {"q_proj.", "k_proj.", "v_proj."}) qkv.push_back(ours + "self_attn." + name + part);
    rules.push_back({theirs + "attn.in_proj_" + part, qkv, Op::stack_rows});
    rules.push_back({theirs + "attn.out_proj." + part, {ours + "self_attn.out_proj." + part}});
    rules.push_back({theirs + "ln_1." + part, {ours + "layer_norm1." + part}});
    rules.push_back({theirs + "ln_2." + part, {ours + "layer_norm2." + part}});
    rules.push_back({theirs + "mlp.c_fc." + part, {ours + "mlp.fc1." + part}});
    rules.push_back({theirs + "mlp.c_proj." + part, {ours + "mlp.fc2." + part}});
    rules.push_back({"ln_final." + part, {"final_layer_norm." + part}});
  }
  return rules;
}

}  // namespace

io::KeyMap open_clip_keys() { return io::KeyMap(open_clip_rules()); }

io::KeyMap transformers_clip_keys() {
  std::vector<io::KeyRule> rules;
  for (const auto& rule : open_clip_rules()) {
    for (const auto& ours : rule.ours) rules.push_back({ours.starts_with("text_projection") ? ours : "text_model." + ours, {ours}});
  }
  return io::KeyMap(rules);
}

io::KeyMap clip_keys(const io::TensorSource& source) { return has_open_clip_names(source) ? open_clip_keys() : io::KeyMap(); }

ClipTextModel::ClipTextModel(const ClipConfig& c, const at::TensorOptions& options)
    : config_(c),
      token_embedding_(c.vocab_size, c.width, options),
      position_embedding_(c.max_positions, c.width, options),
      final_layer_norm_(c.width, c.eps, options) {
  own("embeddings.token_embedding", token_embedding_);
  own("embeddings.position_embedding", position_embedding_);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const ClipLayer::Sizes sizes{c.width, c.hidden, c.num_heads, c.eps, c.quick_gelu ? Gelu::quick : Gelu::exact, /*causal=*/true};
    layers_.push_back(std::make_unique<ClipLayer>(sizes, options));
    own("encoder.layers." + std::to_string(i), *layers_.back());
  }
  own("final_layer_norm", final_layer_norm_);
  if (c.projection_dim > 0) {
    text_projection_ = std::make_unique<nn::Linear>(c.width, c.projection_dim, options, /*with_bias=*/false);
    own("text_projection", *text_projection_);
  }
}

ClipTextModel::~ClipTextModel() = default;

ClipTextModel::Out ClipTextModel::forward(const at::Tensor& ids_BL) {
  auto length = ids_BL.size(1);
  auto x = token_embedding_.forward(ids_BL) + position_embedding_.weight.narrow(0, 0, length);
  std::vector<at::Tensor> states{x};
  for (auto& layer : layers_) states.push_back(x = layer->run({x})[0]);
  auto hidden = final_layer_norm_.forward(x);
  // Ids behind the vocabulary are those of words that were added to it.
  auto end_B = config_.eos_token_id == 2 ? ids_BL.masked_fill(ids_BL >= config_.vocab_size, 0).argmax(-1)
                                         : (ids_BL == config_.eos_token_id).to(at::kInt).argmax(-1);
  auto row_B = at::arange(ids_BL.size(0), ids_BL.options());
  auto pooled = hidden.index({row_B, end_B});
  return {hidden, pooled, text_projection_ ? text_projection_->forward(pooled) : at::Tensor(), states};
}

}  // namespace burnish::models::text
