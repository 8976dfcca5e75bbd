#include "models/families/flux2/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/families/flux2/blocks.h"

namespace burnish::models::flux2 {

namespace {

constexpr double kNormEps = 1e-6;
/// The distance between reference pictures (diffusers: pipeline_flux2_klein.py).
constexpr double kReferenceStep = 10;

at::Tensor to_tokens(const at::Tensor& x_BCHW) { return x_BCHW.flatten(2).transpose(1, 2); }

/// Returns the places [L] of each axis: text token i sits at (0, 0, 0, i), the target's token (r, c) at (0, r, c, 0), that of the k-th
/// reference picture, from 1 on, at (10 k, r, c, 0).
std::vector<at::Tensor> places(int64_t num_text, const std::vector<at::Tensor>& pictures_BCHW, const at::TensorOptions& options) {
  auto nowhere = at::zeros({num_text}, options);
  std::vector<std::vector<at::Tensor>> axes{{nowhere}, {nowhere}, {nowhere}, {at::arange(num_text, options)}};
  double picture = 0;
  for (const auto& latents : pictures_BCHW) {
    const auto rows = latents.size(2), columns = latents.size(3);
    axes[0].push_back(at::full({rows * columns}, picture, options));
    axes[1].push_back(at::arange(rows, options).unsqueeze(1).expand({rows, columns}).reshape({-1}));
    axes[2].push_back(at::arange(columns, options).unsqueeze(0).expand({rows, columns}).reshape({-1}));
    axes[3].push_back(at::zeros({rows * columns}, options));
    picture += kReferenceStep;
  }
  std::vector<at::Tensor> joined;
  for (const auto& axis : axes) joined.push_back(at::cat(axis));
  return joined;
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : embedder(mmdit::kTimeChannels, c.width(), o, false),
        image(c.width(), 6 * c.width(), o, false),
        text(c.width(), 6 * c.width(), o, false),
        single(c.width(), 3 * c.width(), o, false),
        last(c.width(), 2 * c.width(), o, false) {
    if (c.guidance_embeds) guidance_embedder = std::make_unique<mmdit::EmbedMlp>(mmdit::kTimeChannels, c.width(), o, false);
  }
  mmdit::EmbedMlp embedder;
  std::unique_ptr<mmdit::EmbedMlp> guidance_embedder;
  nn::Linear image, text, single, last;
};

struct Transformer::Body {
  Body(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o) {
    const auto num_blocks = c.num_double_blocks + c.num_single_blocks;
    if (p.begin == 0) {
      image_in = std::make_unique<nn::Linear>(c.in_channels, c.width(), o, false);
      text_in = std::make_unique<nn::Linear>(c.caption_width, c.width(), o, false);
    }
    for (auto i = p.begin; i < std::min(p.end, num_blocks); ++i) {
      if (i < c.num_double_blocks) double_blocks.push_back(std::make_unique<DoubleBlock>(c, o));
      else single_blocks.push_back(std::make_unique<SingleBlock>(c, o));
    }
    if (p.end > num_blocks) out = std::make_unique<nn::Linear>(c.width(), c.in_channels, o, false);
  }
  std::unique_ptr<nn::Linear> image_in, text_in;
  std::vector<std::unique_ptr<DoubleBlock>> double_blocks;
  std::vector<std::unique_ptr<SingleBlock>> single_blocks;
  std::unique_ptr<nn::Linear> out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c), part_(part) {
  if (part_.end < 0) part_.end = c.num_double_blocks + c.num_single_blocks + 1;
  if (part_.modulation) {
    auto& m = *(modulation_ = std::make_unique<Modulation>(c, options));
    own("time_guidance_embed.timestep_embedder", m.embedder);
    if (m.guidance_embedder) own("time_guidance_embed.guidance_embedder", *m.guidance_embedder);
    own("double_stream_modulation_img.linear", m.image);
    own("double_stream_modulation_txt.linear", m.text);
    own("single_stream_modulation.linear", m.single);
    own("norm_out.linear", m.last);
  }
  if (!part_.body) return;
  auto& b = *(body_ = std::make_unique<Body>(c, part_, options));
  if (b.image_in) own("x_embedder", *b.image_in);
  if (b.text_in) own("context_embedder", *b.text_in);
  auto number = part_.begin;
  for (auto& block : b.double_blocks) own("transformer_blocks." + std::to_string(number++), *block);
  number = std::max(part_.begin - c.num_double_blocks, int64_t{0});
  for (auto& block : b.single_blocks) own("single_transformer_blocks." + std::to_string(number++), *block);
  if (b.out) own("proj_out", *b.out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype, const at::Tensor& guidance_B) const {
  const auto& m = *modulation_;
  auto embedded_BD = m.embedder.forward(mmdit::time_projection(sigma_B, dtype));
  if (m.guidance_embedder) embedded_BD = embedded_BD + m.guidance_embedder->forward(mmdit::time_projection(guidance_B, dtype));
  auto conditioning_BD = at::silu(embedded_BD);
  std::vector<at::Tensor> parts;
  for (const auto* linear : {&m.image, &m.text, &m.single, &m.last}) parts.push_back(linear->forward(conditioning_BD));
  return at::cat(parts, -1);
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto D = config_.width(), rows = in.noisy_BCHW.size(2), columns = in.noisy_BCHW.size(3);
  auto modulation = at::split_with_sizes(in.modulation_BM, {12 * D, 3 * D, 2 * D}, -1);
  auto pictures = in.references_BCHW;
  pictures.insert(pictures.begin(), in.noisy_BCHW);
  std::vector<at::Tensor> tokens_of;
  int64_t num_image = 0;
  for (const auto& picture : pictures) num_image += tokens_of.emplace_back(to_tokens(picture)).size(1);
  const auto num_text = b.text_in ? in.text_BTE.size(1) : in.hidden_BLD.size(1) - num_image;
  auto [cos, sin] = mmdit::rotary_tables(places(num_text, pictures, in.modulation_BM.options().dtype(at::kDouble)), config_.axes_dims,
                                         config_.rope_theta);
  const nn::Streams streams(shares(), {num_text, num_image});
  cos = streams.by_place(cos, 0);
  sin = streams.by_place(sin, 0);
  at::Tensor image, text, tokens = in.hidden_BLD;
  if (b.text_in) {
    image = b.image_in->forward(at::cat(tokens_of, 1).to(in.text_BTE.scalar_type()));
    text = b.text_in->forward(in.text_BTE);
  } else if (!b.double_blocks.empty() || !streams.are_whole()) {
    text = tokens.narrow(1, 0, num_text).contiguous();
    image = tokens.narrow(1, num_text, num_image).contiguous();
  }
  text = streams.here(0, text);
  image = streams.here(1, image);
  for (auto& block : b.double_blocks) {
    auto out = block->run({image, text, modulation[0], cos, sin});
    image = out[0];
    text = out[1];
  }
  if (text.defined()) tokens = at::cat({text, image}, 1);
  for (auto& block : b.single_blocks) tokens = block->run({tokens, modulation[1], cos, sin})[0];
  if (!b.out) return tokens;
  auto m = modulation[2].chunk(2, -1);  // scale, shift
  const auto num_target = rows * columns, num_last = streams.are_whole() ? num_target : streams.length_here(1);
  auto last = kernels::modulated_norm(tokens.narrow(1, streams.length_here(0), num_last), m[0], m[1], kNormEps);
  auto out = streams.joined(1, b.out->forward(last)).narrow(1, 0, num_target);
  return out.transpose(1, 2).unflatten(2, {rows, columns});
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("_modulation") != path.npos || path.starts_with("norm_out.") || path.starts_with("proj_out.");
  });
}

}  // namespace burnish::models::flux2
