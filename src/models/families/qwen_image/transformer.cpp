#include "models/families/qwen_image/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "kernels/modulated_norm/modulated_norm.h"
#include "nn/parts.h"

namespace burnish::models::qwen_image {

namespace {

constexpr double kRopeTheta = 10000.0, kNormEps = 1e-6;
constexpr mmdit::DoubleBlock::Names kBlockNames{.image_mlp = "img_mlp", .text_mlp = "txt_mlp"};

/// The tokens of a target and its references, with others in the target's place.
at::Tensor with_target(const at::Tensor& image_BID, int64_t num_target, const at::Tensor& target_BID) {
  auto num_behind = image_BID.size(1) - num_target;
  return num_behind == 0 ? target_BID : at::cat({target_BID, image_BID.narrow(1, num_target, num_behind)}, 1);
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : embedder(mmdit::kTimeChannels, c.width(), o),
        of_blocks(mmdit::several<nn::Linear>(2 * c.num_layers, c.width(), 6 * c.width(), o)),
        last(c.width(), 2 * c.width(), o) {
    if (c.has_layers) of_layers = std::make_unique<nn::Embedding>(2, c.width(), o);
  }
  mmdit::EmbedMlp embedder;
  std::unique_ptr<nn::Embedding> of_layers;            ///< what is added for pictures with transparency, and for those without
  std::vector<std::unique_ptr<nn::Linear>> of_blocks;  ///< of the picture and of the caption, in turn
  nn::Linear last;
};

struct Transformer::Body {
  Body(const Config& c, const at::TensorOptions& o)
      : image_in(c.in_channels, c.width(), o),
        text_norm(c.caption_width, kNormEps, o),
        text_in(c.caption_width, c.width(), o),
        blocks(mmdit::several<mmdit::DoubleBlock>(
            c.num_layers, mmdit::Widths{.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = c.hidden}, o, kBlockNames)),
        out(c.width(), c.in_channels, o) {}
  nn::Linear image_in;
  nn::RMSNorm text_norm;
  nn::Linear text_in;
  std::vector<std::unique_ptr<mmdit::DoubleBlock>> blocks;
  nn::Linear out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) modulation_ = std::make_unique<Modulation>(c, options);
  if (part.body) body_ = std::make_unique<Body>(c, options);
  if (body_) {
    own("img_in", body_->image_in);
    own("txt_norm", body_->text_norm);
    own("txt_in", body_->text_in);
  }
  if (modulation_) own("time_text_embed.timestep_embedder", modulation_->embedder);
  if (modulation_ && modulation_->of_layers) own("time_text_embed.addition_t_embedding", *modulation_->of_layers);
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

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype, bool with_references) const {
  const auto& m = *modulation_;
  auto embedded = [&](const at::Tensor& sigma) {
    auto time_BD = m.embedder.forward(mmdit::time_projection(sigma, dtype));
    if (m.of_layers) time_BD = time_BD + m.of_layers->forward(at::zeros_like(sigma, at::kLong)).to(dtype);
    return at::silu(time_BD);
  };
  auto conditioning_BD = embedded(sigma_B);
  auto of_references_BD = config_.zero_cond_t && with_references ? embedded(at::zeros_like(sigma_B)) : at::Tensor();
  std::vector<std::function<at::Tensor()>> parts;
  for (size_t i = 0; i < m.of_blocks.size(); i += 2) {
    parts.emplace_back([&, i] {
      std::vector<at::Tensor> all{m.of_blocks[i]->forward(conditioning_BD), m.of_blocks[i + 1]->forward(conditioning_BD)};
      if (of_references_BD.defined()) all.push_back(m.of_blocks[i]->forward(of_references_BD));
      return at::cat(all, -1);
    });
  }
  parts.emplace_back([&] { return m.last.forward(conditioning_BD); });
  return nn::joined(parts);
}

/// Rotary tables [T + I, P]. The tokens of the n-th picture sit at n and at their rows and columns counted from its middle; the caption's
/// on the diagonal behind all of them (diffusers: QwenEmbedRope with scale_rope). Beside layers, the first `num_targets` pictures, another
/// picture sits at -1 (QwenEmbedLayer3DRope).
std::pair<at::Tensor, at::Tensor> Transformer::rope(int64_t num_text, const std::vector<at::Tensor>& pictures, int64_t num_targets,
                                                    const at::TensorOptions& options) const {
  auto opts = options.dtype(at::kDouble);
  auto from_middle = [&](int64_t count) { return at::arange(count / 2 - count, count / 2, opts); };
  std::vector<at::Tensor> places_3I;
  int64_t first = config_.has_layers ? num_targets : 0;
  for (const auto& x_BCHW : pictures) {
    auto rows = x_BCHW.size(2) / 2, columns = x_BCHW.size(3) / 2;
    auto row = from_middle(rows).unsqueeze(1).expand({rows, columns}).flatten();
    auto column = from_middle(columns).unsqueeze(0).expand({rows, columns}).flatten();
    const auto number = std::ssize(places_3I);
    places_3I.push_back(at::stack({at::full_like(row, config_.has_layers && number >= num_targets ? -1 : number), row, column}));
    first = std::max({first, rows / 2, columns / 2});
  }
  auto text = at::arange(first, first + num_text, opts);
  auto image_3I = at::cat(places_3I, 1);
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < config_.axes_dims.size(); ++axis) {
    auto dim = config_.axes_dims[axis];
    auto frequencies = (at::arange(0, dim, 2, opts) * (-std::log(kRopeTheta) / static_cast<double>(dim))).exp();
    angles.push_back(at::cat({text, image_3I[static_cast<int64_t>(axis)]}).unsqueeze(1) * frequencies.unsqueeze(0));
  }
  auto table = at::cat(angles, 1);
  return {table.cos().to(at::kFloat), table.sin().to(at::kFloat)};
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto width = config_.width(), in_blocks = in.modulation_BM.size(1) - 2 * width;
  std::vector<int64_t> sizes(b.blocks.size(), in_blocks / std::ssize(b.blocks));
  sizes.push_back(2 * width);
  nn::Parts modulation(in.modulation_BM, sizes);

