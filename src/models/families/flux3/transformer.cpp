#include "models/families/flux3/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/families/flux3/blocks.h"

namespace burnish::models::flux3 {

namespace {

constexpr double kNormEps = 1e-6;
/// The distance between neighbouring tokens of a picture (diffusers: before_denoise.py of modular_pipelines/flux3).
constexpr double kStep = 0.5;

at::Tensor to_tokens(const at::Tensor& x_BCHW) { return x_BCHW.flatten(2).transpose(1, 2); }

/// The places of a stream's tokens [L] for each axis, fp64.
using Places = std::vector<at::Tensor>;

/// Text token i sits at (0, 0, 0, i).
Places text_places(int64_t num_text, const at::TensorOptions& options) {
  auto nowhere = at::zeros({num_text}, options);
  return {nowhere, nowhere, nowhere, at::arange(num_text, options)};
}

/// The token (r, c) of a picture sits at (0, r / 2, c / 2, 0), that of the k-th reference picture at (0, r / 2, c / 2, -k).
Places picture_places(const std::vector<at::Tensor>& pictures_BCHW, double last_axis, const at::TensorOptions& options) {
  std::vector<std::vector<at::Tensor>> axes(4);
  for (const auto& latents : pictures_BCHW) {
    const auto rows = latents.size(2), columns = latents.size(3);
    axes[0].push_back(at::zeros({rows * columns}, options));
    axes[1].push_back(at::arange(rows, options).unsqueeze(1).expand({rows, columns}).reshape({-1}) * kStep);
    axes[2].push_back(at::arange(columns, options).unsqueeze(0).expand({rows, columns}).reshape({-1}) * kStep);
    axes[3].push_back(at::full({rows * columns}, last_axis, options));
    last_axis -= 1;
  }
  Places joined;
  for (const auto& axis : axes) joined.push_back(at::cat(axis));
  return joined;
}

using Blocks = std::vector<std::unique_ptr<Block>>;

}  // namespace

/// A kind of tokens on its way through the blocks.
struct Transformer::Stream {
  at::Tensor tokens_BLD, early_B3D, joint_B3D, cos, sin;
  at::Tensor bias = {};  ///< of attention within the stream; undefined: none

  /// The tokens behind blocks of their own, all of them.
  at::Tensor behind(const Blocks& blocks, nn::TokenShares* shares) const;
};

at::Tensor Transformer::Stream::behind(const Blocks& blocks, nn::TokenShares* shares) const {
  const nn::Streams alone(shares, {tokens_BLD.size(1)});
  nn::Tensors inputs{early_B3D, alone.by_place(cos, 0), alone.by_place(sin, 0), alone.here(0, tokens_BLD)};
  if (bias.defined()) inputs.push_back(alone.bias_by_place(bias));
  for (const auto& block : blocks) inputs[3] = block->run(inputs)[0];
  return alone.joined(0, inputs[3]);
}

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : time(mmdit::kTimeChannels, c.width(), o, false),
        target(c.is_flow_map ? std::make_unique<mmdit::EmbedMlp>(mmdit::kTimeChannels, c.width(), o, false) : nullptr),
        last(c.width(), 2 * c.width(), o, false) {
    for (auto* linear : {&early_image, &early_text, &early_reference, &joint_image, &joint_text, &joint_reference})
      *linear = std::make_unique<nn::Linear>(c.width(), 3 * c.width(), o, false);
  }
  mmdit::EmbedMlp time;
  std::unique_ptr<mmdit::EmbedMlp> target;
  std::unique_ptr<nn::Linear> early_image, early_text, early_reference, joint_image, joint_text, joint_reference;
  nn::Linear last;
};

