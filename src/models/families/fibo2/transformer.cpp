#include "models/families/fibo2/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/modulated_norm/modulated_norm.h"
#include "models/families/fibo2/blocks.h"

namespace burnish::models::fibo2 {

namespace {

constexpr double kLastNormEps = 1e-6;

at::Tensor as_tokens(const at::Tensor& latents_BCHW) { return latents_BCHW.flatten(2).transpose(1, 2); }

/// The states of a text that one reader reads, side by side.
at::Tensor text_for(size_t reader, const Config& c, const at::Tensor& states_BTNE) {
  std::vector<at::Tensor> states;
  for (const auto place : read_together(c, reader)) states.push_back(states_BTNE.select(2, place));
  return at::cat(states, -1);
}

/// 1 for the gist tokens of each text of a batch and 0 behind them, [B, G], by the lengths of the texts.
at::Tensor gist_mask(const Config& c, const at::Tensor& mask_BT) {
  const auto num_gist_B1 = c.gist.count(mask_BT.to(at::kDouble).sum(1, /*keepdim=*/true));
  return (at::arange(c.gist.count(mask_BT.size(1)), num_gist_B1.options()) < num_gist_B1).to(at::kFloat);
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : time_in(mmdit::kTimeChannels, c.time_hidden, o), time_out(c.time_hidden, c.blocks.condition_width(), o) {}
  nn::Linear time_in, time_out;
};

struct Transformer::Text {
  Text(const Config& c, const at::TensorOptions& o)
      : queries_GD(at::empty({c.gist.most, c.blocks.width}, o)),
        layers(mmdit::several<GistLayer>(c.gist.num_layers, c, o)),
        norm(c.blocks.width, c.blocks.norm_eps, o) {}
  at::Tensor queries_GD;
  std::vector<std::unique_ptr<GistLayer>> layers;
  nn::RMSNorm norm;
};

struct Transformer::Body {
  struct Last {
    Last(const Config& c, const at::TensorOptions& o)
        : modulation(c.blocks.condition_width(), c.blocks.width, o), out(c.blocks.width, c.in_channels(), o) {}
    nn::Linear modulation, out;
  };
  /// A layer, and which reader of the text it is; 0 for layers that read none.
  struct Layer {
    std::unique_ptr<nn::Block> block;
    size_t reader = 0;
  };
  Body(const Config& c, const mmdit::HeldStacks& held, const at::TensorOptions& o) : first_layer(held.stacks[1].first) {
    if (held.begins) image_in = std::make_unique<nn::Linear>(c.in_channels(), c.blocks.width, o);
    refiner = mmdit::several<SandwichBlock>(held.stacks[0].count, block_sizes(c.blocks), o);
    for (auto i = first_layer; i < held.stacks[1].end(); ++i) {
      const auto found = std::ranges::find(c.blocks.reading, i);
      if (found == c.blocks.reading.end()) layers.push_back({std::make_unique<SandwichBlock>(block_sizes(c.blocks), o)});
      else layers.push_back({std::make_unique<ReadingBlock>(c, o), static_cast<size_t>(found - c.blocks.reading.begin()) + 1});
    }
    if (held.ends) last = std::make_unique<Last>(c, o);
  }
  std::unique_ptr<nn::Linear> image_in;
  std::vector<std::unique_ptr<SandwichBlock>> refiner;
  int64_t first_layer;
  std::vector<Layer> layers;
  std::unique_ptr<Last> last;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) {
    modulation_ = std::make_unique<Modulation>(c, options);
    own("t_embedder.mlp.0", modulation_->time_in);
    own("t_embedder.mlp.2", modulation_->time_out);
  }
  if (part.text) {
    text_ = std::make_unique<Text>(c, options);
    own("perceiver.latent_queries", text_->queries_GD);
    for (size_t i = 0; i < text_->layers.size(); ++i) own("perceiver.layers." + std::to_string(i), *text_->layers[i]);
    own("perceiver.norm_out", text_->norm);
  }
  if (!part.body) return;
  body_ = std::make_unique<Body>(c, mmdit::held_stacks(part, {c.blocks.num_refiner_layers, c.blocks.num_layers}), options);
  auto& b = *body_;
  if (b.image_in) own("x_embedder", *b.image_in);
  auto number = part.begin;
  for (auto& block : b.refiner) own("noise_refiner." + std::to_string(number++), *block);
  number = b.first_layer;
  for (auto& layer : b.layers) own("layers." + std::to_string(number++), *layer.block);
  if (!b.last) return;
  own("final_layer.adaLN_modulation.1", b.last->modulation);
  own("final_layer.linear", b.last->out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  auto embedded = [&](const at::Tensor& sigma) {
    return modulation_->time_out.forward(at::silu(modulation_->time_in.forward(mmdit::time_projection(sigma, dtype))));
  };
  return at::cat({embedded(sigma_B), embedded(at::zeros_like(sigma_B))}, 1);
}

at::Tensor Transformer::gist(const at::Tensor& states_BTNE, const at::Tensor& mask_BT) const {
  const auto B = states_BTNE.size(0), num_gist = config_.gist.count(states_BTNE.size(1));
  nn::Tensors inputs{text_->queries_GD.narrow(0, 0, num_gist).unsqueeze(0).expand({B, num_gist, config_.blocks.width}),
                     text_for(0, config_, states_BTNE)};
  // One sample alone has nothing that is masked.
  if (B > 1) inputs.insert(inputs.end(), {mmdit::padding_bias(mask_BT, 0), mmdit::padding_bias(gist_mask(config_, mask_BT), 0)});
  for (const auto& layer : text_->layers) inputs[0] = layer->run(inputs)[0];
  return text_->norm.forward(inputs[0]);
}

Transformer::Tokens Transformer::tokens_of(const Inputs& in) const {
  int64_t num_references = 0;
  for (const auto& reference : in.references_BCHW) num_references += reference.size(2) * reference.size(3);
  if (!body_->image_in) {
    const auto num_gist = config_.gist.count(in.text_BTNE.size(1)), num_all = in.hidden_BLD.size(1);
    auto parts = in.hidden_BLD.split_with_sizes({num_gist, num_references, num_all - num_gist - num_references}, 1);
    return {parts[0], num_references > 0 ? parts[1].contiguous() : at::Tensor(), parts[2].contiguous()};
  }
  auto embedded = [&](const at::Tensor& tokens) { return body_->image_in->forward(tokens.to(in.gist_BGD.scalar_type())); };
  std::vector<at::Tensor> references;
  for (const auto& latents : in.references_BCHW) references.push_back(as_tokens(latents));
  return {in.gist_BGD, num_references > 0 ? embedded(at::cat(references, 1)) : at::Tensor(), embedded(as_tokens(in.noisy_BCHW))};
}

/// Gist token i lies at (1 + i, 0, 0), the picture in the plane behind the most of them, and each reference in the next one.
Transformer::Tables Transformer::tables_of(const Inputs& in, int64_t num_gist) const {
  const auto options = in.modulation_BM.options().dtype(at::kDouble);
  std::vector<at::Tensor> planes{at::arange(1, num_gist + 1, options)}, rows{at::zeros({num_gist}, options)}, columns = rows;
  auto add = [&](const at::Tensor& latents, double plane) {
    const auto h = latents.size(2), w = latents.size(3);
    planes.push_back(at::full({h * w}, plane, options));
    rows.push_back(at::arange(h, options).unsqueeze(1).expand({h, w}).flatten());
    columns.push_back(at::arange(w, options).unsqueeze(0).expand({h, w}).flatten());
  };
  auto plane = static_cast<double>(config_.gist.most + 1);
  for (size_t i = 0; i < in.references_BCHW.size(); ++i) add(in.references_BCHW[i], plane + 1 + static_cast<double>(i));
  add(in.noisy_BCHW, plane);
  auto [cos, sin] =
      mmdit::rotary_tables({at::cat(planes), at::cat(rows), at::cat(columns)}, config_.blocks.axes_dims, config_.blocks.rope_theta);
  return {cos, sin};
}

/// Runs the blocks that do not see the gist. Without references all of their tokens have the step's time.
void Transformer::refine(Tokens& tokens, const Tables& tables, const at::Tensor& modulation_BM) const {
  if (body_->refiner.empty()) return;
  const bool has_references = tokens.references.defined();
  const auto num_gist = tokens.gist.size(1), num_seen = tables.cos.size(0) - num_gist;
  std::vector<int64_t> lengths{tokens.picture.size(1)};
  if (has_references) lengths.insert(lengths.begin(), tokens.references.size(1));
  const nn::Streams streams(shares(), lengths);
  auto table = [&](const at::Tensor& of_all) { return streams.by_place(of_all.narrow(0, num_gist, num_seen), 0); };
  const auto modulation = has_references ? modulation_BM : modulation_BM.narrow(1, 0, config_.blocks.condition_width());
  nn::Tensors inputs{streams.here(lengths.size() - 1, tokens.picture), table(tables.cos), table(tables.sin), modulation};
  if (has_references) inputs.push_back(streams.here(0, tokens.references));
  for (const auto& block : body_->refiner) {
    auto out = block->run(inputs);
    inputs[0] = out[0];
    if (has_references) inputs[4] = out[1];
  }
  tokens.picture = streams.joined(lengths.size() - 1, inputs[0]);
  if (has_references) tokens.references = streams.joined(0, inputs[4]);
}

/// Runs the layers that are held and what comes behind them.
at::Tensor Transformer::run_layers(Tokens& tokens, const Tables& tables, const Inputs& in) const {
  const auto& b = *body_;
  const auto num_picture = tokens.picture.size(1);
  const auto clean = tokens.references.defined() ? at::cat({tokens.gist, tokens.references}, 1) : tokens.gist;
  if (b.layers.empty() && !b.last) return at::cat({clean, tokens.picture}, 1);
  const nn::Streams streams(shares(), {clean.size(1), num_picture});
  nn::Tensors inputs{streams.here(1, tokens.picture), streams.by_place(tables.cos, 0), streams.by_place(tables.sin, 0), in.modulation_BM,
                     streams.here(0, clean)};
  at::Tensor text_bias;
  if (in.mask_BT.size(0) > 1) {
    const auto seen = at::constant_pad_nd(gist_mask(config_, in.mask_BT), {0, clean.size(1) - tokens.gist.size(1)}, 1);
    inputs.push_back(streams.bias_by_place(mmdit::padding_bias(seen, num_picture)));
    text_bias = mmdit::padding_bias(in.mask_BT, 0);
  }
  for (const auto& [block, reader] : b.layers) {
    auto given = inputs;
    if (reader > 0) given.push_back(text_for(reader, config_, in.text_BTNE));
    if (reader > 0 && text_bias.defined()) given.push_back(text_bias);
    auto out = block->run(given);
    inputs[0] = out[0];
    inputs[4] = out[1];
  }
  if (!b.last) return at::cat({streams.joined(0, inputs[4]), streams.joined(1, inputs[0])}, 1);
  const auto scale_BD = b.last->modulation.forward(at::silu(in.modulation_BM.narrow(1, 0, config_.blocks.condition_width())));
  const auto normed = kernels::modulated_norm(inputs[0], scale_BD, at::zeros_like(scale_BD), kLastNormEps);
  return streams.joined(1, b.last->out.forward(normed));
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto tokens = tokens_of(in);
  const auto tables = tables_of(in, tokens.gist.size(1));
  refine(tokens, tables, in.modulation_BM);
  auto out = run_layers(tokens, tables, in);
  return body_->last ? out.transpose(1, 2).unflatten(2, {in.noisy_BCHW.size(2), in.noisy_BCHW.size(3)}) : out;
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("adaLN_modulation") != path.npos || path.ends_with("cross_attn_gate") || path.starts_with("final_layer.");
  });
}

}  // namespace burnish::models::fibo2