  auto pictures = config_.has_layers ? in.noisy_BCHW.unbind(2) : std::vector{in.noisy_BCHW};
  const auto num_targets = std::ssize(pictures);
  std::vector<at::Tensor> tokens;
  pictures.insert(pictures.end(), in.references.begin(), in.references.end());
  for (const auto& picture : pictures) tokens.push_back(mmdit::to_tokens(picture).to(in.text_BTE.scalar_type()));
  const auto rows = in.noisy_BCHW.size(-2) / 2, columns = in.noisy_BCHW.size(-1) / 2, num_target = num_targets * rows * columns;
  auto image = b.image_in.forward(tokens.size() == 1 ? tokens[0] : at::cat(tokens, 1));
  auto text = b.text_in.forward(b.text_norm.forward(in.text_BTE));
  auto [cos, sin] = rope(text.size(1), pictures, num_targets, in.modulation_BM.options());
  // One sample alone has nothing that is masked.
  auto bias = in.mask_BT.size(0) > 1 ? mmdit::padding_bias(in.mask_BT, image.size(1)) : at::Tensor();
  const auto num_text = text.size(1), num_image = image.size(1);
  at::Tensor references;
  const bool for_two = sizes.front() > 12 * width, is_apart = for_two && !in.references.empty();
  std::vector<int64_t> lengths{num_text, num_image};
  if (is_apart) {
    references = image.narrow(1, num_target, num_image - num_target).contiguous();
    image = image.narrow(1, 0, num_target).contiguous();
    lengths = {num_text, num_target, num_image - num_target};
  }
  const nn::Streams streams(shares(), lengths);
  cos = streams.by_place(cos, 0);
  sin = streams.by_place(sin, 0);
  bias = streams.bias_by_place(bias);
  text = streams.here(0, text);
  image = streams.here(1, image);
  if (is_apart) references = streams.here(2, references);
  int64_t number = 0;
  for (auto& block : b.blocks) {
    auto of_block = modulation.next();
    nn::Tensors inputs{image, text, for_two && !is_apart ? of_block.narrow(1, 0, 12 * width) : of_block, cos, sin};
    if (is_apart) inputs.push_back(references);
    if (bias.defined()) inputs.push_back(bias);
    auto out = block->run(inputs);
    image = out[0];
    text = out[1];
    if (is_apart) references = out[2];
    if (in.after_block) {
      auto whole = streams.joined(1, image);
      image = streams.here(1, with_target(whole, num_target, in.after_block(number, whole.narrow(1, 0, num_target))));
    }
    ++number;
  }
  auto m = modulation.next().chunk(2, -1);  // scale, shift
  if (streams.are_whole() && image.size(1) > num_target) image = image.narrow(1, 0, num_target);
  auto out = streams.joined(1, b.out.forward(kernels::modulated_norm(image, m[0], m[1], kNormEps)));
  if (out.size(1) > num_target) out = out.narrow(1, 0, num_target);
  if (!config_.has_layers) return mmdit::from_tokens(out, rows, columns);
  std::vector<at::Tensor> layers;
  for (const auto& layer : out.chunk(num_targets, 1)) layers.push_back(mmdit::from_tokens(layer, rows, columns));
  return at::stack(layers, 2);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("_mod.1.") != path.npos || path.starts_with("norm_out.") || path.starts_with("proj_out.");
  });
}

}  // namespace burnish::models::qwen_image
