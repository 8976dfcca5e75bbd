#include "models/families/flux/connector.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "io/model_values.h"
#include "models/blocks/mmdit.h"
#include "nn/attention.h"

namespace burnish::models::flux {

namespace {

constexpr double kRefinerNormEps = 1e-6;
constexpr int64_t kRefinerHead = 128;
/// This model's times, which go to 1, over those of mmdit::time_projection, which go to 1000.
constexpr double kTimeScale = 1e-3;

std::string refiner_path(int64_t block) { return fmt::format("S.individual_token_refiner.blocks.{}", block); }

/// Self-attention and MLP, gated by the time and the whole text. {tokens [B,T,E], condition [B,E], bias [B,1,T,T]} -> {tokens}.
class RefinerBlock : public nn::Block {
 public:
  RefinerBlock(const Connector::Config& c, const at::TensorOptions& options)
      : norm1_(c.width, kRefinerNormEps, options),
        norm2_(c.width, kRefinerNormEps, options),
        qkv_(c.width, 3 * c.width, options),
        out_(c.width, c.width, options),
        up_(c.width, c.hidden, options),
        down_(c.hidden, c.width, options),
        gates_(c.width, 2 * c.width, options),
        num_heads_(c.num_heads) {
    own("norm1", norm1_);
    own("self_attn_qkv", qkv_);
    own("self_attn_proj", out_);
    own("norm2", norm2_);
    own("mlp.fc1", up_);
    own("mlp.fc2", down_);
    own("adaLN_modulation.1", gates_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    auto gates = gates_.forward(at::silu(in[1])).unsqueeze(1).chunk(2, -1);
    auto qkv = qkv_.forward(norm1_.forward(in[0])).chunk(3, -1);
    auto heads = [&](const at::Tensor& x) { return nn::split_heads(x, num_heads_); };
    auto attended = nn::attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), in[2]);
    auto x = in[0] + out_.forward(nn::merge_heads(attended)) * gates[0];
    return {x + down_.forward(at::silu(up_.forward(norm2_.forward(x)))) * gates[1]};
  }

 private:
  nn::LayerNorm norm1_, norm2_;
  nn::Linear qkv_, out_, up_, down_, gates_;
  int64_t num_heads_;
};

/// Tokens of the text see each other; the others see the first token alone, so that each sees something.
at::Tensor refiner_bias(const at::Tensor& mask_BT) {
  auto is_text = mask_BT > 0;
  auto sees = is_text.unsqueeze(1) & is_text.unsqueeze(2);
  sees.select(2, 0).fill_(true);
  auto zeros = at::zeros({}, mask_BT.options());
  return at::where(sees, zeros, at::full({}, -std::numeric_limits<double>::infinity(), mask_BT.options())).unsqueeze(1);
}

}  // namespace

Connector::Config Connector::detect(const io::Shapes& shapes) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, "Step1X-Edit connector"); };
  Config c{.num_features = side("S.input_embedder.weight", 1),
           .width = side("S.input_embedder.weight", 0),
           .hidden = side(refiner_path(0) + ".mlp.fc1.weight", 0),
           .num_blocks = io::count_of(shapes, "S.individual_token_refiner.blocks.{}.norm1.weight"),
           .pooled_width = side("global_proj_out.weight", 0)};
  c.num_heads = std::max<int64_t>(1, c.width / kRefinerHead);
  return c;
}

Connector::Connector(const Config& c, const at::TensorOptions& options)
    : config_(c),
      in_(c.num_features, c.width, options),
      time_in_(mmdit::kTimeChannels, c.width, options),
      time_out_(c.width, c.width, options),
      text_in_(c.num_features, c.width, options),
      text_out_(c.width, c.width, options),
      pooled_(c.num_features, c.pooled_width, options),
      scale_(at::empty({1}, options)) {
  own("S.input_embedder", in_);
  own("S.t_embedder.mlp.0", time_in_);
  own("S.t_embedder.mlp.2", time_out_);
  own("S.c_embedder.linear_1", text_in_);
  own("S.c_embedder.linear_2", text_out_);
  for (int64_t i = 0; i < c.num_blocks; ++i) {
    blocks_.push_back(std::make_unique<RefinerBlock>(c, options));
    own(refiner_path(i), *blocks_.back());
  }
  own("global_proj_out", pooled_);
  own("scale_factor", scale_);
}

Connector::~Connector() = default;

Connector::Text Connector::forward(const at::Tensor& states_BTF, const at::Tensor& mask_BT, const at::Tensor& sigma_B) const {
  auto mask_BT1 = mask_BT.unsqueeze(2);
  auto mean_BF = (states_BTF * mask_BT1).sum(1) / mask_BT1.sum(1);
  auto time = time_out_.forward(at::silu(time_in_.forward(mmdit::time_projection(sigma_B * kTimeScale, states_BTF.scalar_type()))));
  auto condition = time + text_out_.forward(at::silu(text_in_.forward(mean_BF)));
  auto text = in_.forward(states_BTF);
  auto bias = refiner_bias(mask_BT);
  for (const auto& block : blocks_) text = block->run({text, condition, bias})[0];
  return {text, pooled_.forward(mean_BF * (1 + scale_))};
}

}  // namespace burnish::models::flux
