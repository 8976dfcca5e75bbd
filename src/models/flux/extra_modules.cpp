#include "models/flux/extra_modules.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>

#include "io/model_values.h"
#include "models/mmdit.h"
#include "nn/attention.h"

namespace burnish::models::flux {

namespace {

constexpr double kIpNormEps = 1e-5;

std::string ip_layer(int64_t block, const char* name) { return "ip_adapter." + std::to_string(block) + "." + name; }

}  // namespace

IpAdapter::Config IpAdapter::detect(const io::Shapes& shapes, int64_t num_heads) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, "IP-Adapter"); };
  Config c{.num_features = side("image_proj.proj.0.weight", 1), .hidden = side("image_proj.proj.0.weight", 0)};
  c.token_width = side("image_proj.norm.weight", 0);
  c.num_tokens = side("image_proj.proj.2.weight", 0) / c.token_width;
  c.width = side(ip_layer(0, "to_k_ip.weight"), 0);
  c.num_heads = num_heads;
  c.num_blocks = 0;
  while (shapes.contains(ip_layer(c.num_blocks, "to_k_ip.weight"))) ++c.num_blocks;
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

}  // namespace burnish::models::flux
