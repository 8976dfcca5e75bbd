#include "models/families/flux/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/families/flux/blocks.h"
#include "nn/parts.h"

namespace burnish::models::flux {

namespace {

using mmdit::EmbedMlp, mmdit::time_projection, mmdit::kTimeChannels;
constexpr double kRopeTheta = 10000.0;

using Linears = std::vector<std::unique_ptr<nn::Linear>>;

template <class T, class... Arguments>
std::unique_ptr<T> make_if(bool wanted, Arguments... arguments) {
  return wanted ? std::make_unique<T>(arguments...) : nullptr;
}

int64_t num_blocks(const Config& c) { return c.num_double_blocks + c.num_single_blocks; }
bool holds_start(const mmdit::HeldLayers& p) { return p.begin == 0; }
bool holds_end(const mmdit::HeldLayers& p, const Config& c) { return p.end > num_blocks(c); }

/// The double blocks of a part, by their numbers in the model: from first to before second. And its single blocks.
std::pair<int64_t, int64_t> double_blocks(const mmdit::HeldLayers& p, const Config& c) {
  return {std::min(p.begin, c.num_double_blocks), std::min(p.end, c.num_double_blocks)};
}
std::pair<int64_t, int64_t> single_blocks(const mmdit::HeldLayers& p, const Config& c) {
  auto number = [&](int64_t block) { return std::clamp(block - c.num_double_blocks, int64_t{0}, c.num_single_blocks); };
  return {number(p.begin), number(p.end)};
}
int64_t length(const std::pair<int64_t, int64_t>& range) { return range.second - range.first; }

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o)
      : timestep_embedder(make_if<EmbedMlp>(holds_start(p), kTimeChannels, c.width(), o)),
        text_embedder(make_if<EmbedMlp>(holds_start(p), c.pooled_projection_dim, c.width(), o)),
        guidance_embedder(make_if<EmbedMlp>(holds_start(p) && c.guidance_embeds, kTimeChannels, c.width(), o)),
        norm1(mmdit::several<nn::Linear>(length(double_blocks(p, c)), c.width(), 6 * c.width(), o)),
        norm1_context(mmdit::several<nn::Linear>(length(double_blocks(p, c)), c.width(), 6 * c.width(), o)),
        norm(mmdit::several<nn::Linear>(length(single_blocks(p, c)), c.width(), 3 * c.width(), o)),
        norm_out(make_if<nn::Linear>(holds_end(p, c), c.width(), 2 * c.width(), o)) {}

  at::Tensor conditioning(const Conditions& in) const {
    auto dtype = in.pooled_BE.scalar_type();
    auto cond = timestep_embedder->forward(time_projection(in.sigma_B, dtype));
    if (guidance_embedder) cond = cond + guidance_embedder->forward(time_projection(in.guidance_B, dtype));
    return cond + text_embedder->forward(in.pooled_BE);
  }

  std::unique_ptr<EmbedMlp> timestep_embedder, text_embedder, guidance_embedder;
  Linears norm1, norm1_context, norm;
  std::unique_ptr<nn::Linear> norm_out;
};

struct Transformer::Body {
  Body(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o)
      : x_embedder(make_if<nn::Linear>(holds_start(p), c.in_channels, c.width(), o)),
        context_embedder(make_if<nn::Linear>(holds_start(p), c.joint_attention_dim, c.width(), o)),
        double_blocks(mmdit::several<DoubleBlock>(length(flux::double_blocks(p, c)), c, o)),
        single_blocks(mmdit::several<SingleBlock>(length(flux::single_blocks(p, c)), c, o)),
        proj_out(make_if<nn::Linear>(holds_end(p, c), c.width(), c.out_channels, o)) {}

