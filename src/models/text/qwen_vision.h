#pragma once
#include <nlohmann/json_fwd.hpp>
#include <set>

#include "io/key_map.h"
#include "models/text/patches.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::text {

// Shape letters: N patches, D width, P rotated pairs, W windows, S patches of a window, R rows and C columns of cells, E width of texts.

/// Numbers of the vision tower of Qwen2.5-VL. Defaults are those of every published size but out_width, which is 7B's.
struct VisionConfig : Patching {
  int64_t width = 1280;
  int64_t hidden = 3420;  ///< width between the layers of the MLPs
  int64_t num_layers = 32;
  int64_t num_heads = 16;
  int64_t places_per_second = 2;                       ///< places in time that a second of a clip has in a text
  int64_t window = 112;                                ///< pixels of a window's side
  int64_t out_width = 3584;                            ///< width of the text encoder's tokens
  std::set<int64_t> full_attention = {7, 15, 23, 31};  ///< layers in which all patches see each other; in others patches of a window do
};

/// Reads sizes from shapes (our names) and the rest from "vision_config" of the text encoder's config.json (null for none).
VisionConfig vision_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// The tower's weights within a Qwen2.5-VL model are below "visual." or "model.visual."; names below are ours and transformers'.
inline constexpr const char* kVisionMark = "patch_embed.proj.weight";

/// The vision tower of Qwen2.5-VL (Bai et al. 2025, arXiv 2502.13923; names of transformers' Qwen2_5_VisionTransformerPretrainedModel).
class QwenVision : public nn::Module {
 public:
  QwenVision(const VisionConfig& config, const at::TensorOptions& options);
  ~QwenVision() override;
  /// Makes the tokens that stand for a picture in a text, cell by cell: [R, C, E].
  at::Tensor forward(const Patches& patches);

 private:
  struct Merger;
  VisionConfig config_;
  at::Tensor patch_weight_;  ///< [D, 3, frames, patch, patch]
  std::vector<std::unique_ptr<nn::Block>> layers_;
  std::unique_ptr<Merger> merger_;
};

}  // namespace burnish::models::text
