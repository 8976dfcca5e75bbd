#include "models/families/moss_image/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/blocks/modulated_rms_norm.h"
#include "models/families/moss_image/blocks.h"
#include "nn/recomputed_values.h"

namespace burnish::models::moss_image {

namespace {

constexpr double kTimeScale = 1000;

/// Sinusoids [B, width] of 1000 sigma, over frequencies that fall from 1 to 1/10000: cosines, then sines. They are computed in fp64.
at::Tensor time_waves(const at::Tensor& sigma_B, int64_t width) {
  const auto half = width / 2;
  auto time_B = (sigma_B.to(at::kFloat) * kTimeScale).to(at::kDouble);
  auto frequencies = (at::arange(half, time_B.options()) * (-std::log(10000.0) / static_cast<double>(half))).exp();
  auto angles = time_B.unsqueeze(1) * frequencies;
  return at::cat({angles.cos(), angles.sin()}, -1).to(at::kFloat);
}

/// The places of tokens on each of the four axes: number of the reference picture, place in the text, row, column.
using Places = std::array<at::Tensor, 4>;

/// Tables {cos, sin} [..., P/2] of places [...], of which each axis turns a quarter of a head's pairs.
std::pair<at::Tensor, at::Tensor> tables(const Places& places, const Config& c) {
  const auto num_pairs = c.head_dim / 8;
  auto frequencies = (at::arange(num_pairs, places[0].options()) * (-std::log(c.rope_theta) / static_cast<double>(num_pairs))).exp();
  std::vector<at::Tensor> angles;
  for (const auto& axis : places) angles.push_back(axis.unsqueeze(-1) * frequencies);
  auto all = at::cat(angles, -1);
  return {all.cos().to(at::kFloat), all.sin().to(at::kFloat)};
}

/// Tables as SelfAttention takes them, with a number for every one of a head.
std::pair<at::Tensor, at::Tensor> wide_tables(const Places& places, const Config& c) {
  auto [cos, sin] = tables(places, c);
  return {at::cat({cos, cos}, -1), at::cat({sin, sin}, -1)};
}

/// Text token i lies at (0, i, 0, 0).
Places places_of_text(int64_t num_text, const at::TensorOptions& options) {
  auto nowhere = at::zeros({num_text}, options);
  return {nowhere, at::arange(num_text, options), nowhere, nowhere};
}

/// The token (r, c) of a picture lies at its number, behind the text's last token, and at r and c from the picture's middle; `length` of
/// the text [B, 1] or [1].
Places places_of_picture(const at::Tensor& latents, double number, const at::Tensor& length) {
  const auto rows = latents.size(2), columns = latents.size(3);
  auto centred = [&](int64_t count) { return at::arange(count, length.options()) - static_cast<double>(count - 1) / 2; };
  auto row = centred(rows).unsqueeze(1).expand({rows, columns}).reshape({-1}).expand({length.size(0), -1});
  auto column = centred(columns).unsqueeze(0).expand({rows, columns}).reshape({-1}).expand_as(row);
  return {at::full_like(row, number), length.expand_as(row), row, column};
}

/// Places of several runs of tokens [B, n], one behind the other; those of one sample without B.
Places joined(const std::vector<Places>& runs, int64_t B) {
  Places all;
  for (size_t axis = 0; axis < all.size(); ++axis) {
    std::vector<at::Tensor> parts;
    for (const auto& run : runs) parts.push_back(run[axis].expand({B, -1}));
    all[axis] = at::cat(parts, 1);
    if (B == 1) all[axis] = all[axis].squeeze(0);
  }
  return all;
}

at::Tensor as_tokens(const at::Tensor& latents_BCHW) { return latents_BCHW.flatten(2).transpose(1, 2); }

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : time_in(c.time_channels, c.width, o),
        time_out(c.width, c.width, o),
        blocks(c.width, 6 * c.width, o),
        last(c.width, 2 * c.width, o) {}
  nn::Linear time_in, time_out, blocks, last;
};

struct Transformer::Text {
  Text(const Config& c, const at::TensorOptions& o)
      : in(c.caption_width, c.width, o), blocks(mmdit::several<TextBlock>(c.num_text_layers, c, o)) {}
  nn::Linear in;
  std::vector<std::unique_ptr<TextBlock>> blocks;
};

struct Transformer::Body {
  struct Last {
    Last(const Config& c, const at::TensorOptions& o) : norm(c.width, kNormEps, o), out(c.width, c.in_channels, o, false) {}
    nn::RMSNorm norm;
    nn::Linear out;
  };
  Body(const Config& c, const mmdit::HeldLayers& p, const at::TensorOptions& o) {
    if (p.begin == 0) image_in = std::make_unique<nn::Linear>(c.in_channels, c.width, o);
    blocks = mmdit::several<Block>(std::min(p.end, c.num_layers) - p.begin, c, o);
    if (p.end > c.num_layers) last = std::make_unique<Last>(c, o);
  }
  std::unique_ptr<nn::Linear> image_in;
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<Last> last;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c), part_(part) {
  if (part_.end < 0) part_.end = c.num_layers + 1;
  if (part_.modulation) {
    auto& m = *(modulation_ = std::make_unique<Modulation>(c, options));
    own("time_embedding.0", m.time_in);
    own("time_embedding.2", m.time_out);
    own("shared_block_modulation", m.blocks);
    own("video_head_modulation", m.last);
  }
  if (part_.text) {
    auto& t = *(text_ = std::make_unique<Text>(c, options));
    own("text_embedder.proj", t.in);
    for (size_t i = 0; i < t.blocks.size(); ++i) own("text_embedder.blocks." + std::to_string(i), *t.blocks[i]);
  }
  if (!part_.body) return;
  auto& b = *(body_ = std::make_unique<Body>(c, part_, options));
  if (b.image_in) own("video_embedder", *b.image_in);
  auto number = part_.begin;
  for (auto& block : b.blocks) own("layers." + std::to_string(number++), *block);
  if (!b.last) return;
  own("final_norm_video", b.last->norm);
  own("final_linear_video", b.last->out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype, bool with_references) const {
  const auto& m = *modulation_;
  auto embedded = [&](const at::Tensor& sigma) {
    return m.time_out.forward(at::silu(m.time_in.forward(time_waves(sigma, config_.time_channels).to(dtype))));
  };
  auto time_BD = embedded(sigma_B);
  std::vector<at::Tensor> parts{m.blocks.forward(time_BD), m.last.forward(time_BD)};
  if (with_references) parts.push_back(m.blocks.forward(embedded(at::zeros_like(sigma_B))));
  return at::cat(parts, -1);
}

at::Tensor Transformer::embed(const at::Tensor& states_BTE, const at::Tensor& mask_BT) const {
  const auto [cos, sin] = tables(places_of_text(states_BTE.size(1), states_BTE.options().dtype(at::kDouble)), config_);
  nn::Tensors inputs{text_->in.forward(states_BTE), cos, sin};
  // One sample alone has nothing that is masked.
  if (mask_BT.size(0) > 1) inputs.push_back(mmdit::padding_bias(mask_BT, 0));
  for (const auto& block : text_->blocks) inputs[0] = block->run(inputs)[0];
  return inputs[0];
}

Transformer::Tokens Transformer::tokens_of(const Inputs& in, int64_t num_references) const {
  const auto num_text = in.mask_BT.size(1);
  if (!body_->image_in) {
    const auto num_picture = in.hidden_BLD.size(1) - num_references - num_text;
    auto parts = in.hidden_BLD.split_with_sizes({num_references, num_text, num_picture}, 1);
    return {num_references > 0 ? parts[0].contiguous() : at::Tensor(), parts[1], parts[2]};
  }
  auto embedded = [&](const at::Tensor& tokens) { return body_->image_in->forward(tokens.to(in.text_BTD.scalar_type())); };
  std::vector<at::Tensor> references;
  for (const auto& latents : in.references_BCHW) references.push_back(as_tokens(latents));
  return {num_references > 0 ? embedded(at::cat(references, 1)) : at::Tensor(), in.text_BTD, embedded(as_tokens(in.noisy_BCHW))};
}

// The files' transformer has the picture's tokens first and the references last. Attention does not see their order, and the last run of a
// sequence that is shared out is the picture.
at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto D = config_.width, B = in.mask_BT.size(0), rows = in.noisy_BCHW.size(2), columns = in.noisy_BCHW.size(3);
  const auto num_text = in.mask_BT.size(1), num_picture = rows * columns;
  const auto length_B1 = in.mask_BT.to(at::kDouble).sum(1, /*keepdim=*/true);
  const auto [cos, sin] =
      wide_tables(joined({places_of_text(num_text, length_B1.options()), places_of_picture(in.noisy_BCHW, 0, length_B1)}, B), config_);
  std::vector<Places> of_references;
  for (const auto& latents : in.references_BCHW)
    of_references.push_back(places_of_picture(latents, static_cast<double>(of_references.size() + 1), length_B1));
  int64_t num_references = 0;
  for (const auto& places : of_references) num_references += places[0].size(1);
  const auto tokens = tokens_of(in, num_references);
  std::vector<int64_t> lengths{num_text + num_picture};
  if (num_references > 0) lengths.insert(lengths.begin(), num_references);
  const nn::Streams streams(shares(), lengths);
  const auto last_run = lengths.size() - 1;

  auto of_blocks = in.modulation_BM.narrow(1, 0, 6 * D);
  nn::Tensors inputs{streams.here(last_run, at::cat({tokens.text, tokens.picture}, 1)), of_blocks, cos, sin};
  if (num_references > 0) {
    inputs[1] = at::cat({of_blocks, in.modulation_BM.narrow(1, 8 * D, 6 * D)}, 1);
    const auto [their_cos, their_sin] = wide_tables(joined(of_references, B), config_);
    inputs.insert(inputs.end(), {streams.here(0, tokens.references), their_cos, their_sin});
  }
  if (B > 1) inputs.push_back(mmdit::padding_bias(at::constant_pad_nd(in.mask_BT, {num_references, 0}, 1), num_picture));
  auto number = part_.begin;
  for (auto& block : b.blocks) {
    if (number++ == in.left_out) continue;
    auto out = block->run(inputs);
    inputs[0] = out[0];
    if (num_references > 0) inputs[4] = out[1];
  }
  if (!b.last) return num_references > 0 ? at::cat({inputs[4], inputs[0]}, 1) : inputs[0];
  // Of tokens that are all here, those of the text are not read any more.
  auto last = streams.are_whole() ? inputs[0].narrow(1, num_text, num_picture) : inputs[0];
  const auto m = in.modulation_BM.narrow(1, 6 * D, 2 * D).chunk(2, -1);  // shift, scale
  auto out = nn::recomputed({last, b.last->norm.weight, m[1], m[0]}, modulated_rms_norm(kNormEps),
                            [&](const nn::Tensors& moved) { return nn::Tensors{b.last->out.forward(moved[0])}; })[0];
  out = streams.joined(last_run, out);
  return out.narrow(1, out.size(1) - num_picture, num_picture).transpose(1, 2).unflatten(2, {rows, columns});
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.starts_with("shared_block_modulation.") || path.starts_with("video_head_modulation.") ||
           path.starts_with("final_linear_video.");
  });
}

}  // namespace burnish::models::moss_image
