#include "models/families/longcat_video/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>

#include <optional>

#include "kernels/gelu_tanh/gelu_tanh.h"
#include "models/blocks/padding_row.h"
#include "models/blocks/patch_tokens.h"
#include "models/blocks/waves.h"
#include "models/families/longcat_video/blocks.h"
#include "nn/modulation_in_fp32.h"
#include "nn/parts.h"

namespace burnish::models::longcat_video {

namespace {

constexpr int64_t kPatch = 2;
constexpr double kRopeTheta = 10000;
/// Vectors that modulate a block, and the last norm.
constexpr int64_t kOfBlock = 6, kOfLast = 2;

/// Makes of a text's states what blocks attend to: linear, tanh-GELU, linear. Of padding it is zeros.
class TextEmbedder : public nn::Module {
 public:
  TextEmbedder(const Config& c, const at::TensorOptions& o) : first_(c.caption_width, c.width, o), second_(c.width, c.width, o) {
    own("y_proj.0", first_);
    own("y_proj.2", second_);
  }
  at::Tensor forward(const at::Tensor& text_BTE) const {
    auto embedded = second_.forward(kernels::gelu_tanh(first_.forward(text_BTE)));
    return embedded * text_BTE.ne(0).any(-1, /*keepdim=*/true);
  }

 private:
  nn::Linear first_, second_;
};

/// Makes the tables of tokens by frame, row and column.
Places places_of(const Config& c, int64_t frames, int64_t rows, int64_t columns, const at::TensorOptions& options) {
  auto along = [&](int64_t count, at::IntArrayRef shape) {
    return at::arange(count, options.dtype(at::kDouble)).view(shape).expand({frames, rows, columns}).reshape({-1});
  };
  auto [cos, sin] =
      mmdit::rotary_tables({along(frames, {-1, 1, 1}), along(rows, {1, -1, 1}), along(columns, {1, 1, -1})}, c.axes_dims(), kRopeTheta);
  return {cos, sin};
}

std::string block_path(size_t i) { return "blocks." + std::to_string(i); }

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : time_in(c.time_channels, c.time_width, o), time_out(c.time_width, c.time_width, o) {
    for (int64_t i = 0; i < c.num_layers; ++i) of_blocks.push_back(std::make_unique<nn::Linear>(c.time_width, kOfBlock * c.width, o));
    of_blocks.push_back(std::make_unique<nn::Linear>(c.time_width, kOfLast * c.width, o));
  }
  nn::Linear time_in, time_out;
  std::vector<std::unique_ptr<nn::Linear>> of_blocks;  ///< and behind them of the last norm
};

struct Transformer::Body {
  Body(const Config& c, const at::TensorOptions& o)
      : patch_in(c.channels, c.width, kernels::Window{{1, kPatch, kPatch}, {1, kPatch, kPatch}, {0, 0, 0}, {1, 1, 1}}, o),
        text(c, o),
        blocks(mmdit::several<Block>(c.num_layers, c, o)),
        out(c.width, kPatch * kPatch * c.channels, o) {}
  nn::Conv patch_in;
  TextEmbedder text;
  std::vector<std::unique_ptr<Block>> blocks;
  nn::Linear out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) modulation_ = std::make_unique<Modulation>(c, options.dtype(at::kFloat));
  if (part.body) body_ = std::make_unique<Body>(c, options);
  own_modulation();
  own_body();
}

Transformer::~Transformer() = default;

void Transformer::own_modulation() {
  if (!modulation_) return;
  own("t_embedder.mlp.0", modulation_->time_in);
  own("t_embedder.mlp.2", modulation_->time_out);
  const auto& layers = modulation_->of_blocks;
  for (size_t i = 0; i + 1 < layers.size(); ++i) own(block_path(i) + ".adaLN_modulation.1", *layers[i]);
  own("final_layer.adaLN_modulation.1", *layers.back());
}

void Transformer::own_body() {
  if (!body_) return;
  own("x_embedder.proj", body_->patch_in);
  own("y_embedder", body_->text);
  for (size_t i = 0; i < body_->blocks.size(); ++i) own(block_path(i), *body_->blocks[i]);
  own("final_layer.linear", body_->out);
}

std::vector<nn::Block*> Transformer::blocks() const {
  std::vector<nn::Block*> all;
  if (!body_) return all;
  for (const auto& block : body_->blocks) all.push_back(block.get());
  return all;
}

at::Tensor Transformer::modulate(const at::Tensor& sigma_B) const {
  const auto& m = *modulation_;
  const auto time = m.time_in.forward(waves(sigma_B.to(at::kDouble) * 1000.0, config_.time_channels));
  const auto conditioning = at::silu(m.time_out.forward(at::silu(time)));
  std::vector<std::function<at::Tensor()>> parts;
  for (const auto& layer : m.of_blocks) parts.emplace_back([&] { return layer->forward(conditioning); });
  return nn::joined(parts);
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto frames = in.noisy_BCFHW.size(2), rows = in.noisy_BCFHW.size(3) / kPatch, columns = in.noisy_BCFHW.size(4) / kPatch;
  const bool has_given = in.num_given > 0;
  std::vector<int64_t> sizes(b.blocks.size(), kOfBlock * config_.width);
  sizes.push_back(kOfLast * config_.width);
  nn::Parts modulation(in.modulation_BM, sizes);
  std::optional<nn::Parts> given_modulation;
  if (has_given) given_modulation.emplace(in.given_modulation_BM, sizes);

  const auto tokens = b.patch_in.forward(in.noisy_BCFHW.to(in.text_BTE.scalar_type())).flatten(2).transpose(1, 2);
  const auto num_given = in.num_given * rows * columns, num_noisy = tokens.size(1) - num_given;
  const nn::Streams streams(shares(), has_given ? std::vector<int64_t>{num_given, num_noisy} : std::vector<int64_t>{num_noisy});
  const size_t noisy_run = has_given ? 1 : 0;
  const auto [cos, sin] = places_of(config_, frames, rows, columns, in.modulation_BM.options());
  const auto text = b.text.forward(in.text_BTE), bias = bias_of_counts(in.counts_BT);
  auto noisy = streams.here(noisy_run, tokens.narrow(1, num_given, num_noisy).contiguous()), given = at::Tensor();
  if (has_given) given = streams.here(0, tokens.narrow(1, 0, num_given).contiguous());
  for (auto& block : b.blocks) {
    nn::Tensors inputs{noisy, modulation.next(), text, bias, cos.slice(0, num_given), sin.slice(0, num_given)};
    if (has_given) inputs.insert(inputs.end(), {given, given_modulation->next(), cos.narrow(0, 0, num_given), sin.narrow(0, 0, num_given)});
    auto out = block->run(inputs);
    noisy = out[0];
    if (has_given) given = out[1];
  }

  // A given frame's prediction is never read; it is predicted all the same, as a frame of the latents' shape.
  auto predicted = [&](const at::Tensor& x, nn::Parts& of, size_t run) {
    const auto m = of.next().chunk(kOfLast, -1);  // shift, scale
    return streams.joined(run, b.out.forward(nn::modulated(x, m[1], m[0], kTokenEps)));
  };
  auto all = predicted(noisy, modulation, noisy_run);
  if (has_given) all = at::cat({predicted(given, *given_modulation, 0), all}, 1);
  return -clip_of_channels_last_tokens(all, frames, rows, columns);  // the model leads from noise to latents
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("adaLN_modulation.") != path.npos || path.starts_with("final_layer.linear");
  });
}

}  // namespace burnish::models::longcat_video
