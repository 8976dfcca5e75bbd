#pragma once
#include <memory>

#include "models/flux/config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::flux {

// Shape letters: B batch, I image tokens, T text tokens, L = T + I, D width, H heads, P = head_dim / 2 rotated pairs.

/// linear, SiLU, linear: the embedders of timestep, guidance and pooled text.
class EmbedMlp : public nn::Module {
 public:
  EmbedMlp(int64_t in, int64_t out, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Linear linear_1_, linear_2_;
};

class DoubleBlock;
class SingleBlock;

/// The FLUX.1 transformer: a velocity field over packed latents (Black Forest Labs; parameter names are those of
/// diffusers' FluxTransformer2DModel). Single-device maths only.
class Transformer : public nn::Module {
 public:
  Transformer(const Config& config, const at::TensorOptions& options);
  ~Transformer() override;

  struct Inputs {
    at::Tensor latents_BIC;  ///< packed latents
    at::Tensor text_BTE;     ///< T5 embedding
    at::Tensor pooled_BE;    ///< CLIP pooled embedding
    at::Tensor sigma_B;      ///< fp32 in [0, 1]
    at::Tensor guidance_B;   ///< fp32; ignored without guidance embedding
    int64_t rows = 0;        ///< packed rows; rows · columns = I
    int64_t columns = 0;     ///< packed columns
  };

  /// Velocity [B, I, out_channels] in the dtype of the weights.
  at::Tensor forward(const Inputs& in);

  std::vector<nn::Block*> blocks();
  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations and the last layer (DiT, arXiv
  /// 2212.09748), one for norms. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  at::Tensor conditioning(const Inputs& in) const;
  std::pair<at::Tensor, at::Tensor> rope(const Inputs& in) const;

  Config config_;
  nn::Linear x_embedder_, context_embedder_;
  EmbedMlp timestep_embedder_, text_embedder_;
  std::unique_ptr<EmbedMlp> guidance_embedder_;
  std::vector<std::unique_ptr<DoubleBlock>> double_blocks_;
  std::vector<std::unique_ptr<SingleBlock>> single_blocks_;
  nn::Linear norm_out_linear_, proj_out_;
};

/// [B, C, H, W] -> [B, H/2 · W/2, 4 C]: each 2×2 patch becomes one token.
at::Tensor pack_latents(const at::Tensor& latents_BCHW);

/// The way back, for a grid of `rows` × `columns` tokens.
at::Tensor unpack_latents(const at::Tensor& tokens_BIC, int64_t rows, int64_t columns);

}  // namespace burnish::models::flux
