#include "models/families/ltx2/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "models/families/ltx2/blocks.h"

namespace burnish::models::ltx2 {

namespace {

constexpr double kLastNormEps = 1e-6;
/// The numbers that modulate a token in its last norm: shift and scale.
constexpr int64_t kLastModulations = 2;

/// The layers that embed a time for one use, and what they make of it for so many numbers of each width of a token.
struct TimeLayers : nn::Module {
  TimeLayers(int64_t width, int64_t count, const at::TensorOptions& o)
      : embedder(mmdit::kTimeChannels, width, o), linear(width, count * width, o) {
    own("emb.timestep_embedder", embedder);
    own("linear", linear);
  }
  /// Embeds sinusoids -> [B, D].
  at::Tensor embed(const at::Tensor& waves_BS) const { return embedder.forward(waves_BS); }
  at::Tensor forward(const at::Tensor& waves_BS) const { return of(embed(waves_BS)); }
  at::Tensor of(const at::Tensor& embedded_BD) const { return linear.forward(at::silu(embedded_BD)); }
  mmdit::EmbedMlp embedder;
  nn::Linear linear;
};

/// The layers of a stream that embed times.
struct StreamTime {
  StreamTime(const Config& c, const StreamSizes& s, const at::TensorOptions& o)
      : tokens(s.width(), c.num_modulations(), o), other(s.width(), 4, o), gate(s.width(), 1, o) {
    if (c.has_prompt_time) text = std::make_unique<TimeLayers>(s.width(), 2, o);
  }
  TimeLayers tokens, other, gate;
  std::unique_ptr<TimeLayers> text;

  /// Returns the part of a block, and the embedded time, which the last norm reads.
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& waves_BS) const {
    const auto embedded = tokens.embed(waves_BS);
    std::vector<at::Tensor> parts{tokens.of(embedded), other.forward(waves_BS), gate.forward(waves_BS)};
    if (text) parts.push_back(text->forward(waves_BS));
    return {at::cat(parts, -1), embedded};
  }
};

/// Runs linear, tanh-GELU, linear: it projects states of a text.
struct TextProjection : nn::Module {
  TextProjection(int64_t in, int64_t out, const at::TensorOptions& o) : linear_1(in, out, o), linear_2(out, out, o) {
    own("linear_1", linear_1);
    own("linear_2", linear_2);
  }
  at::Tensor forward(const at::Tensor& x) const { return linear_2.forward(kernels::gelu_tanh(linear_1.forward(x))); }
  nn::Linear linear_1, linear_2;
};

}  // namespace

struct Transformer::Time {
  Time(const Config& c, const at::TensorOptions& o) : frames(c, c.frames, o), sound(c, c.sound, o) {}
  StreamTime frames, sound;
};

struct Transformer::Text {
  Text(const Config& c, const at::TensorOptions& o)
      : frames(c.projected_width, c.frames.width(), o), sound(c.projected_width, c.sound.width(), o) {}
  TextProjection frames, sound;
};

