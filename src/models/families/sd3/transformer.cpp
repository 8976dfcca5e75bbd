#include "models/families/sd3/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/input_error.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "models/families/sd3/blocks.h"
#include "nn/parts.h"

namespace burnish::models::sd3 {

namespace {

constexpr double kNormEps = 1e-6;
constexpr int64_t kPatch = 2;

using Linears = std::vector<std::unique_ptr<nn::Linear>>;

/// Makes layers from the vector that conditions the blocks to so many vectors of modulation.
template <class Count>
Linears modulating(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o, const Count& count) {
  Linears all;
  for (auto i = p.begin; i < std::min(p.end, c.num_layers); ++i)
    all.push_back(std::make_unique<nn::Linear>(c.width(), count(i) * c.width(), o));
  return all;
}

/// Tokens [B, I, 4 C] back into latents: the channels of a place in the patch stand side by side, unlike in what comes in.
at::Tensor from_tokens(const at::Tensor& tokens_BIC, int64_t rows, int64_t columns) {
  auto x = tokens_BIC.view({tokens_BIC.size(0), rows, columns, kPatch, kPatch, -1}).permute({0, 5, 1, 3, 2, 4});
  return x.reshape({x.size(0), x.size(1), rows * kPatch, columns * kPatch});
}

/// The bias of an attention in which nothing sees text [1, 1, 1, T + I].
at::Tensor without_text(int64_t num_text, int64_t num_image, const at::TensorOptions& options) {
  auto hidden = at::zeros({1, 1, 1, num_text + num_image}, options);
  hidden.narrow(3, 0, num_text).fill_(-std::numeric_limits<double>::infinity());
  return hidden;
}

/// Sinusoids of places along a side of a table [N, width], which is 64 places wide whatever it has (diffusers: PatchEmbed).
at::Tensor waves_of_places(int64_t num_places, int64_t width, const at::TensorOptions& options) {
  constexpr double kSide = 64;
  auto places = at::arange(num_places, options) * (kSide / static_cast<double>(num_places));
  auto frequencies = (at::arange(width / 2, options) * (-std::log(10000.0) / static_cast<double>(width / 2))).exp();
  auto angles = places.unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, 1);
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o)
      : of_images(modulating(c, p, o, [&](int64_t i) { return c.image_modulations(i); })),
        of_texts(modulating(c, p, o, [&](int64_t i) { return c.text_modulations(i); })) {
    if (p.begin == 0) time = std::make_unique<mmdit::EmbedMlp>(mmdit::kTimeChannels, c.width(), o);
    if (p.begin == 0) pooled = std::make_unique<mmdit::EmbedMlp>(c.pooled_width, c.width(), o);
    if (p.end > c.num_layers) last = std::make_unique<nn::Linear>(c.width(), 2 * c.width(), o);
  }
  std::unique_ptr<mmdit::EmbedMlp> time, pooled;
  Linears of_images, of_texts;
  std::unique_ptr<nn::Linear> last;
};

