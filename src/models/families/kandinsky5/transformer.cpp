#include "models/families/kandinsky5/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "models/blocks/patch_tokens.h"
#include "models/blocks/waves.h"
#include "models/families/kandinsky5/blocks.h"
#include "nn/modulation_in_fp32.h"
#include "nn/parts.h"

namespace burnish::models::kandinsky5 {

namespace {

constexpr int64_t kPatch = 2;
constexpr double kRopeTheta = 10000;
/// Vectors of modulation of a text's block, of a picture's, and of the last norm.
constexpr int64_t kOfText = 6, kOfPicture = 9, kOfLast = 2;

/// Rotary tables [T, P] of a text's tokens, by their number.
std::pair<at::Tensor, at::Tensor> text_tables(const Config& c, int64_t num_text, const at::TensorOptions& options) {
  return mmdit::rotary_tables({at::arange(num_text, options)}, {c.head_dim()}, kRopeTheta);
}

/// Rotary tables [I, P] of a picture's tokens, by frame, which is 0, row and column.
std::pair<at::Tensor, at::Tensor> picture_tables(const Config& c, int64_t rows, int64_t columns, const at::TensorOptions& options) {
  auto along = [&](int64_t count, at::IntArrayRef shape) {
    return at::arange(count, options).view(shape).expand({rows, columns}).reshape({-1});
  };
  return mmdit::rotary_tables({at::zeros({rows * columns}, options), along(rows, {-1, 1}), along(columns, {1, -1})}, c.axes_dims,
                              kRopeTheta);
}

/// Makes a linear layer and a norm of what encoders give: in_layer and norm.
class TextEmbedder : public nn::Module {
 public:
  TextEmbedder(int64_t in, int64_t out, const at::TensorOptions& o) : in_(in, out, o), norm_(out, kTokenEps, o) {
    own("in_layer", in_);
    own("norm", norm_);
  }
  at::Tensor forward(const at::Tensor& x) const { return norm_.forward(in_.forward(x)); }