  std::unique_ptr<nn::Linear> x_embedder, context_embedder;
  std::vector<std::unique_ptr<DoubleBlock>> double_blocks;
  std::vector<std::unique_ptr<SingleBlock>> single_blocks;
  std::unique_ptr<nn::Linear> proj_out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c), part_(part) {
  if (part_.end < 0) part_.end = num_blocks(c) + 1;
  if (part_.modulation) modulation_ = std::make_unique<Modulation>(c, part_, options);
  if (part_.body) body_ = std::make_unique<Body>(c, part_, options);
  auto own_of = [this](auto& holder, const auto& name, auto member) {
    if (holder && std::invoke(member, *holder)) own(name, *std::invoke(member, *holder));
  };
  own_of(body_, "x_embedder", &Body::x_embedder);
  own_of(body_, "context_embedder", &Body::context_embedder);
  own_of(modulation_, "time_text_embed.timestep_embedder", &Modulation::timestep_embedder);
  own_of(modulation_, "time_text_embed.text_embedder", &Modulation::text_embedder);
  own_of(modulation_, "time_text_embed.guidance_embedder", &Modulation::guidance_embedder);
  auto doubles = double_blocks(part_, c), singles = single_blocks(part_, c);
  for (size_t i = 0; i < static_cast<size_t>(length(doubles)); ++i) {
    auto name = "transformer_blocks." + std::to_string(static_cast<size_t>(doubles.first) + i);
    if (modulation_) own(name + ".norm1.linear", *modulation_->norm1[i]);
    if (modulation_) own(name + ".norm1_context.linear", *modulation_->norm1_context[i]);
    if (body_) own(name, *body_->double_blocks[i]);
  }
  for (size_t i = 0; i < static_cast<size_t>(length(singles)); ++i) {
    auto name = "single_transformer_blocks." + std::to_string(static_cast<size_t>(singles.first) + i);
    if (modulation_) own(name + ".norm.linear", *modulation_->norm[i]);
    if (body_) own(name, *body_->single_blocks[i]);
  }
  own_of(modulation_, "norm_out.linear", &Modulation::norm_out);
  own_of(body_, "proj_out", &Body::proj_out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::condition(const Conditions& in) const { return at::silu(modulation_->conditioning(in)); }

at::Tensor Transformer::modulate(const at::Tensor& conditioning_BD) const {
  const auto& m = *modulation_;
  std::vector<std::function<at::Tensor()>> parts;
  auto of = [&](const auto& linear) { return linear->forward(conditioning_BD); };
  for (size_t i = 0; i < m.norm1.size(); ++i) parts.emplace_back([&, i] { return at::cat({of(m.norm1[i]), of(m.norm1_context[i])}, -1); });
  for (const auto& linear : m.norm) parts.emplace_back([&] { return of(linear); });
  if (m.norm_out) parts.emplace_back([&] { return of(m.norm_out); });
  return nn::joined(parts);
}

int64_t Grids::size() const {
  auto size = target.size();
  for (const auto& reference : references) size += reference.size();
  return size;
}

/// Returns the positions [T + I] of each axis: text tokens sit at (0, 0, 0), the target's token (r, c) at (0, r, c), a reference's at (1,
/// r, c) or where the target's would.
static std::vector<at::Tensor> positions(int64_t num_text, const Grids& grids, const at::TensorOptions& options) {
  std::vector<std::vector<at::Tensor>> axes(3, {at::zeros({num_text}, options)});
  auto add = [&](const Grid& grid, double first) {
    axes[0].push_back(at::full({grid.size()}, first, options));
    axes[1].push_back(at::arange(grid.rows, options).unsqueeze(1).expand({grid.rows, grid.columns}).reshape({-1}));
    axes[2].push_back(at::arange(grid.columns, options).unsqueeze(0).expand({grid.rows, grid.columns}).reshape({-1}));
  };
  add(grids.target, 0);
  for (const auto& reference : grids.references) add(reference, grids.are_apart ? 1 : 0);
  return {at::cat(axes[0]), at::cat(axes[1]), at::cat(axes[2])};
}

/// Rotary tables [T + I, P].
std::pair<at::Tensor, at::Tensor> Transformer::rope(int64_t num_text, const Grids& grids, const at::TensorOptions& options) const {
  return mmdit::rotary_tables(positions(num_text, grids, options.dtype(at::kDouble)), config_.axes_dims_rope, kRopeTheta);
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  std::vector<int64_t> sizes(b.double_blocks.size(), 12 * config_.width());
  sizes.resize(sizes.size() + b.single_blocks.size(), 3 * config_.width());
  if (b.proj_out) sizes.push_back(2 * config_.width());
  nn::Parts modulation(in.modulation_BM, sizes);

  auto num_image = in.grids.size();
  auto num_prefix = in.prefix_BTD.defined() ? in.prefix_BTD.size(1) : 0;
  auto num_text = b.x_embedder ? in.text_BTE.size(1) + num_prefix : in.hidden_BLD.size(1) - num_image;
  const nn::Streams streams(shares(), {num_text, num_image});
  at::Tensor image, text, tokens;
  if (b.x_embedder) {
    image = b.x_embedder->forward(in.latents_BIC);
    if (in.added_BID.defined()) image = image + in.added_BID;
    text = b.context_embedder->forward(in.text_BTE);
    if (in.prefix_BTD.defined()) text = at::cat({in.prefix_BTD, text}, 1);
  } else if (b.double_blocks.empty() && streams.are_whole()) {
    tokens = in.hidden_BLD;
  } else {
    text = in.hidden_BLD.narrow(1, 0, num_text).contiguous();
    image = in.hidden_BLD.narrow(1, num_text, num_image).contiguous();
  }
  text = streams.here(0, text);
  image = streams.here(1, image);
  auto [cos, sin] = rope(num_text, in.grids, in.modulation_BM.options());
  cos = streams.by_place(cos, 0);
  sin = streams.by_place(sin, 0);
  int64_t number = 0;
  auto further = [&] {
    auto of_block = in.further ? in.further(number) : mmdit::Further{};
    of_block.bias = streams.bias_by_place(of_block.bias);
    return of_block;
  };
  // Returns what takes the place of this place's image tokens behind a block; undefined: nothing.
  auto changed_behind = [&](const at::Tensor& own_BID) {
    return in.after_block ? streams.here(1, in.after_block(number, streams.joined(1, own_BID))) : at::Tensor();
  };
  for (auto& block : b.double_blocks) {
    auto out = block->run(mmdit::with_further({image, text, modulation.next(), cos, sin}, further()));
    auto changed = changed_behind(out[0]);
    image = changed.defined() ? changed : out[0];
    text = out[1];
    ++number;
  }
  if (!tokens.defined()) tokens = at::cat({text, image}, 1);
  for (auto& block : b.single_blocks) {
    tokens = block->run(mmdit::with_further({tokens, modulation.next(), cos, sin}, further()))[0];
    auto changed = changed_behind(tokens.narrow(1, streams.length_here(0), streams.length_here(1)));
    if (changed.defined()) tokens = at::cat({tokens.narrow(1, 0, streams.length_here(0)), changed}, 1);
    ++number;
  }
  if (!b.proj_out) return tokens;
  const auto num_target = in.grids.target.size();
  image = tokens.narrow(1, streams.length_here(0), streams.are_whole() ? num_target : streams.length_here(1));
  auto m = modulation.next().chunk(2, -1);  // scale, shift
  return streams.joined(1, b.proj_out->forward(kernels::modulated_norm(image, m[0], m[1], 1e-6))).narrow(1, 0, num_target);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.starts_with("proj_out.") || path.find("norm1.linear") != path.npos || path.find("norm1_context.linear") != path.npos ||
           path.find(".norm.linear") != path.npos || path.starts_with("norm_out.");
  });
}

}  // namespace burnish::models::flux
