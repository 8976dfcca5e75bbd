#include "models/families/zimage/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/blocks/mmdit.h"
#include "models/blocks/patch_tokens.h"
#include "models/blocks/sandwich_block.h"

namespace burnish::models::zimage {

namespace {

constexpr int64_t kTimeFrequencies = 128, kTokenMultiple = 32;
constexpr double kLastNormEps = 1e-6, kHeadNormEps = 1e-5;

int64_t filled_up(int64_t num_tokens) { return (num_tokens + kTokenMultiple - 1) / kTokenMultiple * kTokenMultiple; }

std::vector<std::unique_ptr<nn::Block>> make_stack(int64_t count, const Config& c, bool modulated, const at::TensorOptions& options) {
  const SandwichBlock::Sizes sizes{.attention = {c.width, c.num_heads(), kHeadNormEps},
                                   .hidden = c.hidden,
                                   .norm_eps = c.norm_eps,
                                   .condition_width = modulated ? c.condition_width() : 0,
                                   .modulation = "adaLN_modulation.0"};
  std::vector<std::unique_ptr<nn::Block>> blocks;
  for (int64_t i = 0; i < count; ++i) blocks.push_back(std::make_unique<SandwichBlock>(sizes, options));
  return blocks;
}

}  // namespace

/// The layers before the main ones.
struct Transformer::Start {
  Start(const Config& c, const at::TensorOptions& o)
      : x_embedder(4 * c.latent_channels, c.width, o),
        time_in(2 * kTimeFrequencies, c.time_hidden, o),
        time_out(c.time_hidden, c.condition_width(), o),
        caption_norm(c.caption_width, c.norm_eps, o),
        caption_in(c.caption_width, c.width, o),
        x_pad(at::empty({1, c.width}, o)),
        caption_pad(at::empty({1, c.width}, o)),
        noise_refiner(make_stack(c.num_refiner_layers, c, true, o)),
        context_refiner(make_stack(c.num_refiner_layers, c, false, o)) {}

  nn::Linear x_embedder, time_in, time_out;
  nn::RMSNorm caption_norm;
  nn::Linear caption_in;
  at::Tensor x_pad, caption_pad;
  std::vector<std::unique_ptr<nn::Block>> noise_refiner, context_refiner;
};

struct Transformer::End {
  End(const Config& c, const at::TensorOptions& o)
      : modulation(c.condition_width(), c.width, o), linear(c.width, 4 * c.latent_channels, o) {}
  nn::Linear modulation, linear;
};

/// Says where the tokens of a batch lie. Captions are filled up to the length that the longest of them needs; what lies beyond a caption's
/// own is masked.
struct Transformer::Layout {
  int64_t rows, columns, num_picture;  ///< tokens of the picture, and with those that fill them up
  int64_t num_caption;
  at::Tensor is_fill_BT1;  ///< of the caption's tokens
  at::Tensor cos, sin;     ///< [L, P], of several samples [B, L, P]
  at::Tensor bias_B11L;    ///< undefined of one sample, of which nothing is masked

