#include "models/families/ltx2/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>

#include <numeric>

#include "kernels/gated_residual/gated_residual.h"
#include "nn/attention.h"

namespace burnish::models::ltx2 {

namespace {

constexpr double kEps = 1e-6;

/// The places of a block's inputs.
struct At {
  enum Input : size_t {
    frames,
    sound,
    frame_text,
    sound_text,
    modulation,
    frame_turns,
    sound_turns = 7,
    frame_times = 9,
    sound_times = 11,
    given = 13
  };
};

Turns turns_at(const nn::Tensors& in, size_t first) { return {in[first], in[first + 1]}; }

/// x · (1 + scale) + shift in fp32.
at::Tensor shifted(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD) {
  return x_BLD.to(at::kFloat) * (scale_BD.to(at::kFloat) + 1).unsqueeze(1) + shift_BD.to(at::kFloat).unsqueeze(1);
}

at::Tensor normed(const at::Tensor& x_BLD) { return at::rms_norm(x_BLD.to(at::kFloat), {x_BLD.size(-1)}, {}, kEps); }

/// {of each run of tokens x, scale and shift} -> {the runs, normed and modulated, one behind the other}.
nn::Tensors modulated_runs(const nn::Tensors& in) {
  nn::Tensors runs;
  for (size_t i = 0; i < in.size(); i += 3) runs.push_back(shifted(normed(in[i]), in[i + 1], in[i + 2]).to(in[i].scalar_type()));
  return {runs.size() == 1 ? runs[0] : at::cat(runs, 1)};
}

/// {runs of tokens} -> {the runs, normed, one behind the other}.
nn::Tensors normed_runs(const nn::Tensors& in) {
  nn::Tensors runs;
  for (const auto& x : in) runs.push_back(normed(x).to(x.scalar_type()));
  return {runs.size() == 1 ? runs[0] : at::cat(runs, 1)};
}

/// {a text's tokens, scale, shift} -> {the tokens, modulated without a norm}.
nn::Tensors modulated_text(const nn::Tensors& in) { return {shifted(in[0], in[1], in[2]).to(in[0].scalar_type())}; }

/// Turns heads, of each the first half with the second: x [B, L, H·P], cos and sin [B, L, H·P/2] -> [B, H, L, P].
at::Tensor turned(const at::Tensor& x_BLE, const Turns& turns, int64_t num_heads) {
  if (!turns.cos.defined()) return nn::split_heads(x_BLE, num_heads);
  const auto halves = x_BLE.to(at::kFloat).unflatten(-1, {num_heads, 2, -1}).unbind(-2);
  const auto cos = turns.cos.unflatten(-1, {num_heads, -1}), sin = turns.sin.unflatten(-1, {num_heads, -1});
  const auto both = at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
  return both.to(x_BLE.scalar_type()).transpose(1, 2);
}

/// {query, key, weights of their norms, and where tokens have places the cosines and sines of both} -> {query, key}, ready for attention.
nn::Compute heads_of(int64_t num_heads) {
  return [num_heads](const nn::Tensors& in) {
    auto head = [&](size_t i, const Turns& turns) {
      return turned(at::rms_norm(in[i], in[i + 2].sizes(), in[i + 2], kEps), turns, num_heads);
    };
    const bool turn = in.size() > 4;
    return nn::Tensors{head(0, turn ? turns_at(in, 4) : Turns{}), head(1, turn ? turns_at(in, 6) : Turns{})};
  };
}

/// {what heads gave [B, L, H·P], what gates are made of [B, L, H]} -> {each head times its gate}.
nn::Tensors gated_heads(const nn::Tensors& in) {
  const auto gates = at::sigmoid(in[1].to(at::kFloat)) * 2;
  return {(in[0].to(at::kFloat).unflatten(-1, {in[1].size(-1), -1}) * gates.unsqueeze(-1)).flatten(-2).to(in[0].scalar_type())};
}

/// Tokens that are modulated alike, by these numbers [B, D] each.
struct Run {
  at::Tensor x_BLD;
  nn::Tensors modulation;
  nn::Tensors to_frames_and_sound;  ///< scale and shift for the attention of frames to sound, and of sound to frames
};

/// A stream in a block that is run: its tokens, and what modulates all of them.
struct Side {
  const StreamLayers& layers;
  std::vector<Run> runs;
  at::Tensor other_gate;
  nn::Tensors text;  ///< shift and scale of the text's tokens; none where these are as they come