struct Transformer::Body {
  /// Makes tokens of latents and of a text.
  struct Start {
    Start(const Config& c, const at::TensorOptions& o)
        : image_in(c.in_channels, c.width(), kPatch, kPatch, 0, o),
          places(at::empty({1, c.most_places * c.most_places, c.width()}, o)),
          text_in(c.caption_width, c.width(), o) {}
    nn::Conv2d image_in;
    at::Tensor places;  ///< [1, N N, D], row by row; no program trains it
    nn::Linear text_in;
  };
  Body(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o) {
    if (p.begin == 0) start = std::make_unique<Start>(c, o);
    const mmdit::Widths widths{.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = 4 * c.width()};
    for (auto i = p.begin; i < std::min(p.end, c.num_layers); ++i)
      blocks.push_back(std::make_unique<JointBlock>(widths, JointBlock::Kind{c.is_dual(i), i == c.num_layers - 1}, o));
    if (p.end > c.num_layers) out = std::make_unique<nn::Linear>(c.width(), kPatch * kPatch * c.in_channels, o);
  }
  std::unique_ptr<Start> start;
  std::vector<std::unique_ptr<JointBlock>> blocks;
  std::unique_ptr<nn::Linear> out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c), part_(part) {
  if (part_.end < 0) part_.end = c.num_layers + 1;
  if (part_.modulation) modulation_ = std::make_unique<Modulation>(c, part_, options);
  if (part_.body) body_ = std::make_unique<Body>(c, part_, options);
  if (body_ && body_->start) {
    own("pos_embed.proj", body_->start->image_in);
    own("pos_embed.pos_embed", body_->start->places);
    own("context_embedder", body_->start->text_in);
  }
  if (modulation_ && modulation_->time) {
    own("time_text_embed.timestep_embedder", *modulation_->time);
    own("time_text_embed.text_embedder", *modulation_->pooled);
  }
  for (auto i = part_.begin; i < std::min(part_.end, c.num_layers); ++i) {
    const auto block = "transformer_blocks." + std::to_string(i);
    const auto held = static_cast<size_t>(i - part_.begin);
    if (modulation_) own(block + ".norm1.linear", *modulation_->of_images[held]);
    if (modulation_) own(block + ".norm1_context.linear", *modulation_->of_texts[held]);
    if (body_) own(block, *body_->blocks[held]);
  }
  if (modulation_ && modulation_->last) own("norm_out.linear", *modulation_->last);
  if (body_ && body_->out) own("proj_out", *body_->out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::condition(const at::Tensor& sigma_B, const at::Tensor& pooled_BP) const {
  const auto& m = *modulation_;
  return at::silu(m.time->forward(mmdit::time_projection(sigma_B, pooled_BP.scalar_type())) + m.pooled->forward(pooled_BP));
}

at::Tensor Transformer::modulate(const at::Tensor& conditioning_BD) const {
  const auto& m = *modulation_;
  std::vector<std::function<at::Tensor()>> parts;
  for (size_t i = 0; i < m.of_images.size(); ++i)
    parts.emplace_back([&, i] { return at::cat({m.of_images[i]->forward(conditioning_BD), m.of_texts[i]->forward(conditioning_BD)}, -1); });
  if (m.last) parts.emplace_back([&] { return m.last->forward(conditioning_BD); });
  return nn::joined(parts);
}

/// The tokens of a picture, with the places in the middle of the table.
at::Tensor Transformer::embedded(const at::Tensor& noisy_BCHW, at::ScalarType dtype) const {
  const auto& start = *body_->start;
  const auto rows = noisy_BCHW.size(2) / kPatch, columns = noisy_BCHW.size(3) / kPatch, most = config_.most_places;
  if (std::max(rows, columns) > most)
    data_error("models", "a picture has {} by {} tokens, and the transformer's table has places for {} along a side; take smaller pictures",
               columns, rows, most);
  auto places = start.places.detach().view({most, most, -1}).narrow(0, (most - rows) / 2, rows).narrow(1, (most - columns) / 2, columns);
  const auto tokens = start.image_in.forward(noisy_BCHW.to(dtype)).flatten(2).transpose(1, 2).contiguous();
  return tokens + places.reshape({1, rows * columns, -1}).to(dtype);
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto width = config_.width(), rows = in.noisy_BCHW.size(2) / kPatch, columns = in.noisy_BCHW.size(3) / kPatch;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < b.blocks.size(); ++i) {
    const auto number = part_.begin + static_cast<int64_t>(i);
    sizes.push_back((config_.image_modulations(number) + config_.text_modulations(number)) * width);
  }
  if (b.out) sizes.push_back(2 * width);
  nn::Parts modulation(in.modulation_BM, sizes);

  const auto num_image = rows * columns, num_text = b.start ? in.text_BTE.size(1) : in.hidden_BLD.size(1) - num_image;
  const nn::Streams streams(shares(), {num_text, num_image});
  at::Tensor image, text;
  if (b.start) {
    image = embedded(in.noisy_BCHW, in.text_BTE.scalar_type());
    text = b.start->text_in.forward(in.text_BTE);
  } else {
    text = in.hidden_BLD.narrow(1, 0, num_text).contiguous();
    image = in.hidden_BLD.narrow(1, num_text, num_image).contiguous();
  }
  text = streams.here(0, text);
  image = streams.here(1, image);
  const auto options = in.modulation_BM.options().dtype(at::kFloat);
  nn::Tensors inputs{image, text, {}, at::ones({num_text + num_image, config_.head_dim / 2}, options)};
  if (!streams.are_whole()) inputs.push_back(streams.bias_by_place(without_text(num_text, num_image, options)));
  for (auto& block : b.blocks) {
    inputs[2] = modulation.next();
    auto out = block->run(inputs);
    inputs[0] = out[0];
    inputs[1] = out.size() > 1 ? out[1] : at::Tensor();
  }
  if (!b.out) return inputs[1].defined() ? at::cat({inputs[1], inputs[0]}, 1) : inputs[0];
  auto m = modulation.next().chunk(2, -1);  // scale, shift
  return from_tokens(streams.joined(1, b.out->forward(kernels::modulated_norm(inputs[0], m[0], m[1], kNormEps))), rows, columns);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find(".norm1.linear") != path.npos || path.find(".norm1_context.linear") != path.npos || path.starts_with("norm_out.") ||
           path.starts_with("proj_out.");
  });
  if (!body_ || !body_->start) return;
  auto& places = body_->start->places;
  const auto N = config_.most_places, half = config_.width() / 2;
  const auto waves = waves_of_places(N, half, at::TensorOptions().dtype(at::kDouble)).to(at::kFloat);
  const auto columns = waves.unsqueeze(0).expand({N, N, half}), lines = waves.unsqueeze(1).expand({N, N, half});
  places = at::cat({columns, lines}, 2).reshape({1, N * N, 2 * half}).to(places.scalar_type());
}

}  // namespace burnish::models::sd3
