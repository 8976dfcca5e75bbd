#include "models/families/minimax_h3/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "models/families/minimax_h3/blocks.h"
#include "models/families/minimax_h3/places.h"
#include "nn/parts.h"

namespace burnish::models::minimax_h3 {

namespace {

/// Numbers by which a token is modulated behind all blocks: shift and scale.
constexpr int64_t kLastModulations = 2;
/// The kinds of tokens, as the layers that modulate blocks have them.
constexpr int64_t kOfFrames = 0, kOfText = 1, kOfSound = 2, kKinds = 3;

/// Sinusoids [N, width] of times as they are: [cos | sin], frequencies falling from 1 to nearly 1/10000.
at::Tensor sinusoids(const at::Tensor& time_N, int64_t width) {
  const auto half = width / 2;
  auto frequencies = (at::arange(half, time_N.options()) * (-std::log(1e4) / static_cast<double>(half))).exp();
  auto angles = time_N.unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.cos(), angles.sin()}, -1);
}

/// Latents [B, C, H, W], or [B, C, F, H, W], as tokens [B, F · H/2 · W/2, 4 C], frame by frame.
at::Tensor tokens_of(const at::Tensor& latents) {
  if (latents.dim() == 4) return mmdit::to_tokens(latents);
  auto frames = latents.transpose(1, 2).contiguous();
  return mmdit::to_tokens(frames.flatten(0, 1)).view({latents.size(0), -1, 4 * latents.size(1)});
}

/// Tokens back as latents of these sizes.
at::Tensor latents_of(const at::Tensor& tokens_BIC, at::IntArrayRef sizes) {
  const auto rows = sizes[sizes.size() - 2] / 2, columns = sizes.back() / 2;
  if (sizes.size() == 4) return mmdit::from_tokens(tokens_BIC, rows, columns);
  auto frames = mmdit::from_tokens(tokens_BIC.reshape({-1, rows * columns, tokens_BIC.size(2)}), rows, columns);
  return frames.unflatten(0, {sizes[0], sizes[2]}).transpose(1, 2);
}

/// The layout of a sequence of these inputs.
Layout layout_of(const Transformer::Inputs& in) {
  const auto& noisy = in.noisy_BCHW;
  Layout layout{.num_text = in.mask_BT.size(1),
                .num_seen = in.given.seen_BSD.defined() ? in.given.seen_BSD.size(1) : 0,
                .num_sound = in.sound_BCSN.defined() ? in.sound_BCSN.size(3) : 0,
                .grid = {noisy.dim() == 5 ? noisy.size(2) : 1, noisy.size(-2), noisy.size(-1)}};
  std::vector<at::IntArrayRef> sizes;
  for (const auto& latents : in.given.latents) sizes.push_back(latents.sizes());
  if (in.given.are_references) add_references(layout, sizes);
  else add_given_frames(layout, sizes);
  return layout;
}

/// The layers that embed a time; of pruned files a table of what they make, in whose few numbers it is a curve.
struct TimeEmbedder : nn::Module {
  TimeEmbedder(const Config& c, const at::TensorOptions& o)
      : channels(c.time.channels),
        linear_1(c.time.channels, c.time.hidden, o.dtype(at::kFloat)),
        linear_2(c.time.hidden, c.time.width, o.dtype(at::kFloat)) {
    own("linear_1", linear_1);
    own("linear_2", linear_2);
  }
  /// Embeds times [N] -> [N, width] as the layers that modulate read them.
  at::Tensor embed(const at::Tensor& time_N) const {
    return at::silu(linear_2.forward(at::silu(linear_1.forward(sinusoids(time_N, channels)))));
  }
  int64_t channels;
  nn::Linear linear_1, linear_2;
};

/// Reads rows of a table [R, width] of times from 0 to 1, in between on a line.
at::Tensor in_table(const at::Tensor& table, const at::Tensor& time_N) {
  const auto num_steps = table.size(0) - 1;
  const auto place = time_N.clamp(0, 1) * num_steps;
  const auto before = place.floor().clamp_max(num_steps - 1);
  const auto row = before.to(at::kLong);
  return at::lerp(table.index_select(0, row), table.index_select(0, row + 1), (place - before).unsqueeze(1));
}

}  // namespace