struct Transformer::Body {
  /// `begin` and `end` count joint blocks.
  Body(const Config& c, int64_t begin, int64_t end, bool with_early, const at::TensorOptions& o)
      : joint(mmdit::several<Block>(std::min(end, c.num_joint_blocks) - begin, c, o)) {
    auto linear = [&](int64_t in, int64_t out_width) { return std::make_unique<nn::Linear>(in, out_width, o, false); };
    if (with_early) {
      image_in = linear(c.in_channels, c.width());
      reference_in = linear(c.in_channels, c.width());
      for (auto* blocks : {&image, &text, &reference}) *blocks = mmdit::several<Block>(c.num_early_blocks, c, o);
    }
    if (end > c.num_joint_blocks) out = linear(c.width(), c.in_channels);
  }
  std::unique_ptr<nn::Linear> image_in, reference_in;  ///< with what comes before the joint blocks
  Blocks image, text, reference, joint;
  std::unique_ptr<nn::Linear> out;  ///< with what comes behind them
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) {
    auto& m = *(modulation_ = std::make_unique<Modulation>(c, options));
    own("timestep_embedder", m.time);
    if (m.target) own("target_timestep_embedder", *m.target);
    own("early_stream_modulations.image.linear", *m.early_image);
    own("early_stream_modulations.image_cond.linear", *m.early_reference);
    own("early_stream_modulations.txt.linear", *m.early_text);
    own("single_stream_modulations.image.linear", *m.joint_image);
    own("single_stream_modulations.image_cond.linear", *m.joint_reference);
    own("single_stream_modulations.txt.linear", *m.joint_text);
    own("norm_out.linear", m.last);
  }
  if (part.text) {
    text_in_ = std::make_unique<nn::Linear>(c.caption_width, c.width(), options, false);
    own("context_embedder", *text_in_);
  }
  if (!part.body) return;
  const auto num_early = c.early_blocks(), begin = std::max<int64_t>(part.begin - num_early, 0);
  const auto end = part.end < 0 ? c.num_joint_blocks + 1 : part.end - num_early;
  auto& b = *(body_ = std::make_unique<Body>(c, begin, end, part.begin == 0, options));
  auto own_stack = [this](const std::string& name, Blocks& blocks, int64_t number = 0) {
    for (auto& block : blocks) own(name + "." + std::to_string(number++), *block);
  };
  if (b.image_in) own("x_embedders.image", *b.image_in);
  if (b.reference_in) own("x_embedders.image_cond", *b.reference_in);
  own_stack("txt_mode_blocks", b.text);
  own_stack("mode_blocks.image", b.image);
  own_stack("mode_blocks.image_cond", b.reference);
  own_stack("single_transformer_blocks", b.joint, begin);
  if (b.out) own("proj_out", *b.out);
}

Transformer::~Transformer() = default;

Transformer::Modulated Transformer::modulate(const at::Tensor& sigma_B, const at::Tensor& target_B, bool with_references,
                                             at::ScalarType dtype) const {
  const auto& m = *modulation_;
  auto image_BD = m.time.forward(mmdit::time_projection(sigma_B, dtype));
  auto others_BD = m.time.forward(mmdit::time_projection(at::zeros_like(sigma_B), dtype));  // texts and references have no noise
  if (m.target) {
    const auto target_BD = m.target->forward(mmdit::time_projection(target_B, dtype));
    image_BD = image_BD + target_BD;
    others_BD = others_BD + target_BD;
  }
  image_BD = at::silu(image_BD);
  others_BD = at::silu(others_BD);
  Modulated made{at::cat({m.early_image->forward(image_BD), m.early_text->forward(others_BD), m.joint_text->forward(others_BD),
                          m.joint_image->forward(image_BD), m.last.forward(image_BD)},
                         -1)};
  if (with_references) made.references_BM = at::cat({m.early_reference->forward(others_BD), m.joint_reference->forward(others_BD)}, -1);
  return made;
}

at::Tensor Transformer::embed(const at::Tensor& text_BTE) const { return text_in_->forward(text_BTE); }

