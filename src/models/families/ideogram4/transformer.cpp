#include "models/families/ideogram4/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/blocks/mmdit.h"
#include "models/blocks/sandwich_block.h"
#include "nn/layers.h"

namespace burnish::models::ideogram4 {

namespace {

constexpr double kTimeScale = 1e4, kHeadNormEps = 1e-5, kTextNormEps = 1e-6, kLastNormEps = 1e-6;
/// The place of a picture's first token on all axes, which no text reaches.
constexpr double kPicturePlace = 65536;
/// Rows of the table that is added to tokens.
constexpr int64_t kOfText = 0, kOfPicture = 1;

/// Sinusoids [B, width] of 10000 t, where t is the share of picture, over frequencies that fall from 1 to 1/10000, both of them reached:
/// sines, then cosines.
at::Tensor time_waves(const at::Tensor& sigma_B, int64_t width) {
  const auto half = width / 2;
  auto time_B = (1.0 - sigma_B.to(at::kFloat)) * kTimeScale;
  auto frequencies = (at::arange(half, time_B.options()) * (-std::log(10000.0) / static_cast<double>(half - 1))).exp();
  auto angles = time_B.unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, -1);
}

/// Places [L, 3] of all tokens in time, row and column, fp32: text token i lies at (i, i, i), the picture's token (r, c) at 65536 from the
/// origin on all axes, and r and c further on two of them.
at::Tensor places(int64_t num_text, int64_t rows, int64_t columns, const at::TensorOptions& options) {
  auto opts = options.dtype(at::kFloat);
  auto text = at::arange(num_text, opts).unsqueeze(-1).expand({num_text, 3});
  auto row = at::arange(rows, opts).unsqueeze(1).expand({rows, columns}).reshape({-1});
  auto column = at::arange(columns, opts).unsqueeze(0).expand({rows, columns}).reshape({-1});
  return at::cat({text, at::stack({at::zeros_like(row), row, column}, -1) + kPicturePlace}, 0);
}

/// Tables {cos, sin} [L, P] as wide as a head, whose halves are equal. Angles are products of fp32 numbers whatever the model's dtype:
/// near 65536 these lie 0.008 apart, and the weights were made with angles that are rounded so.
std::pair<at::Tensor, at::Tensor> tables(const at::Tensor& places_L3, const Config& c) {
  const auto num_pairs = c.head_dim / 2;
  std::vector<int64_t> axes(static_cast<size_t>(num_pairs), 0);
  for (int64_t i = 0; i < num_pairs; ++i) {
    const auto axis = i % 3;
    if (i < 3 * c.sections[static_cast<size_t>(axis)]) axes[static_cast<size_t>(i)] = axis;
  }
  auto exponents = at::arange(0, c.head_dim, 2, places_L3.options()) / static_cast<double>(c.head_dim);
  auto frequencies = at::pow(c.rope_theta, exponents).reciprocal();
  auto axis_of = at::tensor(axes, at::TensorOptions().dtype(at::kLong)).to(places_L3.device());
  auto angles = places_L3.index_select(1, axis_of) * frequencies;
  auto twice = at::cat({angles, angles}, -1);
  return {twice.cos(), twice.sin()};
}

SandwichBlock::Sizes block_of(const Config& c) {
  return {.attention = {c.width, c.num_heads(), kHeadNormEps, SelfAttention::Turn::halves},
          .hidden = c.hidden,
          .norm_eps = c.norm_eps,
          .condition_width = c.condition_width,
          .modulation = "adaln_modulation"};
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : time_in(c.width, c.width, o), time_out(c.width, c.width, o), proj(c.width, c.condition_width, o) {}
  nn::Linear time_in, time_out, proj;
};

struct Transformer::Text {
  Text(const Config& c, const at::TensorOptions& o) : norm(c.caption_width, kTextNormEps, o), proj(c.caption_width, c.width, o) {}
  nn::RMSNorm norm;
  nn::Linear proj;
};

struct Transformer::Body {
  Body(const Config& c, const at::TensorOptions& o)
      : image_in(c.in_channels, c.width, o),
        indicator(2, c.width, o),
        blocks(mmdit::several<SandwichBlock>(c.num_layers, block_of(c), o)),
        last_scale(c.condition_width, c.width, o),
        out(c.width, c.in_channels, o) {}
  nn::Linear image_in;
  nn::Embedding indicator;
  std::vector<std::unique_ptr<SandwichBlock>> blocks;
  nn::Linear last_scale, out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) {
    auto& m = *(modulation_ = std::make_unique<Modulation>(c, options));
    own("t_embedding.mlp_in", m.time_in);
    own("t_embedding.mlp_out", m.time_out);
    own("adaln_proj", m.proj);
  }
  if (part.text) {
    text_ = std::make_unique<Text>(c, options);
    own("llm_cond_norm", text_->norm);
    own("llm_cond_proj", text_->proj);
  }
  if (!part.body) return;
  auto& b = *(body_ = std::make_unique<Body>(c, options));
  own("input_proj", b.image_in);
  own("embed_image_indicator", b.indicator);
  for (size_t i = 0; i < b.blocks.size(); ++i) own("layers." + std::to_string(i), *b.blocks[i]);
  own("final_layer.adaln_modulation", b.last_scale);
  own("final_layer.linear", b.out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  const auto& m = *modulation_;
  auto time = m.time_out.forward(at::silu(m.time_in.forward(time_waves(sigma_B, config_.width).to(dtype))));
  return at::silu(m.proj.forward(time));
}

at::Tensor Transformer::embed(const at::Tensor& states_BTE) const { return text_->proj.forward(text_->norm.forward(states_BTE)); }

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto rows = in.noisy_BCHW.size(2), columns = in.noisy_BCHW.size(3), num_picture = rows * columns;
  const auto num_text = in.text_BTD.defined() ? in.text_BTD.size(1) : 0;
  auto picture = b.image_in.forward(in.noisy_BCHW.to(in.condition_BM.scalar_type()).flatten(2).transpose(1, 2));
  std::vector<at::Tensor> runs{picture + b.indicator.weight[kOfPicture]};
  std::vector<int64_t> lengths{num_picture};
  if (num_text > 0) {
    runs.insert(runs.begin(), in.text_BTD + b.indicator.weight[kOfText]);
    lengths.insert(lengths.begin(), num_text);
  }
  const nn::Streams streams(shares(), lengths);
  auto [cos, sin] = tables(places(num_text, rows, columns, in.condition_BM.options()), config_);
  for (size_t i = 0; i < runs.size(); ++i) runs[i] = streams.here(i, runs[i]);
  nn::Tensors inputs{runs.size() == 1 ? runs[0] : at::cat(runs, 1), streams.by_place(cos, 0), streams.by_place(sin, 0), in.condition_BM};
  // One sample alone has nothing that is masked.
  if (num_text > 0 && in.mask_BT.size(0) > 1) inputs.push_back(streams.bias_by_place(mmdit::padding_bias(in.mask_BT, num_picture)));
  for (auto& block : b.blocks) inputs[0] = block->run(inputs)[0];
  const auto num_here = streams.length_here(runs.size() - 1);
  auto last = inputs[0].narrow(1, inputs[0].size(1) - num_here, num_here);
  auto scale = b.last_scale.forward(at::silu(in.condition_BM));  // of what is behind a SiLU already
  auto out = b.out.forward(kernels::modulated_norm(last, scale, at::zeros_like(scale), kLastNormEps));
  return -streams.joined(runs.size() - 1, out).transpose(1, 2).unflatten(2, {rows, columns});
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(
      *this, seed, [](const std::string& path) { return path.find("adaln_modulation.") != path.npos || path.starts_with("final_layer."); });
}

}  // namespace burnish::models::ideogram4
