#pragma once
#include <nlohmann/json_fwd.hpp>
#include <set>

#include "io/key_map.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::text {

// Shape letters: N patches, D width, P rotated pairs, W windows, S patches of a window, R rows and C columns of cells, E width of texts.

/// Numbers of the vision tower of Qwen2.5-VL. Defaults are those of every published size but out_width, which is 7B's.
struct VisionConfig {
  int64_t width = 1280;
  int64_t hidden = 3420;  ///< width between the layers of the MLPs
  int64_t num_layers = 32;
  int64_t num_heads = 16;
  int64_t patch = 14;                                  ///< pixels of a patch's side
  int64_t num_frames = 2;                              ///< frames that a patch spans; a picture stands for all of them
  int64_t merge = 2;                                   ///< patches of a cell's side; a cell becomes one token of the text
  int64_t window = 112;                                ///< pixels of a window's side
  int64_t out_width = 3584;                            ///< width of the text encoder's tokens
  std::set<int64_t> full_attention = {7, 15, 23, 31};  ///< layers in which all patches see each other; in others patches of a window do
  int64_t cell() const { return patch * merge; }       ///< pixels of a cell's side
};

/// Reads sizes from shapes (our names) and the rest from "vision_config" of the text encoder's config.json (null for none).
VisionConfig vision_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// The most and the least pixels of a picture that the tower is shown. Defaults are those published with Qwen2.5-VL.
struct PixelRule {
  int64_t least = 56 * 56, most = 12845056;
};
/// Reads the rule from preprocessor_config.json (transformers: image_processing_qwen2_vl.py).
PixelRule pixel_rule(const nlohmann::json& preprocessor_json);

/// Returns the sides of the picture that the tower is shown for one of these sides: multiples of a cell, its area as the rule says
/// (transformers: smart_resize). Throws a data Error for a picture that is more than 200 times as long as wide.
std::pair<int64_t, int64_t> shown_size(int64_t height, int64_t width, const VisionConfig& config, const PixelRule& rule);

/// A picture cut into patches, cell by cell.
struct Patches {
  at::Tensor pixels_NF;           ///< fp32, normalised; F = 3 · frames · patch · patch
  int64_t rows = 0, columns = 0;  ///< rows and columns of cells
};
/// Cuts a picture of whole numbers from 0 to 255, fp64 [3, H, W], scaled as the rule says, into patches.
Patches patches_of(const at::Tensor& levels_3HW, const VisionConfig& config, const PixelRule& rule);

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