  /// Runs blocks over tokens from `begin` on, which `streams` share out: each place has a part of them.
  at::Tensor run(const std::vector<std::unique_ptr<nn::Block>>& blocks, at::Tensor x, int64_t begin, int64_t count,
                 const nn::Streams& streams, const at::Tensor& conditioning_BC) const {
    auto of_these = [&](const at::Tensor& of_all, int64_t dim) { return streams.by_place(of_all.narrow(dim, begin, count), dim); };
    nn::Tensors inputs{x, of_these(cos, -2), of_these(sin, -2)};
    if (conditioning_BC.defined()) inputs.push_back(conditioning_BC);
    bool with_caption = begin + count > num_picture;
    if (bias_B11L.defined() && with_caption) inputs.push_back(of_these(bias_B11L, -1));
    for (const auto& block : blocks) inputs[0] = block->run(inputs)[0];
    return inputs[0];
  }
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, HeldLayers part) : config_(c), part_(part) {
  bool holds_end = part_.end < 0 || part_.end > c.num_layers;
  auto end = holds_end ? c.num_layers : part_.end;
  auto own_stack = [this](const std::string& name, int64_t first, auto& blocks) {
    for (auto& block : blocks) own(name + "." + std::to_string(first++), *block);
  };
  if (part_.start) {
    start_ = std::make_unique<Start>(c, options);
    own("all_x_embedder.2-1", start_->x_embedder);
    own("x_pad_token", start_->x_pad);
    own("t_embedder.mlp.0", start_->time_in);
    own("t_embedder.mlp.2", start_->time_out);
    own("cap_embedder.0", start_->caption_norm);
    own("cap_embedder.1", start_->caption_in);
    own("cap_pad_token", start_->caption_pad);
    own_stack("noise_refiner", 0, start_->noise_refiner);
    own_stack("context_refiner", 0, start_->context_refiner);
  }
  layers_ = make_stack(end - part_.begin, c, true, options);
  own_stack("layers", part_.begin, layers_);
  if (!holds_end) return;
  end_ = std::make_unique<End>(c, options);
  own("all_final_layer.2-1.adaLN_modulation.1", end_->modulation);
  own("all_final_layer.2-1.linear", end_->linear);
}

Transformer::~Transformer() = default;

/// Positions are (caption, row, column): caption token i at (1 + i, 0, 0), tokens that fill up the caption with it; the picture's at one
/// behind the filled caption, and its rows and columns; those that fill up the picture at 0. Angles are rounded to fp32, as in the
/// reference.
Transformer::Layout Transformer::layout(const Inputs& in) const {
  Layout layout{};
  layout.rows = in.noisy_BCHW.size(2) / 2;
  layout.columns = in.noisy_BCHW.size(3) / 2;
  const auto num_real = layout.rows * layout.columns, B = in.mask_BT.size(0);
  layout.num_picture = filled_up(num_real);
  layout.num_caption = filled_up(in.mask_BT.size(1));

  auto length_B1 = in.mask_BT.to(at::kLong).sum(1, /*keepdim=*/true);
  auto filled_B1 = (length_B1 + (kTokenMultiple - 1)).div(kTokenMultiple, "floor") * kTokenMultiple;
  auto caption_T = at::arange(layout.num_caption, length_B1.options());
  layout.is_fill_BT1 = (caption_T >= length_B1).unsqueeze(-1);

  auto opts = length_B1.options().dtype(at::kDouble);
  auto over_picture = [&](const at::Tensor& value) { return value.expand({B, num_real}); };
  auto row = at::arange(layout.rows, opts).unsqueeze(1).expand({layout.rows, layout.columns}).reshape({-1});
  auto column = at::arange(layout.columns, opts).unsqueeze(0).expand({layout.rows, layout.columns}).reshape({-1});
  auto picture = at::stack({over_picture((filled_B1 + 1).to(at::kDouble)), over_picture(row), over_picture(column)}, -1);
  auto caption = (caption_T + 1).to(at::kDouble).unsqueeze(-1).expand({B, layout.num_caption, 1});
  auto position_BL3 =
      at::cat({at::constant_pad_nd(picture, {0, 0, 0, layout.num_picture - num_real}), at::constant_pad_nd(caption, {0, 2})}, 1);
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < config_.axes_dims.size(); ++axis) {
    auto dim = config_.axes_dims[axis];
    auto frequencies = (at::arange(0, dim, 2, opts) * (-std::log(config_.rope_theta) / static_cast<double>(dim))).exp();
    angles.push_back(position_BL3.select(-1, static_cast<int64_t>(axis)).unsqueeze(-1) * frequencies);
  }
  auto angles_BLP = at::cat(angles, -1).to(at::kFloat);
  if (B == 1) angles_BLP = angles_BLP.squeeze(0);
  layout.cos = angles_BLP.cos();
  layout.sin = angles_BLP.sin();
  if (B > 1) {
    auto beyond_BL = at::constant_pad_nd(caption_T >= filled_B1, {layout.num_picture, 0});
    auto masked = at::full({}, -std::numeric_limits<double>::infinity(), opts.dtype(at::kFloat));
    layout.bias_B11L = at::where(beyond_BL, masked, at::zeros_like(masked)).unsqueeze(1).unsqueeze(1);
  }
  return layout;
}

