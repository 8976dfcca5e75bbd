#include "tagging/vision_transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/text/scaled_places.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace burnish::tagging {

namespace {

constexpr const char* kViT = "ViT tagger";
constexpr int64_t kHeadWidth = 64;  // of published ones

/// A gain for each channel of what a block adds.
struct Scale : nn::Module {
  Scale(int64_t width, const at::TensorOptions& options) : gamma(at::empty({width}, options)) { own("gamma", gamma); }
  at::Tensor gamma;
};

struct VitAttention : nn::Module {
  VitAttention(const PatchConfig& c, const at::TensorOptions& options)
      : num_heads(c.num_heads),
        q(c.width, c.width, options),
        k(c.width, c.width, options),
        v(c.width, c.width, options),
        proj(c.width, c.width, options) {
    own("q", q);
    own("k", k);
    own("v", v);
    own("proj", proj);
  }
  at::Tensor forward(const at::Tensor& x) const {
    auto heads = nn::forward_all({&q, &k, &v}, x);
    for (auto& one : heads) one = nn::split_heads(one, num_heads);
    return proj.forward(nn::merge_heads(nn::attention(heads[0], heads[1], heads[2])));
  }
  int64_t num_heads;
  nn::Linear q, k, v, proj;
};

/// Self-attention and MLP, each behind a layer norm, with a gain of what they add where the model has one.
class VitBlock : public nn::Block {
 public:
  VitBlock(const PatchConfig& c, int64_t hidden, bool is_scaled, const at::TensorOptions& options)
      : norm1_(c.width, c.eps, options), norm2_(c.width, c.eps, options), attention_(c, options), mlp_(c.width, hidden, options) {
    own("norm1", norm1_);
    own("norm2", norm2_);
    own("attn", attention_);
    own("mlp", mlp_);
    if (!is_scaled) return;
    own("ls1", *(scale1_ = std::make_unique<Scale>(c.width, options)));
    own("ls2", *(scale2_ = std::make_unique<Scale>(c.width, options)));
  }
  nn::Tensors body(const nn::Tensors& in) override {
    auto scaled = [](const at::Tensor& x, const auto& scale) { return scale ? x * scale->gamma : x; };
    const auto mid = in[0] + scaled(attention_.forward(norm1_.forward(in[0])), scale1_);
    return {mid + scaled(mlp_.forward(norm2_.forward(mid)), scale2_)};
  }

 private:
  nn::LayerNorm norm1_, norm2_;
  VitAttention attention_;
  nn::Mlp mlp_;
  std::unique_ptr<Scale> scale1_, scale2_;
};

}  // namespace

int64_t PatchConfig::grid() const { return std::llround(std::sqrt(static_cast<double>(num_places - (has_class ? 1 : 0)))); }

PatchConfig patch_config(const nlohmann::json& json, const io::Shapes& shapes, const char* what) {
  PatchConfig c;
  const auto arguments = arguments_of(json);
  c.width = io::side_of(shapes, "patch_embed.proj.weight", 0, what);
  c.patch = io::side_of(shapes, "patch_embed.proj.weight", 2, what);
  c.num_places = io::side_of(shapes, "pos_embed", 1, what);
  c.num_layers = io::count_of(shapes, "blocks.{}.norm1.weight");
  c.num_tags = shapes.contains("head.weight") ? io::side_of(shapes, "head.weight", 0, what) : 0;
  c.has_class = shapes.contains("cls_token");
  c.norm_after_pooling = shapes.contains("fc_norm.weight");
  c.num_heads = c.width % kHeadWidth == 0 ? c.width / kHeadWidth : 1;
  io::take(arguments, "num_heads", c.num_heads, what);
  std::string pool = c.has_class && !c.norm_after_pooling ? "token" : "avg";
  io::take(json, "global_pool", pool, what);
  io::take(arguments, "global_pool", pool, what);
  if (pool != "avg" && pool != "token") data_error("tagging", "the {} pools its tokens by '{}'; avg and token are known", what, pool);
  c.pools_class = pool == "token";
  if (c.num_heads < 1 || c.width % c.num_heads != 0)
    data_error("tagging", "the {}'s width {} does not divide into {} heads", what, c.width, c.num_heads);
  const auto num_patches = c.num_places - (c.has_class ? 1 : 0);
  if (c.num_layers < 1 || num_patches < 1 || c.grid() * c.grid() != num_patches || (c.pools_class && !c.has_class))
    data_error("tagging", "the {} has {} layers and places for {} patches{}; at least 1 layer and patches of a square were expected{}",
               what, c.num_layers, num_patches, c.has_class ? " and a class" : "",
               c.pools_class ? ", and a class token, which it reads" : "");
  const auto side = side_of_pictures(json, c.grid() * c.patch, what);
  if (side / c.patch != c.grid())
    data_error("tagging", "the {} has places for {} by {} patches of {} pixels, and its config.json says pictures of {} pixels", what,
               c.grid(), c.grid(), c.patch, side);
  return c;
}