struct Transformer::Modulation {
  /// With a table the layers have few inputs, and half precision is too narrow for what they give.
  Modulation(const Config& c, const at::TensorOptions& options, const at::TensorOptions& o)
      : table(c.time.is_table() ? at::zeros({c.time.num_rows, c.time.width}, options.dtype(at::kFloat)) : at::Tensor()),
        embedder(c.time.is_table() ? nullptr : std::make_unique<TimeEmbedder>(c, options)),
        of_blocks(mmdit::several<nn::Linear>(c.num_layers, c.time.width, kKinds * kModulations * c.width, o)),
        last(c.time.width, kLastModulations * c.width, o) {}
  Modulation(const Config& c, const at::TensorOptions& o) : Modulation(c, o, c.time.is_table() ? o.dtype(at::kFloat) : o) {}

  /// Embeds times [N] in `dtype`, or in fp32 of a table.
  at::Tensor embed(const at::Tensor& time_N, at::ScalarType dtype) const {
    return embedder ? embedder->embed(time_N).to(dtype) : in_table(table, time_N);
  }
  at::Tensor table;
  std::unique_ptr<TimeEmbedder> embedder;
  std::vector<std::unique_ptr<nn::Linear>> of_blocks;
  nn::Linear last;
};

struct Transformer::Text {
  Text(const Config& c, const at::TensorOptions& o)
      : in(c.caption_width, c.width, o), blocks(mmdit::several<RefinerBlock>(c.num_refiner_layers, c, o)), norm(c.width, c.eps.last, o) {}
  nn::Linear in;
  std::vector<std::unique_ptr<RefinerBlock>> blocks;
  nn::RMSNorm norm;
};

struct Transformer::Body {
  Body(const Config& c, const at::TensorOptions& o)
      : frames_in(4 * c.in_channels, c.width, o.dtype(at::kFloat)),
        sound_in(c.audio_channels, c.width, o.dtype(at::kFloat)),
        blocks(mmdit::several<MainBlock>(c.num_layers, c, o)),
        norm(c.width, c.eps.last, o),
        frames_out(c.width, 4 * c.in_channels, o.dtype(at::kFloat)),
        sound_out(c.width, c.audio_channels, o.dtype(at::kFloat)) {}
  nn::Linear frames_in, sound_in;
  std::vector<std::unique_ptr<MainBlock>> blocks;
  nn::RMSNorm norm;
  nn::Linear frames_out, sound_out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) modulation_ = std::make_unique<Modulation>(c, options);
  if (part.text) text_ = std::make_unique<Text>(c, options);
  if (part.body) body_ = std::make_unique<Body>(c, options);
  if (modulation_ && modulation_->embedder) own("time_embedder", *modulation_->embedder);
  if (modulation_ && !modulation_->embedder) own(kTimeTable, modulation_->table);
  if (text_) {
    own("context_embedder", text_->in);
    for (size_t i = 0; i < text_->blocks.size(); ++i) own("token_refiner.refiner_blocks." + std::to_string(i), *text_->blocks[i]);
    own("token_refiner.final_norm", text_->norm);
  }
  if (body_) {
    own("proj_in", body_->frames_in);
    own("audio_proj_in", body_->sound_in);
  }
  for (size_t i = 0; i < static_cast<size_t>(c.num_layers); ++i) {
    const auto name = "transformer_blocks." + std::to_string(i);
    if (modulation_) own(name + ".adaln_proj.linear", *modulation_->of_blocks[i]);
    if (body_) own(name, *body_->blocks[i]);
  }
  if (modulation_) own("norm_out.linear", modulation_->last);
  if (!body_) return;
  own("norm_out.norm", body_->norm);
  own("proj_out", body_->frames_out);
  own("audio_proj_out", body_->sound_out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const Sigmas& sigmas, at::ScalarType dtype) const {
  const auto& m = *modulation_;
  const bool has_sound = sigmas.sound_B.defined(), has_given = sigmas.given_B.defined(), has_given_sound = sigmas.given_sound_B.defined();
  std::vector<at::Tensor> times{1 - sigmas.frames_B};
  if (has_sound) times.push_back(1 - sigmas.sound_B);
  const auto num_judged = std::ssize(times);
  if (has_given) times.push_back(1 - sigmas.given_B);
  if (has_given_sound) times.push_back(1 - sigmas.given_sound_B);
  const auto time_BK = at::stack(times, 1);
  const auto embedded_BKE = m.embed(time_BK.flatten(), dtype).unflatten(0, {time_BK.size(0), time_BK.size(1)});
  const auto in_block = kModulations * config_.width;
  std::vector<std::function<at::Tensor()>> parts;
  for (const auto& of_block : m.of_blocks) {
    parts.emplace_back([&] {
      const auto all = of_block->forward(embedded_BKE);
      auto of_kind = [&](int64_t kind, int64_t time) { return all.select(1, time).narrow(-1, kind * in_block, in_block); };
      std::vector<at::Tensor> kinds{of_kind(kOfText, 0)};
      if (has_sound) kinds.push_back(of_kind(kOfSound, 1));
      kinds.push_back(of_kind(kOfFrames, 0));
      if (has_given) kinds.push_back(of_kind(kOfFrames, num_judged));
      if (has_given_sound) kinds.push_back(of_kind(kOfSound, num_judged + 1));
      return at::cat(kinds, -1).to(dtype);
    });
  }
  parts.emplace_back([&] { return m.last.forward(embedded_BKE.narrow(1, 0, num_judged)).flatten(1).to(dtype); });
  return nn::joined(parts);
}

