#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/model/components.h"
#include "models/model/names.h"
#include "models/parts/square.h"
#include "nn/layers.h"

namespace burnish::models {

/// Numbers of a SigLIP vision tower. Defaults are so400m-patch14-384's.
struct SiglipConfig {
  int64_t width = 1152, hidden = 4304, num_layers = 27, num_heads = 16;
  int64_t patch = 14, num_patches = 729;  ///< a patch's side in pixels; patches of a picture, a square number
  double eps = 1e-6;
  bool pools = true;  ///< whether a norm and a pool stand behind the layers; without them tokens are what the last layer makes of them

  /// Pixels along a side of its pictures: sides of whole patches, and what does not fill another one (384 for 27 patches of 14).
  int64_t image_size = 384;
};
SiglipConfig siglip_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// A SigLIP vision tower (Zhai et al. 2023, arXiv 2303.15343; parameter names of transformers' SiglipVisionModel, without the
/// "vision_model." that stands before them in published files).
class SiglipVision : public nn::Module {
 public:
  SiglipVision(const SiglipConfig& config, const at::TensorOptions& options);
  ~SiglipVision() override;
  struct Output {
    at::Tensor tokens_BLE, pooled_BE;
  };
  /// Takes image [B, 3, S, S] in [-1, 1], S = image_size -> a token for each patch, and what the attention pool makes of the tokens, where
  /// there is one.
  Output forward(const at::Tensor& image_B3SS);
  const SiglipConfig& config() const { return config_; }

 private:
  struct Pool;
  SiglipConfig config_;
  nn::Conv2d patch_embedding_;
  nn::Embedding position_embedding_;
  std::vector<std::unique_ptr<nn::Block>> layers_;
  std::unique_ptr<nn::LayerNorm> post_norm_;
  std::unique_ptr<Pool> pool_;
};

/// Finds a SigLIP vision tower in its own file or beside a text tower, of which nothing is read.
Source find_siglip(const ModelFiles& files);
/// Reads how pictures are shown to a tower of pictures of this side: squeezed into it. Published with it are halves as means and deviations
/// of colours. `chosen` is the folder of the processor's settings, "" for what lies beside the weights. A data Error for settings that show
/// pictures of another side.
SquareRule siglip_rule(const ModelFiles& files, const ModelEntry& entry, int64_t side, const std::string& chosen = "");
/// Tells whether an entry has SigLIP's towers, whose text tower is no CLIP.
bool is_siglip(const ModelEntry& entry);
Recipe siglip_recipe(const std::string& name, const Source& source, const SiglipConfig& config);
ComponentNames siglip_names(const std::string& name, const Source& source);

/// Resizes a picture [3, H, W] in [-1, 1] of 256 levels as Pillow's bicubic resize does: smoothed where it shrinks
/// (models/text/resample.h).
at::Tensor resized_bicubic(const at::Tensor& image_3HW, int64_t height, int64_t width);

}  // namespace burnish::models
