#include "models/qwen_image/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/mmdit.h"

namespace burnish::models::qwen_image {

namespace {

constexpr double kRopeTheta = 10000.0, kNormEps = 1e-6;
constexpr mmdit::DoubleBlock::Names kBlockNames{.image_mlp = "img_mlp", .text_mlp = "txt_mlp"};

at::Tensor to_tokens(const at::Tensor& x) { return as_patches(x).permute({0, 2, 4, 1, 3, 5}).flatten(3).flatten(1, 2); }

at::Tensor from_tokens(const at::Tensor& x_BIC, int64_t rows, int64_t columns) {
  auto x = x_BIC.view({x_BIC.size(0), rows, columns, -1, 2, 2}).permute({0, 3, 1, 4, 2, 5});
  return x.reshape({x.size(0), x.size(1), rows * 2, columns * 2});
}

/// Zero on what attention reads, the picture too, and minus infinity behind a caption.
at::Tensor bias_of(const at::Tensor& mask_BT, int64_t num_image) {
  auto reads_BL = at::constant_pad_nd(mask_BT, {0, num_image}, 1) > 0;
  auto masked = at::full({}, -std::numeric_limits<double>::infinity(), mask_BT.options().dtype(at::kFloat));
  return at::where(reads_BL, at::zeros_like(masked), masked).unsqueeze(1).unsqueeze(1);
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : embedder(mmdit::kTimeChannels, c.width(), o), last(c.width(), 2 * c.width(), o) {
    for (int64_t i = 0; i < 2 * c.num_layers; ++i) of_blocks.push_back(std::make_unique<nn::Linear>(c.width(), 6 * c.width(), o));
  }
  mmdit::EmbedMlp embedder;
  std::vector<std::unique_ptr<nn::Linear>> of_blocks;  ///< of the picture and of the caption, in turn
  nn::Linear last;
};

struct Transformer::Body {
  Body(const Config& c, const at::TensorOptions& o)
      : image_in(c.in_channels, c.width(), o),
        text_norm(c.caption_width, kNormEps, o),
        text_in(c.caption_width, c.width(), o),
        out(c.width(), c.in_channels, o) {
    const mmdit::Widths widths{.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = c.hidden};
    for (int64_t i = 0; i < c.num_layers; ++i) blocks.push_back(std::make_unique<mmdit::DoubleBlock>(widths, o, kBlockNames));
  }
  nn::Linear image_in;
  nn::RMSNorm text_norm;
  nn::Linear text_in;
  std::vector<std::unique_ptr<mmdit::DoubleBlock>> blocks;
  nn::Linear out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, Part part) : config_(c) {
  if (part.modulation) modulation_ = std::make_unique<Modulation>(c, options);
  if (part.body) body_ = std::make_unique<Body>(c, options);
  if (body_) {
    own("img_in", body_->image_in);
    own("txt_norm", body_->text_norm);
    own("txt_in", body_->text_in);
  }
  if (modulation_) own("time_text_embed.timestep_embedder", modulation_->embedder);
  for (size_t i = 0; i < static_cast<size_t>(c.num_layers); ++i) {
    auto name = "transformer_blocks." + std::to_string(i);
    if (modulation_) own(name + ".img_mod.1", *modulation_->of_blocks[2 * i]);
    if (modulation_) own(name + ".txt_mod.1", *modulation_->of_blocks[2 * i + 1]);
    if (body_) own(name, *body_->blocks[i]);
  }
  if (modulation_) own("norm_out.linear", modulation_->last);
  if (body_) own("proj_out", body_->out);
}

Transformer::~Transformer() = default;

std::vector<nn::Block*> Transformer::blocks() {
  std::vector<nn::Block*> all;
  if (!body_) return all;
  for (auto& block : body_->blocks) all.push_back(block.get());
  return all;
}

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  const auto& m = *modulation_;
  auto conditioning_BD = at::silu(m.embedder.forward(mmdit::time_projection(sigma_B, dtype)));
  std::vector<at::Tensor> parts;
  for (const auto& linear : m.of_blocks) parts.push_back(linear->forward(conditioning_BD));
  parts.push_back(m.last.forward(conditioning_BD));
  return at::cat(parts, -1);
}

/// Rotary tables [T + I, P]. The picture's tokens sit at 0 and at their rows and columns counted from its middle; the caption's on the
/// diagonal behind it (diffusers: QwenEmbedRope with scale_rope).
std::pair<at::Tensor, at::Tensor> Transformer::rope(int64_t num_text, int64_t rows, int64_t columns,
                                                    const at::TensorOptions& options) const {
  auto opts = options.dtype(at::kDouble);
  auto from_middle = [&](int64_t count) { return at::arange(count / 2 - count, count / 2, opts); };
  auto row = from_middle(rows).unsqueeze(1).expand({rows, columns}).reshape({-1});
  auto column = from_middle(columns).unsqueeze(0).expand({rows, columns}).reshape({-1});
  auto first = std::max(rows / 2, columns / 2);
  auto text = at::arange(first, first + num_text, opts);
  const at::Tensor image[] = {at::zeros_like(row), row, column};
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < config_.axes_dims.size(); ++axis) {
    auto dim = config_.axes_dims[axis];
    auto frequencies = (at::arange(0, dim, 2, opts) * (-std::log(kRopeTheta) / static_cast<double>(dim))).exp();
    angles.push_back(at::cat({text, image[axis]}).unsqueeze(1) * frequencies.unsqueeze(0));
  }
  auto table = at::cat(angles, 1);
  return {table.cos().to(at::kFloat), table.sin().to(at::kFloat)};
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  // One split for all blocks: its gradient is put together once.
  std::vector<int64_t> sizes(b.blocks.size(), 12 * config_.width());
  sizes.push_back(2 * config_.width());
  auto modulation = at::split_with_sizes(in.modulation_BM, sizes, -1);
  auto next = modulation.begin();

  const auto rows = in.noisy_BCHW.size(2) / 2, columns = in.noisy_BCHW.size(3) / 2, num_text = in.text_BTE.size(1);
  auto image = b.image_in.forward(to_tokens(in.noisy_BCHW).to(in.text_BTE.scalar_type()));
  auto text = b.text_in.forward(b.text_norm.forward(in.text_BTE));
  auto [cos, sin] = rope(num_text, rows, columns, in.modulation_BM.options());
  // Of one sample nothing is masked.
  auto bias = in.mask_BT.size(0) > 1 ? bias_of(in.mask_BT, rows * columns) : at::Tensor();
  for (auto& block : b.blocks) {
    nn::Tensors inputs{image, text, *next++, cos, sin};
    if (bias.defined()) inputs.push_back(bias);
    auto out = block->run(inputs);
    image = out[0];
    text = out[1];
  }
  auto m = next->chunk(2, -1);  // scale, shift
  return from_tokens(b.out.forward(kernels::modulated_norm(image, m[0], m[1], kNormEps)), rows, columns);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("_mod.1.") != path.npos || path.starts_with("norm_out.") || path.starts_with("proj_out.");
  });
}

at::Tensor as_patches(const at::Tensor& x) { return x.view({x.size(0), x.size(1), x.size(2) / 2, 2, x.size(3) / 2, 2}); }

}  // namespace burnish::models::qwen_image
