#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "nn/block.h"
#include "nn/by_channel.h"
#include "nn/layers.h"
#include "nn/mlp.h"
#include "tagging/network.h"
#include "tagging/stages.h"

namespace burnish::tagging {

namespace {

constexpr const char* kConvNext = "ConvNeXt tagger";
constexpr double kConvEps = 1e-6;  // of its norms

/// Numbers of a stage.
struct ConvStage {
  int64_t width = 128, depth = 3, kernel = 7, hidden = 512;
  bool is_scaled = true;
};
struct ConvConfig {
  int64_t side = 448, patch = 4, num_tags = 0;
  std::vector<ConvStage> stages = {};
};

/// {[B, C, H, W]} -> the same: a convolution of each channel, then an MLP of each place behind a norm.
class ConvBlock : public nn::Block {
 public:
  ConvBlock(const ConvStage& s, const at::TensorOptions& options)
      : conv_(s.width, s.kernel, options), norm_(s.width, kConvEps, options), mlp_(s.width, s.hidden, options) {
    own("conv_dw", conv_);
    own("norm", norm_);
    own("mlp", mlp_);
    if (!s.is_scaled) return;
    gamma_ = at::empty({s.width}, options);
    own("gamma", gamma_);
  }
  nn::Tensors body(const nn::Tensors& in) override {
    auto x = mlp_.forward(norm_.forward(conv_.forward(in[0]).permute({0, 2, 3, 1})));
    if (gamma_.defined()) x = x * gamma_;
    return {in[0] + x.permute({0, 3, 1, 2})};
  }

 private:
  nn::ByChannel conv_;
  nn::LayerNorm norm_;
  nn::Mlp mlp_;
  at::Tensor gamma_;
};

/// Halves rows and columns behind a norm.
struct Halving : nn::Module {
  Halving(int64_t in, int64_t out, const at::TensorOptions& options) : norm(in, kConvEps, options), conv(in, out, 2, 2, 0, options) {
    own("0", norm);
    own("1", conv);
  }
  at::Tensor forward(const at::Tensor& x) const { return conv.forward(norm.forward(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2})); }
  nn::LayerNorm norm;
  nn::Conv2d conv;
};

class ConvNext : public Network {
 public:
  ConvNext(const ConvConfig& c, const at::TensorOptions& options)
      : stem_(3, c.stages[0].width, c.patch, c.patch, 0, options),
        stem_norm_(c.stages[0].width, kConvEps, options),
        norm_(c.stages.back().width, kConvEps, options),
        head_(c.stages.back().width, c.num_tags, options) {
    own("stem.0", stem_);
    own("stem.1", stem_norm_);
    for (size_t i = 0; i < c.stages.size(); ++i) {
      if (i > 0) stages_.add_reduction(std::make_unique<Halving>(c.stages[i - 1].width, c.stages[i].width, options));
      std::vector<std::unique_ptr<ConvBlock>> blocks;
      for (int64_t k = 0; k < c.stages[i].depth; ++k) blocks.push_back(std::make_unique<ConvBlock>(c.stages[i], options));
      stages_.add_blocks(std::move(blocks));
    }
    own("stages", stages_);
    own("head.norm", norm_);
    own("head.fc", head_);
  }
  at::Tensor logits(const at::Tensor& image_B3SS) override {
    auto x = stem_norm_.forward(stem_.forward(image_B3SS).permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
    x = stages_.forward(x);
    return head_.forward(norm_.forward(x.mean({2, 3})));
  }

 private:
  nn::Conv2d stem_;
  nn::LayerNorm stem_norm_, norm_;
  Stages<ConvBlock, Halving> stages_;
  nn::Linear head_;
};

ConvConfig conv_config(const nlohmann::json& json, const io::Shapes& shapes) {
  ConvConfig c;
  c.patch = io::side_of(shapes, "stem.0.weight", 2, kConvNext);
  c.num_tags = io::side_of(shapes, "head.fc.weight", 0, kConvNext);
  c.side = side_of_pictures(json, c.side, kConvNext);
  const auto num_stages = io::count_of(shapes, "stages.{}.blocks.0.norm.weight");
  for (int64_t i = 0; i < num_stages; ++i) {
    const auto name = "stages." + std::to_string(i) + ".blocks.";
    c.stages.push_back({.width = io::side_of(shapes, name + "0.norm.weight", 0, kConvNext),
                        .depth = io::count_of(shapes, name + "{}.norm.weight"),
                        .kernel = io::side_of(shapes, name + "0.conv_dw.weight", 2, kConvNext),
                        .hidden = io::side_of(shapes, name + "0.mlp.fc1.weight", 0, kConvNext),
                        .is_scaled = shapes.contains(name + "0.gamma")});
  }
  if (c.stages.empty() || c.side < c.patch << (num_stages - 1))
    data_error("tagging", "the {} halves {} times, and pictures of {} pixels in patches of {} cannot be halved as often", kConvNext,
               num_stages - 1, c.side, c.patch);
  return c;
}

}  // namespace

Plan conv_next_plan(const nlohmann::json& json, const io::Shapes& shapes) {
  const auto c = conv_config(json, shapes);
  return {c.side, c.num_tags, [c](const at::TensorOptions& options) { return std::make_unique<ConvNext>(c, options); }};
}

}  // namespace burnish::tagging
