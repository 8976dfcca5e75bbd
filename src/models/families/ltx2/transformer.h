#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/ltx2/config.h"
#include "models/families/ltx2/places.h"

namespace burnish::models::ltx2 {

// Shape letters: B batch, C channels of latents, F frames of latents, N latents of sound, T tokens of a text, E width of states that the
// transformer projects, D width of frames and Da of sound, M modulation values.

/// The transformer of LTX-2, 2.3 and 2.5 (arXiv 2601.03233; parameter names are those of diffusers' LTX2VideoTransformer3DModel): frames
/// and sound in two streams that attend to each other, with a text for each. It predicts noise - data.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes of sigma, fp32 in [0, 1], what modulates [B, M] in `dtype`: the parts of a block (ModulationSizes) of frames, of sound, and
  /// where frames are given the parts of these (given_modulation_size); then D of the last norm of frames, Da of sound, and D of given
  /// frames. Given frames have no noise. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, bool has_given, at::ScalarType dtype) const;

  /// The tokens of a text for each stream: [B, T, C] and [B, T, Ca].
  struct Texts {
    at::Tensor frames, sound;
  };
  /// Projects states [B, T, E] that 2.0 reads to tokens for a stream. Needs the text, of a config with a `projected_width`.
  enum class Stream { frames, sound };
  at::Tensor project(const at::Tensor& states_BTE, Stream stream) const;

  /// Frames that stand beside the noisy ones, without noise.
  struct Beside {
    at::Tensor latents_BCFHW;
    at::Tensor places_B3L;  ///< of their tokens (places.h)
  };
  struct Inputs {
    at::Tensor noisy_BCFHW;  ///< of stills [B, C, H, W]
    at::Tensor sound_BCN;    ///< noisy latents of sound
    Texts texts;
    at::Tensor modulation_BM;  ///< of `modulate`
    at::Tensor rate_B;         ///< frames a second, or [1] where all samples have the same
    int64_t num_given = 0;     ///< first frames of the latents that are given, without noise; `modulate` is told of all that is given
    std::vector<Beside> beside = {};
  };
  /// The velocities noise - latents, of the shapes of what is noisy.
  struct Velocities {
    at::Tensor frames, sound;
  };
  /// Needs the body.
  Velocities forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, one for norms, zero for biases, tables, what makes the
  /// modulation, and the last layers. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Time;
  struct Text;
  struct Body;

  Config config_;
  std::unique_ptr<Time> time_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::ltx2
