#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/minimax_h3/config.h"
#include "models/families/minimax_h3/places.h"

namespace burnish::models::minimax_h3 {

// Shape letters: B batch, C channels of latents, F frames of latents, T text tokens, S sides of a sound (2), N latents of each, E width of
// the text encoder's states, D width, M modulation values.

/// The transformer of MiniMax-H3 (parameter names are those of diffusers' MiniMaxH3Transformer3DModel): text, sound and frames in one
/// sequence, each kind modulated by its own numbers, made of the time of its noise. Its times run from noise to data and its velocities
/// point at data; here they are sigma and noise - data, as everywhere else in this program.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// The noise of frames, fp32 in [0, 1], of sound, of given frames and of given sound, each undefined where there is none of these.
  struct Sigmas {
    at::Tensor frames_B, sound_B = {}, given_B = {}, given_sound_B = {};
  };
  /// Computes every shift, scale and gate [B, M] in `dtype`: of each block 6 D for the text, for the sound where there is any, for the
  /// frames, and for given frames and given sound where there are any, then shift and scale of the last norm for the frames, and for the
  /// sound. Needs the modulation.
  at::Tensor modulate(const Sigmas& sigmas, at::ScalarType dtype) const;
  /// Makes the text's tokens [B, T, D] of states [B, T, E]; mask [B, T] is 1 on tokens and 0 where there are none. Needs the text.
  at::Tensor refine(const at::Tensor& states_BTE, const at::Tensor& mask_BT) const;

  /// The inputs that are given beside what is predicted: the first frame of a clip and its last one, or references.
  struct Given {
    nn::Tensors latents = {};     ///< of pictures, clips and sounds, those of frames nearly without noise: see add_references
    bool are_references = false;  ///< sigmas have given_sound_B then, whether or not one of them sounds
    at::Tensor seen_BSD = {};     ///< what `refine` made of the tokens of pictures in the text
    at::Tensor places_BL = {};    ///< places of the text's tokens and of these within the text
  };
  struct Inputs {
    at::Tensor noisy_BCHW;         ///< of clips [B, C, F, H, W]
    at::Tensor sound_BCSN = {};    ///< noisy latents of sound; undefined: the sequence has none
    at::Tensor text_BTD, mask_BT;  ///< of `refine`, and 1 for a caption's tokens, which come first, and 0 behind them
    at::Tensor modulation_BM;      ///< of `modulate`, with a sigma of what is there
    Given given = {};
  };
  /// The velocities noise - latents, of the shapes of what is noisy; `sound` is undefined where there is none.
  struct Velocities {
    at::Tensor frames, sound = {};
  };
  /// Needs the body.
  Velocities forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, one for norms, zero for modulations, biases and the last layers.
  /// `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Text;
  struct Body;
  /// Runs of tokens in the order of the sequence, and which of the modulations of a block each has.
  struct Runs {
    nn::Tensors embedded = {};
    std::vector<int64_t> modulations = {};
  };
  Runs embed(const Inputs& in, const Layout& layout) const;
  nn::Tensors run_blocks(const Inputs& in, const Runs& runs, nn::Tensors tables) const;

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::minimax_h3