struct Transformer::Body {
  Body(const Config& c, const at::TensorOptions& o)
      : frames_in(c.frames.channels, c.frames.width(), o),
        sound_in(c.sound.channels, c.sound.width(), o),
        blocks(mmdit::several<Block>(c.num_layers, c, o)),
        frames_table(at::empty({kLastModulations, c.frames.width()}, o)),
        sound_table(at::empty({kLastModulations, c.sound.width()}, o)),
        frames_out(c.frames.width(), c.frames.channels, o),
        sound_out(c.sound.width(), c.sound.channels, o) {
    if (c.marks_first_frame) mark = at::empty({1, c.frames.width()}, o);
  }
  /// The tokens of frames, and the places of the given ones and behind them of the noisy ones [B, 3, L].
  struct FrameTokens {
    at::Tensor noisy, given, places;
  };
  FrameTokens tokens_of(const Inputs& in, const Grid& grid) const {
    auto of = [&](const at::Tensor& latents) {
      return frames_in.forward(latents.flatten(2).transpose(1, 2).to(in.texts.frames.scalar_type()));
    };
    const auto of_frame = grid.rows * grid.columns, num_first = in.num_given * of_frame, num_noisy = grid.num_tokens() - num_first;
    auto all = of(in.noisy_BCFHW);
    if (mark.defined()) all = at::cat({all.narrow(1, 0, of_frame) + mark, all.narrow(1, of_frame, all.size(1) - of_frame)}, 1);
    const auto of_all = places_of_frames(grid, in.rate_B);
    nn::Tensors given{all.narrow(1, 0, num_first)}, places{of_all.narrow(2, 0, num_first)};
    for (const auto& beside : in.beside) {
      given.push_back(of(beside.latents_BCFHW));
      places.push_back(beside.places_B3L);
    }
    places.push_back(of_all.narrow(2, num_first, num_noisy));
    return {all.narrow(1, num_first, num_noisy), at::cat(given, 1), at::cat(places, 2)};
  }

  nn::Linear frames_in, sound_in;
  at::Tensor mark;  ///< [1, D], added to tokens of the first frame; undefined where there is none
  std::vector<std::unique_ptr<Block>> blocks;
  at::Tensor frames_table, sound_table;  ///< shift and scale of the last norms, beside the embedded time
  nn::Linear frames_out, sound_out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& o, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) {
    time_ = std::make_unique<Time>(c, o);
    own("time_embed", time_->frames.tokens);
    own("audio_time_embed", time_->sound.tokens);
    own("av_cross_attn_video_scale_shift", time_->frames.other);
    own("av_cross_attn_audio_scale_shift", time_->sound.other);
    own("av_cross_attn_video_a2v_gate", time_->frames.gate);
    own("av_cross_attn_audio_v2a_gate", time_->sound.gate);
    if (c.has_prompt_time) {
      own("prompt_adaln", *time_->frames.text);
      own("audio_prompt_adaln", *time_->sound.text);
    }
  }
  if (part.text && c.projected_width > 0) {
    text_ = std::make_unique<Text>(c, o);
    own("caption_projection", text_->frames);
    own("audio_caption_projection", text_->sound);
  }
  if (!part.body) return;
  body_ = std::make_unique<Body>(c, o);
  own("proj_in", body_->frames_in);
  own("audio_proj_in", body_->sound_in);
  if (c.marks_first_frame) own(kKeyframeMark, body_->mark);
  for (size_t i = 0; i < body_->blocks.size(); ++i) own("transformer_blocks." + std::to_string(i), *body_->blocks[i]);
  own("scale_shift_table", body_->frames_table);
  own("audio_scale_shift_table", body_->sound_table);
  own("proj_out", body_->frames_out);
  own("audio_proj_out", body_->sound_out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, bool has_given, at::ScalarType dtype) const {
  const auto waves_BS = mmdit::time_projection(sigma_B, dtype);
  const auto [frames, last_of_frames] = time_->frames.forward(waves_BS);
  const auto [sound, last_of_sound] = time_->sound.forward(waves_BS);
  std::vector<at::Tensor> parts{frames, sound}, last{last_of_frames, last_of_sound};
  if (has_given) {
    const auto& layers = time_->frames.tokens;
    const auto waves_of_given = mmdit::time_projection(at::zeros_like(sigma_B), dtype);
    last.push_back(layers.embed(waves_of_given));
    parts.push_back(layers.of(last.back()));
    if (config_.has_own_times()) parts.push_back(time_->frames.other.forward(waves_of_given));
  }
  parts.insert(parts.end(), last.begin(), last.end());
  return at::cat(parts, -1);
}

at::Tensor Transformer::project(const at::Tensor& states_BTE, Stream stream) const {
  return (stream == Stream::frames ? text_->frames : text_->sound).forward(states_BTE);
}

