#include "models/blocks/double_then_single.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "kernels/modulated_norm/modulated_norm.h"
#include "nn/parts.h"

namespace burnish::models::mmdit {

namespace {

constexpr double kRopeTheta = 10000.0, kNormEps = 1e-6;
constexpr DoubleBlock::Names kBlockNames{.image_mlp = "ff", .text_mlp = "ff_context"};

using Linears = std::vector<std::unique_ptr<nn::Linear>>;

HeldStacks stacks_of(const HeldLayers& part, const TrunkSizes& s) { return held_stacks(part, {s.num_double, s.num_single}); }

std::unique_ptr<nn::Linear> linear_if(bool wanted, int64_t in, int64_t out, const at::TensorOptions& options) {
  return wanted ? std::make_unique<nn::Linear>(in, out, options) : nullptr;
}

}  // namespace

struct DoubleThenSingle::Modulation {
  Modulation(const TrunkSizes& s, const HeldStacks& held, const at::TensorOptions& o)
      : norm1(several<nn::Linear>(held.stacks[0].count, s.widths.width(), 6 * s.widths.width(), o)),
        norm1_context(several<nn::Linear>(held.stacks[0].count, s.widths.width(), 6 * s.widths.width(), o)),
        norm(several<nn::Linear>(held.stacks[1].count, s.widths.width(), 3 * s.widths.width(), o)),
        norm_out(linear_if(held.ends, s.widths.width(), 2 * s.widths.width(), o)) {
    if (!held.begins) return;
    for (const auto& [name, width] : s.embedders) embedders.push_back(std::make_unique<EmbedMlp>(width, s.widths.width(), o));
  }
  std::vector<std::unique_ptr<EmbedMlp>> embedders;
  Linears norm1, norm1_context, norm;
  std::unique_ptr<nn::Linear> norm_out;
};

struct DoubleThenSingle::Body {
  Body(const TrunkSizes& s, const HeldStacks& held, const at::TensorOptions& o)
      : x_embedder(linear_if(held.begins, s.in_channels, s.widths.width(), o)),
        context_embedder(linear_if(held.begins, s.caption_width, s.widths.width(), o)),
        double_blocks(several<DoubleBlock>(held.stacks[0].count, s.widths, o, kBlockNames)),
        single_blocks(several<SingleBlock>(held.stacks[1].count, s.widths, o)),
        proj_out(linear_if(held.ends, s.widths.width(), s.out_channels, o)) {}
  std::unique_ptr<nn::Linear> x_embedder, context_embedder;
  std::vector<std::unique_ptr<DoubleBlock>> double_blocks;
  std::vector<std::unique_ptr<SingleBlock>> single_blocks;
  std::unique_ptr<nn::Linear> proj_out;
};

/// This place's tokens before the first block that is held: those of two streams, or of one.
struct DoubleThenSingle::Tokens {
  at::Tensor image{}, text{}, all{};
  int64_t num_text = 0;
  nn::Streams streams;
};

DoubleThenSingle::DoubleThenSingle(const TrunkSizes& s, const at::TensorOptions& options, HeldLayers part) : sizes_(s), part_(part) {
  const auto held = stacks_of(part_, s);
  if (part_.modulation) modulation_ = std::make_unique<Modulation>(s, held, options);
  if (part_.body) body_ = std::make_unique<Body>(s, held, options);
  auto own_if = [this](const std::string& name, const std::unique_ptr<nn::Linear>& layer) {
    if (layer) own(name, *layer);
  };
  if (body_) own_if("x_embedder", body_->x_embedder);
  if (body_) own_if("context_embedder", body_->context_embedder);
  if (modulation_) {
    for (size_t i = 0; i < modulation_->embedders.size(); ++i) own(s.embedders[i].first, *modulation_->embedders[i]);
  }
  const auto &doubles = held.stacks[0], &singles = held.stacks[1];
  for (size_t i = 0; i < static_cast<size_t>(doubles.count); ++i) {
    auto name = "transformer_blocks." + std::to_string(static_cast<size_t>(doubles.first) + i);
    if (modulation_) own(name + ".norm1.linear", *modulation_->norm1[i]);
    if (modulation_) own(name + ".norm1_context.linear", *modulation_->norm1_context[i]);
    if (body_) own(name, *body_->double_blocks[i]);
  }
  for (size_t i = 0; i < static_cast<size_t>(singles.count); ++i) {
    auto name = "single_transformer_blocks." + std::to_string(static_cast<size_t>(singles.first) + i);
    if (modulation_) own(name + ".norm.linear", *modulation_->norm[i]);
    if (body_) own(name, *body_->single_blocks[i]);
  }
  if (modulation_) own_if("norm_out.linear", modulation_->norm_out);
  if (body_) own_if("proj_out", body_->proj_out);
}

DoubleThenSingle::~DoubleThenSingle() = default;

bool DoubleThenSingle::holds_last() const { return stacks_of(part_, sizes_).ends; }

at::Tensor DoubleThenSingle::embedded(size_t number, const at::Tensor& x) const { return modulation_->embedders.at(number)->forward(x); }

at::Tensor DoubleThenSingle::modulate(const at::Tensor& conditioning_BD) const {
  const auto& m = *modulation_;
  std::vector<std::function<at::Tensor()>> parts;
  auto of = [&](const auto& linear) { return linear->forward(conditioning_BD); };
  for (size_t i = 0; i < m.norm1.size(); ++i) parts.emplace_back([&, i] { return at::cat({of(m.norm1[i]), of(m.norm1_context[i])}, -1); });
  for (const auto& linear : m.norm) parts.emplace_back([&] { return of(linear); });
  if (m.norm_out) parts.emplace_back([&] { return of(m.norm_out); });
  return nn::joined(parts);
}

DoubleThenSingle::Tokens DoubleThenSingle::tokens_of(const BlockInputs& in, const Layout& layout) const {
  const auto& b = *body_;
  const auto num_image = layout.num_image, num_prefix = in.prefix_BTD.defined() ? in.prefix_BTD.size(1) : 0;
  const auto num_text = b.x_embedder ? in.text_BTE.size(1) + num_prefix : in.hidden_BLD.size(1) - num_image;
  Tokens tokens{.num_text = num_text, .streams = nn::Streams(shares(), {num_text, num_image})};
  if (b.x_embedder) {
    tokens.image = b.x_embedder->forward(in.latents_BIC);
    if (in.added_BID.defined()) tokens.image = tokens.image + in.added_BID;
    tokens.text = b.context_embedder->forward(in.text_BTE);
    if (in.prefix_BTD.defined()) tokens.text = at::cat({in.prefix_BTD, tokens.text}, 1);
  } else if (b.double_blocks.empty() && tokens.streams.are_whole()) {
    tokens.all = in.hidden_BLD;
    return tokens;
  } else {
    tokens.text = in.hidden_BLD.narrow(1, 0, num_text).contiguous();
    tokens.image = in.hidden_BLD.narrow(1, num_text, num_image).contiguous();
  }
  tokens.text = tokens.streams.here(0, tokens.text);
  tokens.image = tokens.streams.here(1, tokens.image);
  return tokens;
}

at::Tensor DoubleThenSingle::run_blocks(const BlockInputs& in, const Layout& layout) {
  auto& b = *body_;
  const auto width = sizes_.widths.width();
  std::vector<int64_t> sizes(b.double_blocks.size(), 12 * width);
  sizes.resize(sizes.size() + b.single_blocks.size(), 3 * width);
  if (b.proj_out) sizes.push_back(2 * width);
  nn::Parts modulation(in.modulation_BM, sizes);

  auto [image, text, tokens, num_text, streams] = tokens_of(in, layout);
  auto [cos, sin] = rotary_tables(layout.places(num_text, in.modulation_BM.options().dtype(at::kDouble)), sizes_.axes, kRopeTheta);
  cos = streams.by_place(cos, 0);
  sin = streams.by_place(sin, 0);
  int64_t number = 0;
  auto further = [&, &streams = streams] {
    auto of_block = in.further ? in.further(number) : Further{};
    of_block.bias = streams.bias_by_place(of_block.bias);
    return of_block;
  };
  // Returns what takes the place of this place's image tokens behind a block; undefined: nothing.
  auto changed_behind = [&, &streams = streams](const at::Tensor& own_BID) {
    return in.after_block ? streams.here(1, in.after_block(number, streams.joined(1, own_BID))) : at::Tensor();
  };
  for (auto& block : b.double_blocks) {
    auto out = block->run(with_further({image, text, modulation.next(), cos, sin}, further()));
    auto changed = changed_behind(out[0]);
    image = changed.defined() ? changed : out[0];
    text = out[1];
    ++number;
  }
  if (!tokens.defined()) tokens = at::cat({text, image}, 1);
  for (auto& block : b.single_blocks) {
    tokens = block->run(with_further({tokens, modulation.next(), cos, sin}, further()))[0];
    auto changed = changed_behind(tokens.narrow(1, streams.length_here(0), streams.length_here(1)));
    if (changed.defined()) tokens = at::cat({tokens.narrow(1, 0, streams.length_here(0)), changed}, 1);
    ++number;
  }
  if (!b.proj_out) return tokens;
  image = tokens.narrow(1, streams.length_here(0), streams.are_whole() ? layout.num_target : streams.length_here(1));
  auto m = modulation.next().chunk(2, -1);  // scale, shift
  return streams.joined(1, b.proj_out->forward(kernels::modulated_norm(image, m[0], m[1], kNormEps))).narrow(1, 0, layout.num_target);
}

void DoubleThenSingle::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.starts_with("proj_out.") || path.find("norm1.linear") != path.npos || path.find("norm1_context.linear") != path.npos ||
           path.find(".norm.linear") != path.npos || path.starts_with("norm_out.");
  });
}

}  // namespace burnish::models::mmdit
