#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"
#include "nn/block.h"
#include "nn/layers.h"

namespace burnish::tagging {

// Shape letters: B pictures, L tokens, C channels, S side of a picture in pixels.

/// Numbers of a DINOv3.
struct Dino3Config {
  int64_t width = 384, hidden = 1536, patch = 16;
  int64_t num_layers = 12, num_heads = 6;
  int64_t num_registers = 4;  ///< tokens beside that of the picture that stand for no patch
  bool is_gated = false;      ///< whether SiLU gates the hidden values of its MLPs, and not GELU
  double theta = 100;         ///< of rotated places
  double eps = 1e-5;          ///< of its norms
  bool has_key_bias = false;
};
/// Reads what config.json and shapes say; a data Error for what does not fit together. Shapes have the names of transformers 4.
Dino3Config dino3_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// A transformer over a token for the picture, registers and patches of it (transformers' DINOv3ViTModel).
class Dino3Tower : public nn::Module {
 public:
  Dino3Tower(const Dino3Config& config, const at::TensorOptions& options);
  /// Takes pictures of whole patches [B, 3, S, S], normalised -> their tokens, normed, [B, C].
  at::Tensor pooled(const at::Tensor& image_B3SS);

 private:
  Dino3Config config_;
  at::Tensor picture_token_11C_, registers_1RC_;
  nn::Conv2d patch_embedding_;
  std::vector<std::unique_ptr<nn::Block>> blocks_;
  nn::LayerNorm norm_;
};

}  // namespace burnish::tagging