at::Tensor Transformer::refine(const at::Tensor& states_BTE, const at::Tensor& mask_BT) const {
  nn::Tensors inputs{text_->in.forward(states_BTE)};
  // One sample alone has nothing that is masked.
  if (mask_BT.size(0) > 1) inputs.push_back(mmdit::padding_bias(mask_BT, 0));
  for (const auto& block : text_->blocks) inputs[0] = block->run(inputs)[0];
  return text_->norm.forward(inputs[0]);
}

Transformer::Runs Transformer::embed(const Inputs& in, const Layout& layout) const {
  const auto dtype = in.text_BTD.scalar_type();
  auto of_frames = [&](const at::Tensor& latents) { return body_->frames_in.forward(tokens_of(latents.to(at::kFloat))).to(dtype); };
  auto of_sound = [&](const at::Tensor& sound_BCL) { return body_->sound_in.forward(sound_BCL.to(at::kFloat).transpose(1, 2)).to(dtype); };
  // Modulations in the order of `modulate`.
  const int64_t frames = layout.num_sound > 0 ? 2 : 1, given = frames + 1, given_sound = given + 1;
  Runs runs{{in.text_BTD}, {0}};
  auto add = [&](const at::Tensor& embedded, int64_t modulation) {
    if (runs.modulations.back() == modulation && runs.embedded.size() > 1) {
      runs.embedded.back() = at::cat({runs.embedded.back(), embedded}, 1);
      return;
    }
    runs.embedded.push_back(embedded);
    runs.modulations.push_back(modulation);
  };
  if (layout.num_seen > 0) add(in.given.seen_BSD, frames);
  for (const auto& run : layout.given) {
    const auto& latents = in.given.latents.at(run.number);
    if (run.is_sound()) add(of_sound(latents), given_sound);
    else add(of_frames(latents), given);
  }
  if (layout.num_sound > 0) add(of_sound(in.sound_BCSN.flatten(2)), 1);
  runs.embedded.push_back(of_frames(in.noisy_BCHW));
  runs.modulations.push_back(frames);
  return runs;
}