  /// Returns what modulated_runs reads, with the shift at `shift` and the scale behind it.
  nn::Tensors in_norm(size_t shift) const {
    nn::Tensors in;
    for (const auto& run : runs) in.insert(in.end(), {run.x_BLD, run.modulation[shift + 1], run.modulation[shift]});
    return in;
  }
  nn::Tensors in_norm_for_other(size_t scale) const {
    nn::Tensors in;
    for (const auto& run : runs) in.insert(in.end(), {run.x_BLD, run.to_frames_and_sound[scale], run.to_frames_and_sound[scale + 1]});
    return in;
  }
  /// Adds y [B, L, D] of all runs to their tokens, by a gate of each or as it is.
  void add(const at::Tensor& y_BLD, const std::function<at::Tensor(const Run&)>& gate = {}) {
    int64_t begin = 0;
    for (auto& run : runs) {
      const auto count = run.x_BLD.size(1);
      const auto own = runs.size() == 1 ? y_BLD : y_BLD.narrow(1, begin, count).contiguous();
      run.x_BLD = gate ? kernels::gated_residual(run.x_BLD, gate(run), own) : run.x_BLD + own;
      begin += count;
    }
  }
  void add(const at::Tensor& y_BLD, size_t gate) {
    add(y_BLD, [gate](const Run& run) { return run.modulation[gate]; });
  }

