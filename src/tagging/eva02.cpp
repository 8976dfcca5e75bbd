#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "nn/attention.h"
#include "tagging/vision_transformer.h"

namespace burnish::tagging {

namespace {

constexpr const char* kEva02 = "EVA-02 tagger";
constexpr int64_t kTrainedSide = 224;  // pixels of the pictures that timm's architectures of rotated places were trained on
constexpr double kTheta = 10000;

/// Turns pairs of neighbours of all tokens but the first `num_before` -> the shape of x [B, heads, L, D]; cos and sin are [L', D / 2].
at::Tensor turned(const at::Tensor& x, int64_t num_before, const at::Tensor& cos, const at::Tensor& sin) {
  const auto before = x.narrow(2, 0, num_before);
  const auto pairs = x.narrow(2, num_before, x.size(2) - num_before).to(at::kFloat).unflatten(-1, {-1, 2});
  const auto first = pairs.select(-1, 0), second = pairs.select(-1, 1);
  const auto after = at::stack({first * cos - second * sin, second * cos + first * sin}, -1).flatten(-2).to(x.scalar_type());
  return at::cat({before, after}, 2);
}

struct EvaAttention : nn::Module {
  EvaAttention(const PatchConfig& c, const at::TensorOptions& options)
      : num_heads(c.num_heads),
        num_before(c.has_class ? 1 : 0),
        q(c.width, c.width, options),
        k(c.width, c.width, options, /*with_bias=*/false),
        v(c.width, c.width, options),
        proj(c.width, c.width, options) {
    own("q_proj", q);
    own("k_proj", k);
    own("v_proj", v);
    own("proj", proj);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) const {
    auto heads = [&](const nn::Linear& layer) { return nn::split_heads(layer.forward(x), num_heads); };
    const auto asked = turned(heads(q), num_before, cos, sin), keys = turned(heads(k), num_before, cos, sin);
    return proj.forward(nn::merge_heads(nn::attention(asked, keys, heads(v))));
  }
  int64_t num_heads, num_before;
  nn::Linear q, k, v, proj;
};

/// An MLP whose hidden values one layer gates and a norm brings to size.
struct GatedMlp : nn::Module {
  GatedMlp(const PatchConfig& c, int64_t hidden, const at::TensorOptions& options)
      : gate(c.width, hidden, options), up(c.width, hidden, options), down(hidden, c.width, options), norm(hidden, c.eps, options) {
    own("fc1_g", gate);
    own("fc1_x", up);
    own("fc2", down);
    own("norm", norm);
  }
  at::Tensor forward(const at::Tensor& x) const { return down.forward(norm.forward(at::silu(gate.forward(x)) * up.forward(x))); }
  nn::Linear gate, up, down;
  nn::LayerNorm norm;
};

/// Self-attention with rotated places and a gated MLP, each behind a layer norm: {tokens, cos, sin} -> {tokens}.
class EvaBlock : public nn::Block {
 public:
  EvaBlock(const PatchConfig& c, int64_t hidden, const at::TensorOptions& options)
      : norm1_(c.width, c.eps, options), norm2_(c.width, c.eps, options), attention_(c, options), mlp_(c, hidden, options) {
    own("norm1", norm1_);
    own("norm2", norm2_);
    own("attn", attention_);
    own("mlp", mlp_);
  }
  nn::Tensors body(const nn::Tensors& in) override {
    const auto mid = in[0] + attention_.forward(norm1_.forward(in[0]), in[1], in[2]);
    return {mid + mlp_.forward(norm2_.forward(mid))};
  }

 private:
  nn::LayerNorm norm1_, norm2_;
  EvaAttention attention_;
  GatedMlp mlp_;
};

/// Computes {cos, sin [L, D / 2]}: half of the pairs of a head turn with the row of a patch, the others with its column. Places of a
/// picture of `grid` patches a side are those of one of `trained`, further apart or nearer.
nn::Tensors turns_of(int64_t grid, double trained, int64_t head_width) {
  const auto num_bands = head_width / 4;
  const auto bands = at::pow(kTheta, at::arange(num_bands, at::kDouble) / -static_cast<double>(num_bands));
  const auto along = at::outer(at::arange(grid, at::kDouble) * (trained / static_cast<double>(grid)), bands);
  const auto rows = along.unsqueeze(1).expand({grid, grid, num_bands}), columns = along.unsqueeze(0).expand({grid, grid, num_bands});
  const auto angles = at::cat({rows, columns}, -1).flatten(0, 1);
  return {angles.cos().to(at::kFloat), angles.sin().to(at::kFloat)};
}

/// Patches along a side of the pictures whose places the rotation has.
double trained_grid(const nlohmann::json& json, const PatchConfig& c) {
  const auto arguments = arguments_of(json);
  auto reference = nlohmann::json(kTrainedSide / c.patch);
  if (arguments.is_object() && arguments.contains("ref_feat_shape") && !arguments["ref_feat_shape"].is_null())
    reference = arguments["ref_feat_shape"];
  if (reference.is_array() && reference.size() == 2 && reference[0] == reference[1]) reference = nlohmann::json(reference[0]);
  if (!reference.is_number_integer() || reference.get<int64_t>() < 1)
    data_error("tagging", "the config.json of the {} has ref_feat_shape = {}, and two equal numbers above 0 were expected", kEva02,
               reference.dump());
  return static_cast<double>(reference.get<int64_t>());
}

}  // namespace

Plan eva02_plan(const nlohmann::json& json, const io::Shapes& shapes) {
  const auto c = patch_config(json, shapes, kEva02);
  if (c.width / c.num_heads % 4 != 0)
    data_error("tagging", "the {} has heads {} wide, and a multiple of 4 was expected: pairs turn with rows and with columns", kEva02,
               c.width / c.num_heads);
  const auto hidden = io::side_of(shapes, "blocks.0.mlp.fc1_g.weight", 0, kEva02);
  const auto trained = trained_grid(json, c);
  return {c.grid() * c.patch, c.num_tags, [c, hidden, trained](const at::TensorOptions& options) {
            return std::make_unique<VisionTransformer>(
                c, options, [&](const auto& o) { return std::make_unique<EvaBlock>(c, hidden, o); },
                turns_of(c.grid(), trained, c.width / c.num_heads));
          }};
}

}  // namespace burnish::tagging
