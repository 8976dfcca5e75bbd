#include "models/families/anima/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/blocks/padding_row.h"
#include "models/families/anima/blocks.h"
#include "nn/parts.h"

namespace burnish::models::anima {

namespace {

constexpr double kTheta = 10000;

/// Rotary tables of a picture's tokens, which is one frame. The base of an axis grows with how far it is stretched.
std::pair<at::Tensor, at::Tensor> rope(const Config& c, int64_t rows, int64_t columns, const at::TensorOptions& options) {
  auto opts = options.dtype(at::kDouble);
  const at::Tensor places[] = {at::zeros({rows * columns}, opts), at::arange(rows, opts).unsqueeze(1).expand({rows, columns}).flatten(),
                               at::arange(columns, opts).unsqueeze(0).expand({rows, columns}).flatten()};
  std::vector<at::Tensor> cos, sin;
  const auto dims = c.axes_dims();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const auto dim = static_cast<double>(dims[axis]);
    auto table = mmdit::rotary_tables({places[axis]}, {dims[axis]}, kTheta * std::pow(c.rope_scale[axis], dim / (dim - 2)));
    cos.push_back(table.first);
    sin.push_back(table.second);
  }
  return {at::cat(cos, 1), at::cat(sin, 1)};
}

/// Sinusoids [B, width] of the time as it is: [cos | sin], frequencies falling from 1 to nearly 1/10000.
at::Tensor sinusoids(const at::Tensor& t_B, int64_t width) {
  auto half = width / 2;
  auto frequencies = (at::arange(half, t_B.options()) * (-std::log(kTheta) / static_cast<double>(half))).exp();
  auto angles = t_B.unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.cos(), angles.sin()}, -1);
}

/// Tokens [B, I, 4 C] back into latents: unlike in what comes in, the numbers of a place in the patch stand side by side.
at::Tensor from_tokens(const at::Tensor& tokens_BIC, int64_t rows, int64_t columns) {
  auto x = tokens_BIC.view({tokens_BIC.size(0), rows, columns, 2, 2, -1}).permute({0, 5, 1, 3, 2, 4});
  return x.reshape({x.size(0), x.size(1), rows * 2, columns * 2});
}

/// The two layers that modulate a norm, with `parts` of the tokens' width.
struct OfNorm {
  OfNorm(const Config& c, int64_t parts, const at::TensorOptions& o)
      : linear_1(c.width(), c.modulation_rank, o, false), linear_2(c.modulation_rank, parts * c.width(), o, false) {}
  nn::Linear linear_1, linear_2;
  at::Tensor forward(const at::Tensor& x) const { return linear_2.forward(linear_1.forward(x)); }
};

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o)
      : of_blocks(mmdit::several<OfNorm>(3 * (std::min(p.end, c.num_layers) - p.begin), c, int64_t{3}, o)) {
    if (p.begin == 0) time = std::make_unique<Time>(c, o);
    if (p.end > c.num_layers) last = std::make_unique<OfNorm>(c, 2, o);
  }
  struct Time {
    Time(const Config& c, const at::TensorOptions& o)
        : linear_1(c.width(), c.width(), o, false), linear_2(c.width(), 3 * c.width(), o, false), norm(c.width(), kNormEps, o) {}
    nn::Linear linear_1, linear_2;
    nn::RMSNorm norm;
  };
  std::unique_ptr<Time> time;
  std::vector<std::unique_ptr<OfNorm>> of_blocks;  ///< of the three norms of each block, in turn
  std::unique_ptr<OfNorm> last;
};

