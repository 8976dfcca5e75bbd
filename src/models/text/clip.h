#pragma once
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::text {

/// Numbers of a CLIP text encoder. Defaults are CLIP-L's.
struct ClipConfig {
  int64_t vocab_size = 49408;
  int64_t width = 768;
  int64_t hidden = 3072;  ///< of the MLP
  int64_t num_layers = 12;
  int64_t num_heads = 12;
  int64_t max_positions = 77;
  double eps = 1e-5;
  bool quick_gelu = true;    ///< x·sigmoid(1.702 x); else exact GELU
  int64_t eos_token_id = 2;  ///< 2 stands for CLIP's first configs: pooled where the id is largest
};

/// Reads sizes from shapes (our names) and the rest from config.json (null for none; CLIP-L's values then).
ClipConfig clip_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// The weights of a CLIP text encoder within `source`, under our names: with or without a `text_model.` prefix, position ids and
/// projection left out.
io::TensorSource clip_tensors(const io::TensorSource& source);

/// CLIP's text encoder (Radford et al. 2021, arXiv 2103.00020; names of transformers' CLIPTextModel).
class ClipTextModel : public nn::Module {
 public:
  ClipTextModel(const ClipConfig& config, const at::TensorOptions& options);
  ~ClipTextModel() override;

  struct Out {
    at::Tensor hidden_BLE;  ///< after the final layer norm
    at::Tensor pooled_BE;   ///< its row at the end-of-text token
  };
  /// ids [B, L] int64, L at most max_positions.
  Out forward(const at::Tensor& ids_BL);
  std::vector<nn::Block*> blocks();

 private:
  ClipConfig config_;
  nn::Embedding token_embedding_, position_embedding_;
  std::vector<std::unique_ptr<nn::Block>> layers_;
  nn::LayerNorm final_layer_norm_;
};

}  // namespace burnish::models::text
