#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "io/key_map.h"
#include "models/text/gemma_config.h"
#include "nn/block.h"
#include "nn/layers.h"

namespace burnish::models::text {

/// The tensor by which a Gemma is told, below "layers.0.".
inline constexpr const char* kGemmaMark = "pre_feedforward_layernorm.weight";

/// Returns the weights of a Gemma's text part within `source`, under our names, which are transformers' below "model.language_model.",
/// "language_model.model." or "model."; what sees and hears, and the head that predicts tokens, are left out.
io::TensorSource gemma_tensors(const io::TensorSource& source);

/// Returns the rules between the names that transformers writes, below that prefix, and ours.
io::KeyMap gemma_keys_below(const std::string& prefix);

/// An RMS norm with a learned scale, all of it in fp32: x / sqrt(mean(x²) + eps) · weight, or · (1 + weight).
class GemmaNorm : public nn::Module {
 public:
  GemmaNorm(int64_t dim, const GemmaConfig& config, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_;
  double eps_;
  bool adds_one_;
};

class GemmaLayer;

/// The decoder of Gemma 3 and Gemma 4 as an encoder of texts (Gemma Team 2025, arXiv 2503.19786; names of transformers' Gemma3TextModel and
/// Gemma4UnifiedTextModel). Shape letters: B texts, L tokens, E width.
class GemmaEncoder : public nn::Module {
 public:
  GemmaEncoder(const GemmaConfig& config, const at::TensorOptions& options);
  ~GemmaEncoder() override;

  /// Is given a state [B, L, E] and how many layers are before it.
  using Take = std::function<void(int64_t layer, const at::Tensor& state_BLE)>;
  /// Runs ids [B, L] int64, texts of one length without padding, and gives `take` each of the num_states() states in turn: the scaled
  /// embedding, and what each layer gives, the last one behind the final norm (transformers: hidden_states). Nothing of a state is kept
  /// beyond the next layer.
  void each_state(const at::Tensor& ids_BL, const Take& take);
  /// Returns the states after so many layers, which ascend; layers behind the last are not run.
  nn::Tensors forward(const at::Tensor& ids_BL, const std::vector<int64_t>& after);
  int64_t num_states() const { return config_.num_layers + 1; }
  int64_t width() const { return config_.width; }

 private:
  void run(const at::Tensor& ids_BL, int64_t num_layers, const Take& take);

  GemmaConfig config_;
  nn::Embedding embed_tokens_;
  std::vector<std::unique_ptr<GemmaLayer>> layers_;
  GemmaNorm norm_;
};

}  // namespace burnish::models::text
