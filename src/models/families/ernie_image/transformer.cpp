#include "models/families/ernie_image/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/families/ernie_image/blocks.h"

namespace burnish::models::ernie_image {

namespace {

constexpr double kTimeScale = 1000;

/// Sinusoids [B, width] of 1000 sigma, over frequencies that fall from 1 to 1/10000: sines, then cosines.
at::Tensor time_waves(const at::Tensor& sigma_B, int64_t width) {
  const auto half = width / 2;
  auto time_B = sigma_B.to(at::kFloat) * kTimeScale;
  auto frequencies = (at::arange(half, time_B.options()) * (-std::log(10000.0) / static_cast<double>(half))).exp();
  auto angles = time_B.unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, -1);
}

/// The places [B, L] of all tokens on each axis, fp32: text token i lies at (i, 0, 0), the picture's token (r, c) at one behind the text's
/// last, r and c.
std::vector<at::Tensor> places(const at::Tensor& mask_BT, int64_t rows, int64_t columns) {
  const auto B = mask_BT.size(0), T = mask_BT.size(1), I = rows * columns;
  auto opts = mask_BT.options().dtype(at::kFloat);
  auto of_all = [&](const at::Tensor& text, const at::Tensor& picture) {
    return at::cat({text.expand({B, T}), picture.expand({B, I})}, 1);
  };
  auto length_B1 = mask_BT.to(at::kFloat).sum(1, /*keepdim=*/true);
  auto row = at::arange(rows, opts).unsqueeze(1).expand({rows, columns}).reshape({-1});
  auto column = at::arange(columns, opts).unsqueeze(0).expand({rows, columns}).reshape({-1});
  auto nowhere = at::zeros({T}, opts);
  return {of_all(at::arange(T, opts), length_B1), of_all(nowhere, row), of_all(nowhere, column)};
}

/// Tables {cos, sin} as wide as a head, [L, P], of several samples [B, L, P]: every angle of the axes stands twice, side by side, and the
/// blocks take number j of a head and number j + P/2 for a pair all the same, so that the two turn by different angles. Angles are products
/// of fp32 numbers, as in the reference.
std::pair<at::Tensor, at::Tensor> tables(const std::vector<at::Tensor>& places_BL, const Config& c) {
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < c.axes_dims.size(); ++axis) {
    const auto dim = c.axes_dims[axis];
    auto exponents = at::arange(0, dim, 2, places_BL[axis].options()) / static_cast<double>(dim);
    angles.push_back(places_BL[axis].unsqueeze(-1) * at::pow(c.rope_theta, exponents).reciprocal());
  }
  auto twice = at::cat(angles, -1).repeat_interleave(2, -1);
  if (twice.size(0) == 1) twice = twice.squeeze(0);
  return {twice.cos(), twice.sin()};
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : embedder(c.width, c.width, o), blocks(c.width, 6 * c.width, o), last(c.width, 2 * c.width, o) {}
  mmdit::EmbedMlp embedder;
  nn::Linear blocks, last;
};

struct Transformer::Body {
  Body(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o) {
    if (p.begin == 0) {
      image_in = std::make_unique<nn::Conv2d>(c.in_channels, c.width, /*kernel=*/1, /*stride=*/1, /*padding=*/0, o);
      text_in = std::make_unique<nn::Linear>(c.caption_width, c.width, o, false);
    }
    blocks = mmdit::several<Block>(std::min(p.end, c.num_layers) - p.begin, c, o);
    if (p.end > c.num_layers) out = std::make_unique<nn::Linear>(c.width, c.in_channels, o);
  }
  std::unique_ptr<nn::Conv2d> image_in;
  std::unique_ptr<nn::Linear> text_in;
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<nn::Linear> out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c), part_(part) {
  if (part_.end < 0) part_.end = c.num_layers + 1;
  if (part_.modulation) {
    auto& m = *(modulation_ = std::make_unique<Modulation>(c, options));
    own("time_embedding", m.embedder);
    own("adaLN_modulation.1", m.blocks);
    own("final_norm.linear", m.last);
  }
  if (!part_.body) return;
  auto& b = *(body_ = std::make_unique<Body>(c, part_, options));
  if (b.image_in) own("x_embedder.proj", *b.image_in);
  if (b.text_in) own("text_proj", *b.text_in);
  auto number = part_.begin;
  for (auto& block : b.blocks) own("layers." + std::to_string(number++), *block);
  if (b.out) own("final_linear", *b.out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  const auto& m = *modulation_;
  auto conditioning_BD = m.embedder.forward(time_waves(sigma_B, config_.width).to(dtype));
  return at::cat({m.blocks.forward(at::silu(conditioning_BD)), m.last.forward(conditioning_BD)}, -1);
}

// The reference has the picture's tokens first. Attention does not see their order, and the last run of a sequence that is shared out is
// the picture.
at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto D = config_.width, rows = in.noisy_BCHW.size(2), columns = in.noisy_BCHW.size(3);
  const auto num_text = in.mask_BT.size(1), num_picture = rows * columns;
  const auto modulation = at::split_with_sizes(in.modulation_BM, {6 * D, 2 * D}, -1);
  const nn::Streams streams(shares(), {num_text, num_picture});
  auto [cos, sin] = tables(places(in.mask_BT, rows, columns), config_);
  nn::Tensors inputs{{}, streams.by_place(cos, -2), streams.by_place(sin, -2), modulation[0]};
  if (in.mask_BT.size(0) > 1) inputs.push_back(streams.bias_by_place(mmdit::padding_bias(in.mask_BT, num_picture)));
  at::Tensor text, picture;
  if (b.text_in) {
    text = b.text_in->forward(in.text_BTE);
    picture = b.image_in->forward(in.noisy_BCHW.to(in.text_BTE.scalar_type())).flatten(2).transpose(1, 2);
  } else {
    text = in.hidden_BLD.narrow(1, 0, num_text);
    picture = in.hidden_BLD.narrow(1, num_text, num_picture);
  }
  inputs[0] = b.text_in || !streams.are_whole() ? at::cat({streams.here(0, text), streams.here(1, picture)}, 1) : in.hidden_BLD;
  for (auto& block : b.blocks) inputs[0] = block->run(inputs)[0];
  if (!b.out) return inputs[0];
  const auto m = modulation[1].chunk(2, -1);  // scale, shift
  auto last = inputs[0].narrow(1, streams.length_here(0), streams.length_here(1));
  auto out = streams.joined(1, b.out->forward(kernels::modulated_norm(last, m[0], m[1], config_.norm_eps)));
  return out.transpose(1, 2).unflatten(2, {rows, columns});
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.starts_with("adaLN_modulation.") || path.starts_with("final_norm.") || path.starts_with("final_linear.");
  });
}

}  // namespace burnish::models::ernie_image
