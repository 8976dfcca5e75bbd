#pragma once
#include "config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

// The maths of the example: plain modules that know names and tensors, nothing of files, units or training. The parts of a component that
// can be loaded or trained apart are modules of their own.
namespace burnish::models::skeleton {

/// {tokens [B,L,E]} -> {tokens}: a residual MLP behind a layer norm.
class MlpBlock : public nn::Block {
 public:
  MlpBlock(int64_t width, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& in) override;

 private:
  nn::LayerNorm norm_;
  nn::Linear up_, down_;
};

/// Bytes of a text -> features [1, L, encoder_width]. Frozen in most runs.
class TextBody : public nn::Module {
 public:
  TextBody(const Config& config, const at::TensorOptions& options);
  at::Tensor forward(const std::string& text);

 private:
  Config config_;
  nn::Embedding bytes_, positions_;
  MlpBlock block_;
};

/// Features -> what the denoiser attends to [1, L, width]. The part that a run with `--trainable_models text_encoder.projector` trains.
class Projector : public nn::Module {
 public:
  Projector(const Config& config, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& features_BLE);

 private:
  nn::LayerNorm norm_;
  nn::Linear linear_;
};

/// What is loaded of the component text_encoder: both parts, or one.
class TextEncoder : public nn::Module {
 public:
  TextEncoder(const Config& config, const at::TensorOptions& options, bool with_body, bool with_projector);
  std::unique_ptr<TextBody> body;
  std::unique_ptr<Projector> projector;
};

/// Pictures [B,3,H,W] <-> latents [B,C,1,H/patch,W/patch], one patch at a time. Of a clip [B,3,1+2k,H,W] every second frame becomes a
/// latent, and its latents [B,C,1+k,h,w] become 1 + 2k frames: behind the first every latent is two equal ones.
class Autoencoder : public nn::Module {
 public:
  Autoencoder(const Config& config, const at::TensorOptions& options);
  at::Tensor encode(const at::Tensor& image);
  at::Tensor decode(const at::Tensor& latents_BCFHW);

 private:
  Config config_;
  nn::Linear encoder_, decoder_;
};

/// {tokens [B,N,E], text [B,L,E]} -> {tokens}: attends to the text, then an MLP.
class DenoiserBlock : public nn::Block {
 public:
  DenoiserBlock(int64_t width, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& in) override;

 private:
  nn::LayerNorm norm_;
  nn::Linear to_q_, to_k_, to_v_, to_out_;
  MlpBlock mlp_;
};

/// Noisy latents, sigma and text -> velocity of the latents' shape.
class Denoiser : public nn::Module {
 public:
  Denoiser(const Config& config, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& noisy_BCFHW, const at::Tensor& sigma_B, const at::Tensor& text_BLE);

 private:
  Config config_;
  nn::Linear patch_in_, time_in_, patch_out_;
  std::vector<std::unique_ptr<DenoiserBlock>> blocks_;
};

}  // namespace burnish::models::skeleton
