#pragma once
#include <optional>

#include "models/blocks/mmdit.h"
#include "models/families/ltx2/config.h"
#include "models/families/ltx2/places.h"
#include "nn/recomputed_values.h"

// Shape letters: B batch, L tokens of a stream, K tokens that are attended to, T of the text, D width of a stream, H heads, P width of a
// head, C width of what is attended to.
namespace burnish::models::ltx2 {

/// Runs attention with a norm of query and key over all heads at once, and where a config has them a gate of every head, which is twice the
/// sigmoid of what a layer makes of the token that asks.
class Attention : public nn::Module {
 public:
  struct Sizes {
    int64_t width;          ///< of tokens that ask
    int64_t context_width;  ///< of those that are asked
    int64_t num_heads, head_dim;
    bool has_gates;
  };
  Attention(const Sizes& sizes, const at::TensorOptions& options);

  /// Projects tokens that ask -> {query [B, L, H·P]}, and where heads have gates what these are made of [B, L, H].
  nn::Tensors queries(const at::Tensor& x_BLD) const;
  /// Projects tokens that are asked -> {key, value [B, K, H·P]}.
  nn::Tensors keys(const at::Tensor& context_BKC) const;
  /// Projects tokens that ask each other -> {key, value}, and behind these what `queries` gives.
  nn::Tensors project(const at::Tensor& x_BLD) const;

  using Attend = std::function<at::Tensor(const at::Tensor& q_BHLP, const at::Tensor& k_BHKP, const at::Tensor& v_BHKP)>;
  /// Attends with `attention`, by what `keys` and behind it `queries` give; queries and keys turn by their places, where there are any
  /// -> [B, L, D].
  at::Tensor attend(const nn::Tensors& projected, const Attend& attention, const Turns& of_queries = {}, const Turns& of_keys = {}) const;

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
  std::optional<nn::Linear> gate_;
};

/// The layers and tables of a stream in a block.
struct StreamLayers : nn::Module {
  /// The words before the names of its layers: "" for frames and "audio_" for sound; and the name of its attention to the other stream.
  struct Names {
    const char *before, *to_other;
    const char* other_table;
  };
  static constexpr Names kOfFrames{"", "audio_to_video_attn", "video_a2v_cross_attn_scale_shift_table"};
  static constexpr Names kOfSound{"audio_", "video_to_audio_attn", "audio_a2v_cross_attn_scale_shift_table"};

  StreamLayers(const Config& config, const StreamSizes& sizes, const StreamSizes& other, bool has_biases, const Names& names,
               const at::TensorOptions& options);
  Attention to_itself, to_text, to_other;
  mmdit::FeedForward feed_forward;
  at::Tensor table;        ///< [6 or 9, D], added to what time gives (Config::num_modulations)
  at::Tensor text_table;   ///< [2, D], shift and scale of the text's tokens; undefined where none are modulated
  at::Tensor other_table;  ///< [5, D]: scale and shift for the attention of frames to sound, those for sound to frames, and the gate
};

/// The numbers of a sample that modulate a block's tokens: they are one behind the other in a tensor [B, M], for frames, then for sound.
struct ModulationSizes {
  int64_t tokens;  ///< Config::num_modulations, each as wide as a token
  int64_t other;   ///< scale and shift twice, for attention to the other stream
  int64_t gate;    ///< of that attention
  int64_t text;    ///< shift and scale of the text's tokens, or 0
  int64_t total() const { return tokens + other + gate + text; }
};
ModulationSizes modulation_sizes(const Config& config, const StreamSizes& stream);
/// Counts the numbers that modulate given frames: `tokens`, and behind them `other` where these are of a token's own time.
int64_t given_modulation_size(const Config& config);

/// A block of two streams. Each attends to itself and to its text, then both to each other, as they were before, and an MLP follows.
///
/// Inputs of `body`: {frames [B, V, D], sound [B, A, Da], text of frames [B, T, C], text of sound [B, T, Ca], modulation, then cosines and
/// sines of frames, of sound, of frames for the sound and of sound for the frames, then where there are any the tokens of frames that are
/// given [B, G, D]} -> {frames, sound, and the given}. The modulation is that of ModulationSizes of frames, of sound, and where frames are
/// given their own (given_modulation_size). Where tokens are shared out, those of frames are this place's, and turns are of all, in the
/// order of places, given tokens first; sound and texts are whole in every place.
class Block : public nn::Block, public nn::SharesTokens {
 public:
  Block(const Config& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  /// Attention of whole sound to frames of which every place has some.
  at::Tensor attend_to_frames(const at::Tensor& q_BHAP, const at::Tensor& k_BHlP, const at::Tensor& v_BHlP, int64_t num_tokens) const;

  Config config_;
  StreamLayers frames_, sound_;
};

}  // namespace burnish::models::ltx2
