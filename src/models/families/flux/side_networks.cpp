#include "models/families/flux/side_networks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <fmt/core.h>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/blocks/mmdit.h"
#include "nn/attention.h"

namespace burnish::models::flux {

namespace {

constexpr double kIpNormEps = 1e-5, kFaceNormEps = 1e-5;
constexpr int64_t kFaceHead = 64;

/// Tokens attend to what is known of a face and to each other, then an MLP. {tokens [B,T,D], face [B,1,D]} -> {tokens}.
class FaceBlock : public nn::Block {
 public:
  FaceBlock(const FaceProjector::Config& c, const at::TensorOptions& options)
      : face_norm_(c.dim, kFaceNormEps, options),
        token_norm_(c.dim, kFaceNormEps, options),
        q_(c.dim, c.inner, options, /*with_bias=*/false),
        kv_(c.dim, 2 * c.inner, options, /*with_bias=*/false),
        out_(c.inner, c.dim, options, /*with_bias=*/false),
        mlp_norm_(c.dim, kFaceNormEps, options),
        up_(c.dim, c.hidden, options, /*with_bias=*/false),
        down_(c.hidden, c.dim, options, /*with_bias=*/false),
        num_heads_(c.inner / kFaceHead) {
    own("0.norm1", face_norm_);
    own("0.norm2", token_norm_);
    own("0.to_q", q_);
    own("0.to_kv", kv_);
    own("0.to_out", out_);
    own("1.0", mlp_norm_);
    own("1.1", up_);
    own("1.3", down_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    auto tokens = token_norm_.forward(in[0]);
    auto kv = kv_.forward(at::cat({face_norm_.forward(in[1]), tokens}, 1)).chunk(2, -1);
    auto heads = [&](const at::Tensor& x) { return nn::split_heads(x, num_heads_); };
    auto attended = nn::attention(heads(q_.forward(tokens)), heads(kv[0]), heads(kv[1]));
    auto x = in[0] + out_.forward(nn::merge_heads(attended));
    return {x + down_.forward(at::gelu(up_.forward(mlp_norm_.forward(x))))};
  }

 private:
  nn::LayerNorm face_norm_, token_norm_;
  nn::Linear q_, kv_, out_;
  nn::LayerNorm mlp_norm_;
  nn::Linear up_, down_;
  int64_t num_heads_;
};

std::string ip_layer(int64_t block, const char* name) { return "ip_adapter." + std::to_string(block) + "." + name; }

}  // namespace

IpAdapter::Config IpAdapter::detect(const io::Shapes& shapes, int64_t num_heads) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, "IP-Adapter"); };
  Config c{.num_features = side("image_proj.proj.0.weight", 1), .hidden = side("image_proj.proj.0.weight", 0)};
  c.token_width = side("image_proj.norm.weight", 0);
  c.num_tokens = side("image_proj.proj.2.weight", 0) / c.token_width;
  c.width = side(ip_layer(0, "to_k_ip.weight"), 0);
  c.num_heads = num_heads;
  c.num_blocks = io::count_of(shapes, "ip_adapter.{}.to_k_ip.weight");
  return c;
}

IpAdapter::IpAdapter(const Config& c, const at::TensorOptions& options)
    : config_(c),
      up_(c.num_features, c.hidden, options),
      down_(c.hidden, c.token_width * c.num_tokens, options),
      norm_(c.token_width, 1e-5, options) {
  own("image_proj.proj.0", up_);
  own("image_proj.proj.2", down_);
  own("image_proj.norm", norm_);
  for (int64_t i = 0; i < c.num_blocks; ++i) {
    keys_.push_back(std::make_unique<nn::Linear>(c.token_width, c.width, options, /*with_bias=*/false));
    values_.push_back(std::make_unique<nn::Linear>(c.token_width, c.width, options, /*with_bias=*/false));
    own(ip_layer(i, "to_k_ip"), *keys_.back());
    own(ip_layer(i, "to_v_ip"), *values_.back());
  }
}

at::Tensor IpAdapter::tokens(const at::Tensor& features_BNF) const {
  auto tokens = down_.forward(at::gelu(up_.forward(features_BNF)));
  return norm_.forward(tokens.reshape({tokens.size(0), -1, config_.token_width}));
}