/// Runs all blocks over runs of tokens, as they are in this place, and returns the last one behind the blocks, the modulation of the last
/// norm, and the sound where there is any. `tables` are cos and sin, and attention's bias where tokens are masked.
nn::Tensors Transformer::run_blocks(const Inputs& in, const Runs& runs, nn::Tensors tables) const {
  const auto& embedded = runs.embedded;
  const auto in_block = kModulations * config_.width;
  const bool has_sound = in.sound_BCSN.defined(), has_given = in.given.places_BL.defined();
  const int64_t num_modulations = (has_sound ? 3 : 2) + (in.given.are_references ? 2 : has_given ? 1 : 0);
  std::vector<int64_t> sizes(body_->blocks.size(), num_modulations * in_block);
  sizes.push_back((has_sound ? 2 : 1) * kLastModulations * config_.width);
  nn::Parts modulation(in.modulation_BM, sizes);
  nn::Tensors inputs{embedded.front(), embedded.back(), {}, tables[0], tables[1]};
  inputs.insert(inputs.end(), embedded.begin() + 1, embedded.end() - 1);
  if (tables.size() > 2) inputs.push_back(tables[2]);
  const size_t first_between = 5, num_between = embedded.size() - 2;
  for (const auto& block : body_->blocks) {
    inputs[2] = modulation.next();
    if (has_given) {
      std::vector<at::Tensor> of_runs;
      for (auto number : runs.modulations) of_runs.push_back(inputs[2].narrow(-1, number * in_block, in_block));
      inputs[2] = at::cat(of_runs, -1);
    }
    auto out = block->run(inputs);
    inputs[0] = out[0];
    inputs[1] = out[1];
    for (size_t i = 0; i < num_between; ++i) inputs[first_between + i] = out[2 + i];
  }
  // The sound stands before the frames.
  return {inputs[1], modulation.next(), has_sound ? inputs[first_between + num_between - 1] : at::Tensor()};
}

Transformer::Velocities Transformer::forward(const Inputs& in) {
  const auto& b = *body_;
  const auto layout = layout_of(in);
  const bool has_sound = layout.num_sound > 0;
  auto runs = embed(in, layout);
  std::vector<int64_t> lengths;
  for (const auto& embedded : runs.embedded) lengths.push_back(embedded.size(1));

  const nn::Streams streams(shares(), lengths);
  auto [cos, sin] = rotary_tables_of(config_, layout, {in.mask_BT, in.given.places_BL}, in.modulation_BM.options());
  nn::Tensors tables{streams.by_place(cos, -2), streams.by_place(sin, -2)};
  // One sample alone has nothing that is masked.
  if (in.mask_BT.size(0) > 1)
    tables.push_back(streams.bias_by_place(mmdit::padding_bias(
        in.mask_BT, layout.num_seen + layout.num_given_tokens() + layout.num_sound_tokens() + layout.grid.num_tokens())));
  for (size_t i = 0; i < runs.embedded.size(); ++i) runs.embedded[i] = streams.here(i, runs.embedded[i]);
  const auto out = run_blocks(in, runs, tables);
  const auto m = out[1].unflatten(-1, {-1, config_.width}).unbind(1);  // shift, scale, and those of the sound
  auto predicted = [&](const nn::Linear& last, const at::Tensor& x, size_t shift, size_t run) {
    auto normed = modulated(x, b.norm.weight, m[shift + 1], m[shift], config_.eps.last);
    return -streams.joined(run, last.forward(normed.to(at::kFloat)));
  };
  Velocities velocities{latents_of(predicted(b.frames_out, out[0], 0, lengths.size() - 1), in.noisy_BCHW.sizes())};
  if (has_sound) velocities.sound = predicted(b.sound_out, out[2], 2, lengths.size() - 2).transpose(1, 2).reshape(in.sound_BCSN.sizes());
  return velocities;
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("adaln_proj.") != path.npos || path.starts_with("norm_out.linear.") || path.starts_with("proj_out.") ||
           path.starts_with("audio_proj_out.");
  });
}

}  // namespace burnish::models::minimax_h3