  void attend_to_itself(const Attention::Attend& attention, const Turns& turns) {
    const auto projected = nn::recomputed(in_norm(0), modulated_runs, [&](const nn::Tensors& x) { return layers.to_itself.project(x[0]); });
    add(layers.to_itself.attend(projected, attention, turns, turns), 2);
  }
  void attend_to_text(const at::Tensor& text_BTC) {
    const auto& attention = layers.to_text;
    auto keys = text.empty() ? attention.keys(text_BTC)
                             : nn::recomputed({text_BTC, text[1], text[0]}, modulated_text,
                                              [&](const nn::Tensors& tokens) { return attention.keys(tokens[0]); });
    auto queries = [&](const nn::Tensors& x) { return attention.queries(x[0]); };
    nn::Tensors plain;
    for (const auto& run : runs) plain.push_back(run.x_BLD);
    const auto asked = text.empty() ? nn::recomputed(plain, normed_runs, queries) : nn::recomputed(in_norm(6), modulated_runs, queries);
    keys.insert(keys.end(), asked.begin(), asked.end());
    const auto y = attention.attend(keys, [](const auto& q, const auto& k, const auto& v) { return nn::attention(q, k, v); });
    if (text.empty()) add(y);
    else add(y, 8);
  }
  void feed_forward() {
    add(nn::recomputed(in_norm(3), modulated_runs, [&](const nn::Tensors& x) { return nn::Tensors{layers.feed_forward.forward(x[0])}; })[0],
        5);
  }
};

/// A table and what time gives for it [B, n·D] -> n numbers [B, D].
nn::Tensors with_table(const at::Tensor& table_ND, const at::Tensor& of_time) {
  const auto all = of_time.unflatten(-1, {table_ND.size(0), -1}) + table_ND.to(of_time.scalar_type());
  return all.unbind(1);
}

/// Begins a stream in a block with its tokens and its part of the modulation.
Side side_of(const StreamLayers& layers, const Config& config, const at::Tensor& x_BLD, const at::Tensor& modulation_BM,
             const ModulationSizes& sizes) {
  const auto parts = modulation_BM.split_with_sizes({sizes.tokens, sizes.other, sizes.gate, sizes.text}, -1);
  Side side{layers, {{x_BLD, with_table(layers.table, parts[0]), with_table(layers.other_table.narrow(0, 0, 4), parts[1])}}, {}, {}};
  side.other_gate = with_table(layers.other_table.narrow(0, 4, 1), parts[2])[0];
  if (!config.modulates_text) return side;
  if (config.has_prompt_time) side.text = with_table(layers.text_table, parts[3]);
  else side.text = layers.text_table.to(x_BLD.scalar_type()).unsqueeze(1).unbind(0);
  return side;
}

/// The tokens of frames that are given, with their part of the modulation.
Run given_run(const StreamLayers& layers, const Run& noisy, const at::Tensor& x_BLD, const at::Tensor& modulation_BM, int64_t num_tokens) {
  const auto num_other = modulation_BM.size(-1) - num_tokens;
  Run run{x_BLD, with_table(layers.table, modulation_BM.narrow(-1, 0, num_tokens)), noisy.to_frames_and_sound};
  if (num_other > 0)
    run.to_frames_and_sound = with_table(layers.other_table.narrow(0, 0, 4), modulation_BM.narrow(-1, num_tokens, num_other));
  return run;
}

/// Projects what a stream asks the other one: {key, value} of the other's tokens, and behind them its own queries.
nn::Tensors projected_between(const Attention& attention, const Side& asks, const Side& asked, size_t scale) {
  auto projected =
      nn::recomputed(asked.in_norm_for_other(scale), modulated_runs, [&](const nn::Tensors& x) { return attention.keys(x[0]); });
  const auto queries =
      nn::recomputed(asks.in_norm_for_other(scale), modulated_runs, [&](const nn::Tensors& x) { return attention.queries(x[0]); });
  projected.insert(projected.end(), queries.begin(), queries.end());
  return projected;
}

}  // namespace

Attention::Attention(const Sizes& s, const at::TensorOptions& options)
    : num_heads_(s.num_heads),
      q_(s.width, s.num_heads * s.head_dim, options),
      k_(s.context_width, s.num_heads * s.head_dim, options),
      v_(s.context_width, s.num_heads * s.head_dim, options),
      out_(s.num_heads * s.head_dim, s.width, options),
      norm_q_(s.num_heads * s.head_dim, kEps, options),
      norm_k_(s.num_heads * s.head_dim, kEps, options) {
  own("to_q", q_);
  own("to_k", k_);
  own("to_v", v_);
  own("norm_q", norm_q_);
  own("norm_k", norm_k_);
  own("to_out.0", out_);
  if (!s.has_gates) return;
  gate_.emplace(s.width, s.num_heads, options);
  own("to_gate_logits", *gate_);
}

nn::Tensors Attention::queries(const at::Tensor& x) const {
  return gate_ ? nn::forward_all({&q_, &*gate_}, x) : nn::Tensors{q_.forward(x)};
}

nn::Tensors Attention::keys(const at::Tensor& context) const { return nn::forward_all({&k_, &v_}, context); }

nn::Tensors Attention::project(const at::Tensor& x) const {
  std::vector<const nn::Linear*> layers{&k_, &v_, &q_};
  if (gate_) layers.push_back(&*gate_);
  return nn::forward_all(layers, x);
}

at::Tensor Attention::attend(const nn::Tensors& projected, const Attend& attention, const Turns& of_queries, const Turns& of_keys) const {
  const auto value = nn::split_heads(projected[1], num_heads_);
  nn::Tensors from{projected[2], projected[0], norm_q_.weight, norm_k_.weight};
  if (of_queries.cos.defined()) from.insert(from.end(), {of_queries.cos, of_queries.sin, of_keys.cos, of_keys.sin});
  const auto attended = nn::merge_heads(
      nn::recomputed(from, heads_of(num_heads_), [&](const nn::Tensors& qk) { return nn::Tensors{attention(qk[0], qk[1], value)}; })[0]);
  if (!gate_) return out_.forward(attended);
  return nn::recomputed({attended, projected[3]}, gated_heads,
                        [&](const nn::Tensors& gated) { return nn::Tensors{out_.forward(gated[0])}; })[0];
}

StreamLayers::StreamLayers(const Config& c, const StreamSizes& s, const StreamSizes& other, bool has_biases, const Names& names,
                           const at::TensorOptions& o)
    : to_itself({s.width(), s.width(), s.num_heads, s.head_dim, c.has_gates}, o),
      to_text({s.width(), s.caption_width, s.num_heads, s.head_dim, c.has_gates}, o),
      to_other({s.width(), other.width(), c.sound.num_heads, c.sound.head_dim, c.has_gates}, o),
      feed_forward({.num_heads = s.num_heads, .head_dim = s.head_dim, .hidden = s.hidden, .with_biases = has_biases}, o),
      table(at::empty({c.num_modulations(), s.width()}, o)),
      other_table(at::empty({5, s.width()}, o)) {
  const std::string before = names.before;
  own(before + "attn1", to_itself);
  own(before + "attn2", to_text);
  own(names.to_other, to_other);
  own(before + "ff", feed_forward);
  own(before + "scale_shift_table", table);
  own(names.other_table, other_table);
  if (!c.modulates_text) return;
  text_table = at::empty({2, s.width()}, o);
  own(before + "prompt_scale_shift_table", text_table);
}

ModulationSizes modulation_sizes(const Config& c, const StreamSizes& s) {
  return {c.num_modulations() * s.width(), 4 * s.width(), s.width(), c.has_prompt_time ? 2 * s.width() : 0};
}

int64_t given_modulation_size(const Config& c) {
  const auto sizes = modulation_sizes(c, c.frames);
  return sizes.tokens + (c.has_own_times() ? sizes.other : 0);
}

Block::Block(const Config& c, const at::TensorOptions& o)
    : SharesTokens(std::gcd(c.frames.num_heads, c.sound.num_heads)),
      config_(c),
      frames_(c, c.frames, c.sound, c.has_frame_biases, StreamLayers::kOfFrames, o),
      sound_(c, c.sound, c.frames, true, StreamLayers::kOfSound, o) {
  own("", frames_);
  own("", sound_);
}

// Every place attends for its own heads over the frames of all, and all places gather what the others' heads gave.
at::Tensor Block::attend_to_frames(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t num_tokens) const {
  auto* shares = this->shares();
  if (shares == nullptr) return nn::attention(q, k, v);
  const auto all = shares->to_heads(at::stack({k, v}), num_tokens).unbind(0);
  const auto num_heads = q.size(1) / shares->count();
  const auto of_place = nn::attention(q.narrow(1, shares->place() * num_heads, num_heads), all[0], all[1]);
  const std::vector<int64_t> lengths(static_cast<size_t>(shares->count()), num_heads);
  return shares->gathered(of_place.flatten(2), lengths).unflatten(-1, {q.size(2), -1});
}

nn::Tensors Block::body(const nn::Tensors& in) {
  const auto sizes = modulation_sizes(config_, config_.frames), of_sound = modulation_sizes(config_, config_.sound);
  const auto& modulation = in[At::modulation];
  auto frames = side_of(frames_, config_, in[At::frames], modulation.narrow(-1, 0, sizes.total()), sizes);
  auto sound = side_of(sound_, config_, in[At::sound], modulation.narrow(-1, sizes.total(), of_sound.total()), of_sound);
  const bool has_given = in.size() > At::given;
  if (has_given) {
    const auto of_given = modulation.narrow(-1, sizes.total() + of_sound.total(), given_modulation_size(config_));
    frames.runs.insert(frames.runs.begin(), given_run(frames_, frames.runs[0], in[At::given], of_given, sizes.tokens));
  }

  const auto num_tokens = in[At::frame_turns].size(1);
  auto here = [&](const Turns& turns) { return Turns{this->here(turns.cos, 1), this->here(turns.sin, 1)}; };
  const auto frame_times = here(turns_at(in, At::frame_times)), sound_times = turns_at(in, At::sound_times);
  auto whole = [](const auto& q, const auto& k, const auto& v) { return nn::attention(q, k, v); };
  frames.attend_to_itself([&](const auto& q, const auto& k, const auto& v) { return attention_of(q, k, v, {}, num_tokens); },
                          here(turns_at(in, At::frame_turns)));
  sound.attend_to_itself(whole, turns_at(in, At::sound_turns));
  frames.attend_to_text(in[At::frame_text]);
  sound.attend_to_text(in[At::sound_text]);

  const auto of_frames = projected_between(frames_.to_other, frames, sound, 0),
             of_all = projected_between(sound_.to_other, sound, frames, 2);
  const auto heard = frames_.to_other.attend(of_frames, whole, frame_times, sound_times);
  const auto seen = sound_.to_other.attend(
      of_all, [&](const auto& q, const auto& k, const auto& v) { return attend_to_frames(q, k, v, num_tokens); }, sound_times, frame_times);
  frames.add(heard, [&](const Run&) { return frames.other_gate; });
  sound.add(seen, [&](const Run&) { return sound.other_gate; });
  frames.feed_forward();
  sound.feed_forward();
  if (!has_given) return {frames.runs[0].x_BLD, sound.runs[0].x_BLD};
  return {frames.runs[1].x_BLD, sound.runs[0].x_BLD, frames.runs[0].x_BLD};
}

}  // namespace burnish::models::ltx2