/// Sinusoids of the share of picture, 1 - sigma, over frequencies that fall from 1 to 1/10000: cosines, then sines; linear, SiLU, linear.
at::Tensor Transformer::condition(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  auto time_B = (1.0 - sigma_B.to(at::kFloat)) * config_.time_scale;
  auto frequencies = (at::arange(kTimeFrequencies, time_B.options()) * (-std::log(10000.0) / static_cast<double>(kTimeFrequencies))).exp();
  auto angles = time_B.unsqueeze(1) * frequencies.unsqueeze(0);
  auto waves = at::cat({angles.cos(), angles.sin()}, -1).to(dtype);
  return start_->time_out.forward(at::silu(start_->time_in.forward(waves)));
}

/// Computes what refiners make of one of the streams, which begins with the token of that number.
at::Tensor Transformer::refined(const std::vector<std::unique_ptr<nn::Block>>& blocks, const at::Tensor& x_BLD, int64_t begin,
                                const Layout& layout, const at::Tensor& conditioning_BC) const {
  const nn::Streams streams(shares(), {x_BLD.size(1)});
  return streams.joined(0, layout.run(blocks, streams.here(0, x_BLD), begin, x_BLD.size(1), streams, conditioning_BC));
}

/// Embeds, fills up and refines both streams: picture, then caption.
at::Tensor Transformer::start_tokens(const Inputs& in, const Layout& layout, const at::Tensor& conditioning_BC) {
  auto& s = *start_;
  auto B = in.noisy_BCHW.size(0), num_real = layout.rows * layout.columns;
  auto picture = s.x_embedder.forward(channels_last_tokens(in.noisy_BCHW).to(in.text_BTE.scalar_type()));
  picture = at::cat({picture, s.x_pad.expand({B, layout.num_picture - num_real, config_.width})}, 1);
  picture = refined(s.noise_refiner, picture, 0, layout, conditioning_BC);

  auto caption = s.caption_in.forward(s.caption_norm.forward(in.text_BTE));
  caption = at::constant_pad_nd(caption, {0, 0, 0, layout.num_caption - caption.size(1)});
  caption = at::where(layout.is_fill_BT1, s.caption_pad, caption);
  caption = refined(s.context_refiner, caption, layout.num_picture, layout, {});
  return at::cat({picture, caption}, 1);
}

at::Tensor Transformer::velocity(const at::Tensor& tokens_BLD, const at::Tensor& conditioning_BC, const Layout& layout,
                                 const nn::Streams& streams) const {
  const auto num_real = layout.rows * layout.columns;
  auto picture = tokens_BLD.narrow(1, 0, streams.are_whole() ? num_real : streams.length_here(0));
  auto scale_BD = end_->modulation.forward(at::silu(conditioning_BC));
  auto normed = kernels::modulated_norm(picture, scale_BD, at::zeros_like(scale_BD), kLastNormEps);
  return -of_channels_last_tokens(streams.joined(0, end_->linear.forward(normed)).narrow(1, 0, num_real), layout.rows, layout.columns);
}

Transformer::Out Transformer::forward(const Inputs& in) {
  auto where = layout(in);
  auto conditioning_BC = start_ ? condition(in.sigma_B, in.text_BTE.scalar_type()) : in.conditioning_BC;
  auto tokens = start_ ? start_tokens(in, where, conditioning_BC) : in.hidden_BLD;
  const auto num_tokens = tokens.size(1);
  const nn::Streams streams(shares(), {where.num_picture, where.num_caption});
  if (!streams.are_whole()) {
    auto of_run = [&](size_t run, int64_t begin, int64_t count) { return streams.here(run, tokens.narrow(1, begin, count)); };
    tokens = at::cat({of_run(0, 0, where.num_picture), of_run(1, where.num_picture, where.num_caption)}, 1);
  }
  tokens = where.run(layers_, tokens, 0, num_tokens, streams, conditioning_BC);
  if (!end_) return {{}, tokens, conditioning_BC};
  return {velocity(tokens, conditioning_BC, where, streams), {}, {}};
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("adaLN_modulation") != path.npos || path.starts_with("all_final_layer.");
  });
}

}  // namespace burnish::models::zimage
