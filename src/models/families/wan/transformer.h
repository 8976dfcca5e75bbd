#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "models/blocks/mmdit.h"
#include "models/families/wan/blocks.h"
#include "models/families/wan/config.h"
#include "models/families/wan/scail.h"
#include "models/families/wan/speech.h"

namespace burnish::models::wan {

/// The transformer of Wan 2.1 and 2.2 (arXiv 2503.20314; parameter names are those of diffusers' WanTransformer3DModel). What is made of
/// the time is computed in fp32, and so is what it modulates.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes of sigma, fp32 in [0, 1], what modulates [B, 7 D] in fp32: the six parts of every block, to which each adds its table, and what
  /// the last norm reads. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B) const;

  struct Inputs {
    at::Tensor noisy_BCFHW;  ///< noisy latents, and behind them along C what the model reads beside
    /// Umt5's states, and behind them a row of zeros for each text that is shorter than what the model was trained with.
    at::Tensor text_BTE;
    at::Tensor counts_BT;       ///< the tokens that a row of the text stands for: 1, for the row of zeros all that are missing; 0: none
    at::Tensor modulation_BM;   ///< the result of `modulate`
    at::Tensor image_BNW = {};  ///< CLIP's states of first and last frame, one behind the other
    at::Tensor given_modulation_BM = {};      ///< of sigma 0, where frames are given
    int64_t num_given = 0;                    ///< first frames of the latents that are given, without noise
    std::optional<int64_t> given_place = {};  ///< place in time of the one given frame, where the noisy ones are counted from 0
    Hints hints = {};                         ///< of a module beside the transformer
    at::Tensor reference_BCHW = {};           ///< latents of a reference picture, a frame of tokens in front of the clip's
    at::Tensor rays_BKFHW = {};               ///< of the camera (camera_rays)
    at::Tensor added_BDFHW = {};  ///< what is added to the patches of the noisy latents, made by a module beside the transformer
    /// The driving clip, for driven configs. It has one latent frame less than the noisy latents, and its own text, states and modulation.
    struct Clip {
      at::Tensor latents_BCFHW, text_BTE, counts_BT, modulation_BM, image_BNW;
    };
    std::optional<Clip> clip = {};
    nn::Tensors sources_BCFHW = {};  ///< latents of what is changed (Bernini-R), each of its own size: tokens in front of the clip's
    std::optional<Cast> cast = {};   ///< for configs with area_channels: pictures and a clip that drives
    at::Tensor states_BFM = {};      ///< for configs with talk: what is heard in each frame of the clip
    at::Tensor is_negative_B = {};   ///< for driven configs: 1 for samples that guidance leads away from, which skip a block
  };
  /// Computes the velocity, noise - latents [B, C, F, H, W]. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }
  /// Returns what Wan-S2V's has beside the others. Needs the body of one that hears.
  Speech& speech();
  /// Lists its blocks in order of execution.
  std::vector<nn::Block*> blocks() const;

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for biases, tables, what makes the modulation and the last
  /// layer (DiT, arXiv 2212.09748), one for norms. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Time;
  struct Body;

  at::Tensor tokens_of(const Inputs& in) const;
  std::pair<at::Tensor, at::Tensor> tables_of(const Inputs& in) const;
  nn::Tensors of_clip(const Inputs::Clip& clip) const;
  void run_blocks(nn::Tensors& inputs, bool has_given, const Hints& hints);
  void run_driven_blocks(nn::Tensors& inputs, const Inputs& in);

  Config config_;
  std::unique_ptr<Time> time_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::wan
