#include "models/flux/transformer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/flux/blocks.h"

namespace burnish::models::flux {

namespace {

constexpr int64_t kTimeChannels = 256;
constexpr double kRopeTheta = 10000.0;

/// Sinusoids of 1000·t: [cos | sin] over 128 frequencies falling from 1 to 1/10000 (diffusers: Timesteps, flip_sin_to_cos).
at::Tensor time_projection(const at::Tensor& t_B, at::ScalarType dtype) {
  auto half = kTimeChannels / 2;
  auto freqs = (at::arange(half, t_B.options().dtype(at::kFloat)) * (-std::log(10000.0) / static_cast<double>(half))).exp();
  auto angles = (t_B.to(at::kFloat) * 1000.0).unsqueeze(1) * freqs.unsqueeze(0);
  return at::cat({angles.cos(), angles.sin()}, -1).to(dtype);
}

}  // namespace

EmbedMlp::EmbedMlp(int64_t in, int64_t out, const at::TensorOptions& options) : linear_1_(in, out, options), linear_2_(out, out, options) {
  own("linear_1", linear_1_);
  own("linear_2", linear_2_);
}

at::Tensor EmbedMlp::forward(const at::Tensor& x) const { return linear_2_.forward(at::silu(linear_1_.forward(x))); }

Transformer::Transformer(const Config& c, const at::TensorOptions& options)
    : config_(c),
      x_embedder_(c.in_channels, c.width(), options),
      context_embedder_(c.joint_attention_dim, c.width(), options),
      timestep_embedder_(kTimeChannels, c.width(), options),
      text_embedder_(c.pooled_projection_dim, c.width(), options),
      norm_out_linear_(c.width(), 2 * c.width(), options),
      proj_out_(c.width(), c.out_channels, options) {
  own("x_embedder", x_embedder_);
  own("context_embedder", context_embedder_);
  own("time_text_embed.timestep_embedder", timestep_embedder_);
  own("time_text_embed.text_embedder", text_embedder_);
  if (c.guidance_embeds) {
    guidance_embedder_ = std::make_unique<EmbedMlp>(kTimeChannels, c.width(), options);
    own("time_text_embed.guidance_embedder", *guidance_embedder_);
  }
  for (int64_t i = 0; i < c.num_double_blocks; ++i) {
    double_blocks_.push_back(std::make_unique<DoubleBlock>(c, options));
    own("transformer_blocks." + std::to_string(i), *double_blocks_.back());
  }
  for (int64_t i = 0; i < c.num_single_blocks; ++i) {
    single_blocks_.push_back(std::make_unique<SingleBlock>(c, options));
    own("single_transformer_blocks." + std::to_string(i), *single_blocks_.back());
  }
  own("norm_out.linear", norm_out_linear_);
  own("proj_out", proj_out_);
}

Transformer::~Transformer() = default;

std::vector<nn::Block*> Transformer::blocks() {
  std::vector<nn::Block*> all;
  for (auto& block : double_blocks_) all.push_back(block.get());
  for (auto& block : single_blocks_) all.push_back(block.get());
  return all;
}

at::Tensor Transformer::conditioning(const Inputs& in) const {
  auto dtype = in.pooled_BE.scalar_type();
  auto cond = timestep_embedder_.forward(time_projection(in.sigma_B, dtype));
  if (guidance_embedder_) cond = cond + guidance_embedder_->forward(time_projection(in.guidance_B, dtype));
  return cond + text_embedder_.forward(in.pooled_BE);
}

/// Rotary tables [T + I, P]: text tokens sit at position (0, 0, 0), image token (r, c) at (0, r, c).
std::pair<at::Tensor, at::Tensor> Transformer::rope(const Inputs& in) const {
  auto opts = in.latents_BIC.options().dtype(at::kDouble);
  auto num_text = in.text_BTE.size(1), num_image = in.rows * in.columns;
  auto row = at::arange(in.rows, opts).unsqueeze(1).expand({in.rows, in.columns}).reshape({-1});
  auto column = at::arange(in.columns, opts).unsqueeze(0).expand({in.rows, in.columns}).reshape({-1});
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < config_.axes_dims_rope.size(); ++axis) {
    auto dim = config_.axes_dims_rope[axis];
    auto freqs = (at::arange(0, dim, 2, opts) * (-std::log(kRopeTheta) / static_cast<double>(dim))).exp();
    auto position = axis == 0 ? at::zeros({num_image}, opts) : axis == 1 ? row : column;
    auto all = at::cat({at::zeros({num_text}, opts), position});
    angles.push_back(all.unsqueeze(1) * freqs.unsqueeze(0));
  }
  auto table = at::cat(angles, 1);
  return {table.cos().to(at::kFloat), table.sin().to(at::kFloat)};
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto image = x_embedder_.forward(in.latents_BIC);
  auto text = context_embedder_.forward(in.text_BTE);
  auto cond = at::silu(conditioning(in));
  auto [cos, sin] = rope(in);
  for (auto& block : double_blocks_) {
    auto out = block->run({image, text, cond, cos, sin});
    image = out[0];
    text = out[1];
  }
  auto tokens = at::cat({text, image}, 1);
  for (auto& block : single_blocks_) tokens = block->run({tokens, cond, cos, sin})[0];
  image = tokens.narrow(1, text.size(1), image.size(1));
  auto m = norm_out_linear_.forward(cond).chunk(2, -1);  // scale, shift
  return proj_out_.forward(kernels::modulated_norm(image, m[0], m[1], 1e-6));
}

void Transformer::initialise(uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  visit_parameters([&](const std::string& path, at::Tensor& p) {
    bool zero = path.ends_with(".bias") || path.starts_with("proj_out.") || path.find("norm1.linear") != path.npos ||
                path.find("norm1_context.linear") != path.npos || path.find(".norm.linear") != path.npos || path.starts_with("norm_out.");
    auto fresh = at::empty(p.sizes(), at::TensorOptions().dtype(at::kFloat));
    if (p.dim() < 2) {
      fresh.fill_(zero ? 0.0 : 1.0);
    } else if (zero) {
      fresh.zero_();
    } else {
      auto bound = std::sqrt(6.0 / static_cast<double>(p.size(0) + p.size(1)));
      fresh.uniform_(-bound, bound, generator);
    }
    p = fresh.to(p.scalar_type());
  });
}

at::Tensor pack_latents(const at::Tensor& x) {
  auto B = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
  return x.view({B, C, H / 2, 2, W / 2, 2}).permute({0, 2, 4, 1, 3, 5}).reshape({B, H / 2 * (W / 2), C * 4});
}

at::Tensor unpack_latents(const at::Tensor& x, int64_t rows, int64_t columns) {
  auto B = x.size(0), C = x.size(2) / 4;
  return x.view({B, rows, columns, C, 2, 2}).permute({0, 3, 1, 4, 2, 5}).reshape({B, C, rows * 2, columns * 2});
}

}  // namespace burnish::models::flux