 private:
  nn::Linear in_;
  nn::LayerNorm norm_;
};

}  // namespace

struct Transformer::Modulation {
  struct Start {
    Start(const Config& c, const at::TensorOptions& o)
        : time_in(c.width, c.time_width, o.dtype(at::kFloat)),
          time_out(c.time_width, c.time_width, o.dtype(at::kFloat)),
          pooled(c.pooled_width, c.time_width, o) {}
    nn::Linear time_in, time_out;
    TextEmbedder pooled;
  };
  std::unique_ptr<Start> start;
  std::vector<std::unique_ptr<nn::Linear>> of_blocks;  ///< of the blocks that are held, and behind them of the last norm
};

struct Transformer::Body {
  struct Start {
    Start(const Config& c, const at::TensorOptions& o)
        : text_in(c.caption_width, c.width, o), picture_in(kPatch * kPatch * c.num_read(), c.width, o) {}
    TextEmbedder text_in;
    nn::Linear picture_in;
  };
  std::unique_ptr<Start> start;
  std::vector<std::unique_ptr<TextBlock>> text_blocks;
  std::vector<std::unique_ptr<PictureBlock>> picture_blocks;
  std::unique_ptr<nn::Linear> out;
};

namespace {

/// The blocks of a part: those of the text, then those of the picture.
mmdit::HeldStacks blocks_of(const Config& c, const mmdit::HeldLayers& part) {
  return mmdit::held_stacks(part, {c.num_text_blocks, c.num_blocks});
}

std::string text_path(int64_t i) { return "text_transformer_blocks." + std::to_string(i); }
std::string picture_path(int64_t i) { return "visual_transformer_blocks." + std::to_string(i); }

/// Returns how many vectors modulate each of the held blocks, and the last norm behind them.
std::vector<int64_t> modulations_of(const mmdit::HeldStacks& held) {
  std::vector<int64_t> counts(static_cast<size_t>(held.stacks[0].count), kOfText);
  counts.insert(counts.end(), static_cast<size_t>(held.stacks[1].count), kOfPicture);
  if (held.ends) counts.push_back(kOfLast);
  return counts;
}

}  // namespace

Transformer::Transformer(const Config& c, const at::TensorOptions& o, mmdit::HeldLayers part) : config_(c), part_(part) {
  const auto held = blocks_of(c, part_);
  const auto in_fp32 = o.dtype(at::kFloat);
  if (part_.modulation) {
    modulation_ = std::make_unique<Modulation>();
    if (held.begins) modulation_->start = std::make_unique<Modulation::Start>(c, o);
    for (const auto count : modulations_of(held))
      modulation_->of_blocks.push_back(std::make_unique<nn::Linear>(c.time_width, count * c.width, in_fp32));
  }
  if (part_.body) {
    body_ = std::make_unique<Body>();
    if (held.begins) body_->start = std::make_unique<Body::Start>(c, o);
    body_->text_blocks = mmdit::several<TextBlock>(held.stacks[0].count, c, o);
    body_->picture_blocks = mmdit::several<PictureBlock>(held.stacks[1].count, c, o);
    if (held.ends) body_->out = std::make_unique<nn::Linear>(c.width, kPatch * kPatch * c.channels, o);
  }
  own_modulation();
  own_body();
}

Transformer::~Transformer() = default;

void Transformer::own_modulation() {
  if (!modulation_) return;
  if (auto* start = modulation_->start.get()) {
    own("time_embeddings.in_layer", start->time_in);
    own("time_embeddings.out_layer", start->time_out);
    own("pooled_text_embeddings", start->pooled);
  }
  const auto held = blocks_of(config_, part_);
  auto layer = modulation_->of_blocks.begin();
  for (int64_t i = 0; i < held.stacks[0].count; ++i) own(text_path(held.stacks[0].first + i) + ".text_modulation.out_layer", **layer++);
  for (int64_t i = 0; i < held.stacks[1].count; ++i)
    own(picture_path(held.stacks[1].first + i) + ".visual_modulation.out_layer", **layer++);
  if (held.ends) own("out_layer.modulation.out_layer", **layer);
}

void Transformer::own_body() {
  if (!body_) return;
  if (auto* start = body_->start.get()) {
    own("text_embeddings", start->text_in);
    own("visual_embeddings.in_layer", start->picture_in);
  }
  const auto held = blocks_of(config_, part_);
  for (size_t i = 0; i < body_->text_blocks.size(); ++i)
    own(text_path(held.stacks[0].first + static_cast<int64_t>(i)), *body_->text_blocks[i]);
  for (size_t i = 0; i < body_->picture_blocks.size(); ++i)
    own(picture_path(held.stacks[1].first + static_cast<int64_t>(i)), *body_->picture_blocks[i]);
  if (body_->out) own("out_layer.out_layer", *body_->out);
}

at::Tensor Transformer::condition(const at::Tensor& sigma_B, const at::Tensor& pooled_BP) const {
  const auto& start = *modulation_->start;
  const auto time = start.time_in.forward(waves(sigma_B.to(at::kDouble) * 1000.0, config_.width));
  return at::silu(start.time_out.forward(at::silu(time)) + start.pooled.forward(pooled_BP).to(at::kFloat));
}

at::Tensor Transformer::modulate(const at::Tensor& conditioning_BS) const {
  std::vector<std::function<at::Tensor()>> parts;
  for (const auto& layer : modulation_->of_blocks) parts.emplace_back([&] { return layer->forward(conditioning_BS); });
  return nn::joined(parts);
}

/// Returns what the transformer reads of a picture: noisy latents, and of a model that changes pictures the given one's and ones behind
/// them, or zeros where none is given.
at::Tensor Transformer::read_latents(const Inputs& in) const {
  const auto& noisy = in.noisy_BCHW;
  if (!config_.reads_picture) return noisy;
  const auto sides = noisy.sizes().slice(2).vec();
  auto filled = [&](int64_t channels, double value) {
    return at::full({noisy.size(0), channels, sides[0], sides[1]}, value, noisy.options());
  };
  if (!in.given_BCHW.defined()) return at::cat({noisy, filled(config_.channels + 1, 0)}, 1);
  return at::cat({noisy, in.given_BCHW.to(noisy.options()), filled(1, 1)}, 1);
}

/// Returns the tokens with which the held blocks begin, all of them.
Transformer::Tokens Transformer::first_tokens(const Inputs& in, int64_t num_picture) const {
  if (const auto* start = body_->start.get()) {
    return {start->text_in.forward(in.text_BTE),
            start->picture_in.forward(channels_last_tokens(read_latents(in)).to(in.text_BTE.scalar_type()))};
  }
  const auto num_text = in.hidden_BLD.size(1) - num_picture;
  return {in.hidden_BLD.narrow(1, 0, num_text).contiguous(), in.hidden_BLD.narrow(1, num_text, num_picture).contiguous()};
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto rows = in.noisy_BCHW.size(2) / kPatch, columns = in.noisy_BCHW.size(3) / kPatch;
  std::vector<int64_t> sizes;
  for (const auto count : modulations_of(blocks_of(config_, part_))) sizes.push_back(count * config_.width);
  nn::Parts modulation(in.modulation_BM, sizes);

  auto [text, picture] = first_tokens(in, rows * columns);
  // Texts of one sample have no padding.
  const auto bias = in.mask_BT.size(0) > 1 ? mmdit::padding_bias(in.mask_BT, 0) : at::Tensor();
  const auto options = in.modulation_BM.options().dtype(at::kDouble);
  auto run = [&](nn::Block& block, nn::Tensors inputs) {
    if (bias.defined()) inputs.push_back(bias);
    return block.run(inputs)[0];
  };
  if (!b.text_blocks.empty()) {
    const auto [cos, sin] = text_tables(config_, text.size(1), options);
    for (auto& block : b.text_blocks) text = run(*block, {text, modulation.next(), cos, sin});
  }
  const nn::Streams streams(shares(), {rows * columns});
  picture = streams.here(0, picture);
  const auto [cos, sin] = picture_tables(config_, rows, columns, options);
  const auto cos_by_place = streams.by_place(cos, 0), sin_by_place = streams.by_place(sin, 0);
  for (auto& block : b.picture_blocks) picture = run(*block, {picture, modulation.next(), text, cos_by_place, sin_by_place});
  if (!b.out) return at::cat({text, picture}, 1);
  const auto m = modulation.next().chunk(kOfLast, -1);  // shift, scale
  return mmdit::from_tokens(streams.joined(0, b.out->forward(nn::modulated(picture, m[1], m[0], kTokenEps))), rows, columns);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("modulation.out_layer") != path.npos || path.starts_with("out_layer.out_layer");
  });
}

}  // namespace burnish::models::kandinsky5
