#pragma once
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"
#include "models/text/patches.h"
#include "nn/block.h"
#include "nn/layers.h"

namespace burnish::models::text {

// Shape letters: N patches, D width, P rotated pairs, R rows and C columns of cells, E width of texts, K what is made of a picture.

/// Numbers of the vision tower of Qwen3-VL. Defaults are 4B's.
struct Qwen3VlVisionConfig : Patching {
  Qwen3VlVisionConfig() { patch = 16; }
  int64_t width = 1024;
  int64_t hidden = 4096;  ///< width between the layers of the MLPs
  int64_t num_layers = 24;
  int64_t num_heads = 16;
  int64_t side = 48;                             ///< learned positions along a side
  int64_t out_width = 2560;                      ///< width of the text encoder's tokens
  std::vector<int64_t> deepstack = {5, 11, 17};  ///< layers behind which more is made of a picture; Qwen3.5: none
};

/// Reads sizes from shapes (our names) and the rest from "vision_config" of the text encoder's config.json. Where that is null, heads are
/// those of every published size, and `deepstack` is the published one of as many layers.
Qwen3VlVisionConfig qwen3_vl_vision_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of the other published sizes.
Qwen3VlVisionConfig qwen3_vl_2b_vision();
Qwen3VlVisionConfig qwen3_vl_8b_vision();

/// The vision tower of Qwen3-VL and, without deepstack, of Qwen3.5 (Bai et al. 2025, arXiv 2511.21631; names of transformers'
/// Qwen3VLVisionModel). Its weights lie where Qwen2.5-VL's do (models/text/qwen_vision.h).
class Qwen3VlVision : public nn::Module {
 public:
  Qwen3VlVision(const Qwen3VlVisionConfig& config, const at::TensorOptions& options);
  ~Qwen3VlVision() override;
  /// Makes of a picture [K, R, C, E]: the tokens that stand for it in a text, and what is added to them behind the text encoder's first
  /// layers, one after the other.
  at::Tensor forward(const Patches& patches);

 private:
  struct Merger;
  at::Tensor places(int64_t rows, int64_t columns) const;

  Qwen3VlVisionConfig config_;
  at::Tensor patch_weight_;  ///< [D, 3, frames, patch, patch]
  at::Tensor patch_bias_;
  nn::Embedding positions_;
  std::vector<std::unique_ptr<nn::Block>> layers_;
  std::unique_ptr<Merger> merger_;
  std::vector<std::unique_ptr<Merger>> deepstack_;
};

}  // namespace burnish::models::text