/// The streams of a sample, without tokens: texts come first, as in diffusers.
std::vector<Transformer::Stream> Transformer::streams_of(const Inputs& in) const {
  const auto options = in.modulation_BM.options().dtype(at::kDouble);
  const auto D = config_.width();
  auto stream = [&](const Places& places, const at::Tensor& modulation_BM, int64_t early, int64_t joint) {
    auto [cos, sin] = mmdit::rotary_tables(places, config_.axes_dims, config_.rope_theta);
    return Stream{{}, modulation_BM.narrow(1, early * D, 3 * D), modulation_BM.narrow(1, joint * D, 3 * D), cos, sin};
  };
  std::vector<Stream> streams{stream(text_places(in.mask_BT.size(1), options), in.modulation_BM, 3, 6),
                              stream(picture_places({in.noisy_BCHW}, 0, options), in.modulation_BM, 0, 9)};
  if (!in.references_BCHW.empty())
    streams.push_back(stream(picture_places(in.references_BCHW, -1, options), in.reference_modulation_BM, 0, 3));
  return streams;
}

/// Gives streams their tokens, behind the blocks of their own.
void Transformer::run_early_blocks(std::vector<Stream>& streams, const Inputs& in) const {
  auto& b = *body_;
  auto embedded = [&](const nn::Linear& layer, const at::Tensor& tokens) { return layer.forward(tokens.to(in.text_BTD.scalar_type())); };
  streams[0].tokens_BLD = in.text_BTD;
  if (in.mask_BT.size(0) > 1) streams[0].bias = mmdit::padding_bias(in.mask_BT, 0);
  streams[1].tokens_BLD = embedded(*b.image_in, to_tokens(in.noisy_BCHW));
  std::vector<at::Tensor> references;
  for (const auto& picture : in.references_BCHW) references.push_back(to_tokens(picture));
  if (!references.empty()) streams[2].tokens_BLD = embedded(*b.reference_in, at::cat(references, 1));
  const Blocks* alone[] = {&b.text, &b.image, &b.reference};
  for (size_t i = 0; i < streams.size(); ++i) streams[i].tokens_BLD = streams[i].behind(*alone[i], shares());
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  auto streams = streams_of(in);
  if (b.image_in) run_early_blocks(streams, in);
  std::vector<int64_t> lengths;
  std::vector<at::Tensor> cos, sin, modulation;
  int64_t num_before = 0;
  for (auto& s : streams) {
    lengths.push_back(s.cos.size(0));
    if (!b.image_in) s.tokens_BLD = in.hidden_BLD.narrow(1, num_before, lengths.back()).contiguous();
    num_before += lengths.back();
    cos.push_back(s.cos);
    sin.push_back(s.sin);
    modulation.push_back(s.joint_B3D);
  }
  const nn::Streams together(shares(), lengths);
  nn::Tensors inputs{at::cat(modulation, -1), together.by_place(at::cat(cos), 0), together.by_place(at::cat(sin), 0)};
  for (size_t i = 0; i < streams.size(); ++i) inputs.push_back(together.here(i, streams[i].tokens_BLD));
  if (in.mask_BT.size(0) > 1)  // of one sample nothing is masked
    inputs.push_back(together.bias_by_place(mmdit::padding_bias(in.mask_BT, num_before - lengths[0])));
  for (const auto& block : b.joint) std::ranges::copy(block->run(inputs), inputs.begin() + 3);
  if (!b.out) return at::cat(nn::Tensors(inputs.begin() + 3, inputs.begin() + 3 + std::ssize(streams)), 1);

  const auto last = in.modulation_BM.narrow(1, 12 * config_.width(), 2 * config_.width()).chunk(2, -1);  // scale, shift
  auto image = kernels::modulated_norm(inputs[4], last[0], last[1], kNormEps);
  return together.joined(1, b.out->forward(image)).transpose(1, 2).unflatten(2, in.noisy_BCHW.sizes().slice(2));
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("_modulations") != path.npos || path.starts_with("norm_out.") || path.starts_with("proj_out.");
  });
}

}  // namespace burnish::models::flux3