struct Transformer::Body {
  Body(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o)
      : blocks(mmdit::several<Block>(std::min(p.end, c.num_layers) - p.begin, c, o)) {
    if (p.begin == 0) image_in = std::make_unique<nn::Linear>((c.in_channels + 1) * 4, c.width(), o, false);
    if (p.end > c.num_layers) out = std::make_unique<nn::Linear>(c.width(), c.out_channels * 4, o, false);
  }
  std::unique_ptr<nn::Linear> image_in;
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<nn::Linear> out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.end < 0) part.end = c.num_layers + 1;
  if (part.modulation) modulation_ = std::make_unique<Modulation>(c, part, options);
  if (part.body) body_ = std::make_unique<Body>(c, part, options);
  auto own_norm = [this](const std::string& name, OfNorm& of) {
    own(name + ".linear_1", of.linear_1);
    own(name + ".linear_2", of.linear_2);
  };
  if (body_ && body_->image_in) own("patch_embed.proj", *body_->image_in);
  if (modulation_ && modulation_->time) {
    own("time_embed.t_embedder.linear_1", modulation_->time->linear_1);
    own("time_embed.t_embedder.linear_2", modulation_->time->linear_2);
    own("time_embed.norm", modulation_->time->norm);
  }
  for (auto i = part.begin; i < std::min(part.end, c.num_layers); ++i) {
    const auto block = "transformer_blocks." + std::to_string(i);
    const auto held = static_cast<size_t>(i - part.begin);
    for (size_t norm = 0; modulation_ && norm < 3; ++norm)
      own_norm(block + ".norm" + std::to_string(norm + 1), *modulation_->of_blocks[3 * held + norm]);
    if (body_) own(block, *body_->blocks[held]);
  }
  if (modulation_ && modulation_->last) own_norm("norm_out", *modulation_->last);
  if (body_ && body_->out) own("proj_out", *body_->out);
}

Transformer::~Transformer() = default;

// The norms are modulated by the sinusoids themselves, to which what is made of the time by layers is added.
at::Tensor Transformer::condition(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  const auto& t = *modulation_->time;
  const auto time_BD = sinusoids(sigma_B, config_.width()).to(dtype);
  return at::cat({at::silu(t.norm.forward(time_BD)), t.linear_2.forward(at::silu(t.linear_1.forward(time_BD)))}, -1);
}

at::Tensor Transformer::modulate(const at::Tensor& conditioning_B4D) const {
  const auto& m = *modulation_;
  const auto width = config_.width();
  const auto activated_BD = conditioning_B4D.narrow(1, 0, width), added_B3D = conditioning_B4D.narrow(1, width, 3 * width);
  std::vector<std::function<at::Tensor()>> parts;
  for (const auto& of_norm : m.of_blocks) parts.emplace_back([&] { return of_norm->forward(activated_BD) + added_B3D; });
  if (m.last) parts.emplace_back([&] { return m.last->forward(activated_BD) + added_B3D.narrow(1, 0, 2 * width); });
  return nn::joined(parts);
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto width = config_.width(), rows = in.noisy_BCHW.size(2) / 2, columns = in.noisy_BCHW.size(3) / 2;
  std::vector<int64_t> sizes(b.blocks.size(), kModulations * width);
  if (b.out) sizes.push_back(2 * width);
  nn::Parts modulation(in.modulation_BM, sizes);
  // Behind the latents stands a channel of zeros, which says of every place that it is no padding.
  auto embedded = [&] {
    return b.image_in->forward(at::constant_pad_nd(mmdit::to_tokens(in.noisy_BCHW).to(in.text_BTE.scalar_type()), {0, 4}));
  };
  const nn::Streams streams(shares(), {rows * columns});
  auto [cos, sin] = rope(config_, rows, columns, in.modulation_BM.options());
  nn::Tensors inputs{streams.here(0, b.image_in ? embedded() : in.hidden_BLD),
                     {},
                     in.text_BTE,
                     bias_of_counts(in.counts_BT),
                     streams.by_place(cos, 0),
                     streams.by_place(sin, 0)};
  for (auto& block : b.blocks) {
    inputs[1] = modulation.next();
    inputs[0] = block->run(inputs)[0];
  }
  if (!b.out) return inputs[0];
  auto m = modulation.next().chunk(2, -1);  // shift, scale
  return from_tokens(streams.joined(0, b.out->forward(kernels::modulated_norm(inputs[0], m[1], m[0], kNormEps))), rows, columns);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    const bool is_modulation = path.find(".norm") != path.npos && path.find(".linear_2.") != path.npos;
    return is_modulation || path.starts_with("norm_out.linear_2.") || path.starts_with("time_embed.t_embedder.linear_2.") ||
           path.starts_with("proj_out.");
  });
}

}  // namespace burnish::models::anima