Transformer::Velocities Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto& noisy = in.noisy_BCFHW;
  const auto dtype = in.texts.frames.scalar_type();
  const Grid grid{noisy.dim() == 5 ? noisy.size(2) : 1, noisy.size(-2), noisy.size(-1)};
  const auto of_frame = grid.rows * grid.columns, num_first = in.num_given * of_frame, num_noisy = grid.num_tokens() - num_first;
  const auto tokens = b.tokens_of(in, grid);
  const auto num_given = tokens.given.size(1);
  const bool has_given = num_given > 0;
  const auto sound = b.sound_in.forward(in.sound_BCN.transpose(1, 2).to(dtype));
  const nn::Streams streams(shares(), has_given ? std::vector<int64_t>{num_given, num_noisy} : std::vector<int64_t>{num_noisy});
  const size_t noisy_run = has_given ? 1 : 0;

  const auto &of_frames = tokens.places, of_sound = places_of_sound(sound.size(1), in.rate_B.options());
  const auto& sizes = config_.places;
  const auto between = config_.sound.width();
  const auto of_time = [](const at::Tensor& places) { return places.narrow(1, 0, 1); };
  const Turns turns[] = {turns_of(of_frames, config_.frames.width(), sizes), turns_of(of_sound, config_.sound.width(), sizes),
                         turns_of(of_time(of_frames), between, sizes), turns_of(of_sound, between, sizes)};
  const auto of_blocks = modulation_sizes(config_, config_.frames).total() + modulation_sizes(config_, config_.sound).total() +
                         (has_given ? given_modulation_size(config_) : 0);
  nn::Tensors inputs{streams.here(noisy_run, tokens.noisy.contiguous()), sound, in.texts.frames, in.texts.sound,
                     in.modulation_BM.narrow(-1, 0, of_blocks)};
  for (size_t i = 0; i < std::size(turns); ++i) {
    const bool is_of_frames = i % 2 == 0;
    for (const auto& table : {turns[i].cos, turns[i].sin}) inputs.push_back(is_of_frames ? streams.by_place(table, 1) : table);
  }
  if (has_given) inputs.push_back(streams.here(0, tokens.given.contiguous()));
  for (const auto& block : b.blocks) {
    auto out = block->run(inputs);
    inputs[0] = out[0];
    inputs[1] = out[1];
    if (has_given) inputs.back() = out[2];
  }

  const auto last = in.modulation_BM.narrow(-1, of_blocks, in.modulation_BM.size(-1) - of_blocks);
  auto normed = [&](const at::Tensor& x, const at::Tensor& table, int64_t begin) {
    const auto m = (last.narrow(-1, begin, x.size(-1)).unsqueeze(1) + table.to(last.scalar_type())).unbind(1);  // shift, scale
    return kernels::modulated_norm(x, m[1], m[0], kLastNormEps);
  };
  const auto width = config_.frames.width(), given_begin = width + config_.sound.width();
  auto frames = streams.joined(noisy_run, b.frames_out.forward(normed(inputs[0], b.frames_table, 0)));
  if (num_first > 0) {
    const auto first = streams.joined(0, b.frames_out.forward(normed(inputs.back(), b.frames_table, given_begin)));
    frames = at::cat({first.narrow(1, 0, num_first), frames}, 1);
  }
  return {frames.transpose(1, 2).reshape(noisy.sizes()),
          b.sound_out.forward(normed(inputs[1], b.sound_table, width)).transpose(1, 2).reshape(in.sound_BCN.sizes())};
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.ends_with("scale_shift_table") || path == kKeyframeMark || path.starts_with("proj_out.") ||
           path.starts_with("audio_proj_out.") || path.ends_with("time_embed.linear.weight") ||
           (path.starts_with("av_cross_attn_") && path.ends_with(".linear.weight")) || path.ends_with("prompt_adaln.linear.weight");
  });
}

}  // namespace burnish::models::ltx2