nn::Tensors IpAdapter::keys_and_values(int64_t block, const at::Tensor& tokens_BTC) const {
  auto index = static_cast<size_t>(block);
  auto keys = nn::split_heads(keys_.at(index)->forward(tokens_BTC), config_.num_heads);
  auto wide = keys.to(at::kFloat);
  auto normed = (wide * at::rsqrt((wide * wide).mean(-1, /*keepdim=*/true) + kIpNormEps)).to(keys.scalar_type());
  return {normed, nn::split_heads(values_.at(index)->forward(tokens_BTC), config_.num_heads)};
}

ValueEncoder::Config ValueEncoder::detect(const io::Shapes& shapes) {
  return {.width = io::side_of(shapes, "positional_embedding", 1, "value controller"),
          .num_tokens = io::side_of(shapes, "positional_embedding", 0, "value controller")};
}

ValueEncoder::ValueEncoder(const Config& c, const at::TensorOptions& options)
    : in_(mmdit::kTimeChannels, c.width, options),
      out_(c.width, c.width, options),
      positions_TE_(at::empty({c.num_tokens, c.width}, options)) {
  own("prefer_value_embedder.0", in_);
  own("prefer_value_embedder.2", out_);
  own("positional_embedding", positions_TE_);
}

at::Tensor ValueEncoder::forward(const at::Tensor& value_B) const {
  auto waves = mmdit::time_projection(value_B, positions_TE_.scalar_type());
  return out_.forward(at::silu(in_.forward(waves))).unsqueeze(1) + positions_TE_;
}

Redux::Config Redux::detect(const io::Shapes& shapes) {
  auto side = [&](const char* name, size_t dim) { return io::side_of(shapes, name, dim, "Redux image embedder"); };
  return {.num_features = side("redux_up.weight", 1), .hidden = side("redux_up.weight", 0), .width = side("redux_down.weight", 0)};
}

Redux::Redux(const Config& c, const at::TensorOptions& options)
    : up_(c.num_features, c.hidden, options), down_(c.hidden, c.width, options) {
  own("redux_up", up_);
  own("redux_down", down_);
}

at::Tensor Redux::forward(const at::Tensor& tokens_BLF) const { return down_.forward(at::silu(up_.forward(tokens_BLF))); }

FaceProjector::Config FaceProjector::detect(const io::Shapes& shapes) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, "image_proj." + name, dim, "image projector"); };
  Config c{.num_features = side("proj_in.weight", 1),
           .dim = side("proj_in.weight", 0),
           .hidden = side("layers.0.1.1.weight", 0),
           .inner = side("layers.0.0.to_q.weight", 0),
           .num_blocks = io::count_of(shapes, "image_proj.layers.{}.0.to_q.weight"),
           .num_tokens = side("latents", 1),
           .width = side("norm_out.weight", 0)};
  if (c.inner % kFaceHead != 0)
    data_error("models", "the image projector's attention is {} wide, and heads of {} were expected: its file is damaged", c.inner,
               kFaceHead);
  return c;
}

FaceProjector::FaceProjector(const Config& c, const at::TensorOptions& options)
    : config_(c),
      latents_1TD_(at::empty({1, c.num_tokens, c.dim}, options)),
      in_(c.num_features, c.dim, options),
      out_(c.dim, c.width, options),
      norm_(c.width, kFaceNormEps, options) {
  own("image_proj.latents", latents_1TD_);
  own("image_proj.proj_in", in_);
  for (int64_t i = 0; i < c.num_blocks; ++i) {
    blocks_.push_back(std::make_unique<FaceBlock>(c, options));
    own(fmt::format("image_proj.layers.{}", i), *blocks_.back());
  }
  own("image_proj.proj_out", out_);
  own("image_proj.norm_out", norm_);
}

FaceProjector::~FaceProjector() = default;

at::Tensor FaceProjector::forward(const at::Tensor& face_BF) const {
  auto face = in_.forward(face_BF.unsqueeze(1));
  auto tokens = latents_1TD_.expand({face.size(0), -1, -1});
  for (const auto& block : blocks_) tokens = block->run({tokens, face})[0];
  return norm_.forward(out_.forward(tokens));
}

}  // namespace burnish::models::flux