VisionTransformer::VisionTransformer(const PatchConfig& c, const at::TensorOptions& options, const MakeBlock& make_block,
                                     nn::Tensors shared)
    : config_(c),
      patch_embedding_(3, c.width, c.patch, c.patch, 0, options),
      places_1LC_(at::empty({1, c.num_places, c.width}, options)),
      shared_(std::move(shared)),
      norm_(c.width, c.eps, options) {
  own("patch_embed.proj", patch_embedding_);
  own("pos_embed", places_1LC_);
  if (c.has_class) {
    class_token_11C_ = at::empty({1, 1, c.width}, options);
    own("cls_token", class_token_11C_);
  }
  for (int64_t i = 0; i < c.num_layers; ++i) own("blocks." + std::to_string(i), *blocks_.emplace_back(make_block(options)));
  own(c.norm_after_pooling ? "fc_norm" : "norm", norm_);
  if (c.num_tags == 0) return;
  head_ = std::make_unique<nn::Linear>(c.width, c.num_tags, options);
  own("head", *head_);
}

at::Tensor VisionTransformer::pooled(const at::Tensor& image_B3SS) {
  const auto patches = patch_embedding_.forward(image_B3SS);
  auto x = patches.flatten(2).transpose(1, 2);
  if (config_.has_class) x = at::cat({class_token_11C_.expand({x.size(0), 1, config_.width}), x}, 1);
  x = x + models::text::scaled_places(places_1LC_[0], config_.has_class ? 1 : 0, patches.size(2), patches.size(3));
  nn::Tensors inputs{x};
  for (const auto& one : shared_) inputs.push_back(one.to(x.device()));
  for (auto& block : blocks_) inputs[0] = block->run(inputs)[0];
  x = config_.norm_after_pooling ? inputs[0] : norm_.forward(inputs[0]);
  const auto first = config_.has_class ? 1 : 0;
  x = config_.pools_class ? x.select(1, 0) : x.narrow(1, first, x.size(1) - first).mean(1);
  return config_.norm_after_pooling ? norm_.forward(x) : x;
}

at::Tensor VisionTransformer::logits(const at::Tensor& image_B3SS) { return head_->forward(pooled(image_B3SS)); }

io::KeyMap vision_transformer_keys() {
  std::vector<io::KeyRule> rules;
  for (const std::string part : {"weight", "bias"}) {
    std::vector<std::string> qkv;
    for (const char* name : {"q.", "k.", "v."}) qkv.push_back("blocks.{}.attn." + std::string(name) + part);
    rules.push_back({"blocks.{}.attn.qkv." + part, qkv, io::KeyRule::Op::stack_rows});
  }
  return io::KeyMap(rules);
}

Plan vision_transformer_plan(const nlohmann::json& json, const io::Shapes& shapes) {
  const auto c = patch_config(json, shapes, kViT);
  const auto hidden = io::side_of(shapes, "blocks.0.mlp.fc1.weight", 0, kViT);
  const bool is_scaled = shapes.contains("blocks.0.ls1.gamma");
  return {c.grid() * c.patch, c.num_tags, [c, hidden, is_scaled](const at::TensorOptions& options) {
            return std::make_unique<VisionTransformer>(c, options,
                                                       [&](const auto& o) { return std::make_unique<VitBlock>(c, hidden, is_scaled, o); });
          }};
}

}  // namespace burnish::tagging
