#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/model/components.h"
#include "models/model/names.h"
#include "nn/layers.h"

namespace burnish::models {

/// Numbers of a CLIP tower of pictures. Defaults are OpenCLIP's ViT-H/14.
struct ClipVisionConfig {
  int64_t width = 1280, hidden = 5120, num_layers = 32, num_heads = 16;
  int64_t patch = 14, num_places = 257;  ///< a patch's side in pixels; places of a picture: its patches, a square number, and one more
  double eps = 1e-5;
  bool quick_gelu = false;  ///< x·sigmoid(1.702 x); else exact GELU

  /// Pixels along a side of its pictures.
  int64_t image_size() const;
};
/// Reads sizes from shapes (our names) and the rest from config.json; without one heads are 80 wide, as ViT-H's.
ClipVisionConfig clip_vision_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// A CLIP tower of pictures (Radford et al. 2021, arXiv 2103.00020; names of transformers' CLIPVisionModel without "vision_model.").
class ClipVision : public nn::Module {
 public:
  ClipVision(const ClipVisionConfig& config, const at::TensorOptions& options);
  /// Takes image [B, 3, H, W] in CLIP's mean and deviation -> [B, 1 + patches, W] for each of `after`, which rise: the states after so
  /// many layers, of the picture and of each patch. What comes behind the last of them is not run. Places of a picture of other sides than
  /// the config's are interpolated, as transformers does (CLIPVisionEmbeddings.interpolate_pos_encoding).
  std::vector<at::Tensor> states(const at::Tensor& image_B3HW, const std::vector<int64_t>& after);
  /// The states before the last layer of a picture that `seen_by_clip` makes.
  at::Tensor states_before_last(const at::Tensor& image_B3SS) { return states(image_B3SS, {config_.num_layers - 1})[0]; }
  /// The state of the picture as a whole after all layers, through the last norm, [B, W]: what transformers pools.
  at::Tensor pooled(const at::Tensor& image_B3HW) { return post_norm_.forward(states(image_B3HW, {config_.num_layers})[0].select(1, 0)); }
  const ClipVisionConfig& config() const { return config_; }

 private:
  ClipVisionConfig config_;
  at::Tensor class_embedding_;
  nn::Conv2d patch_embedding_;
  nn::Embedding position_embedding_;
  nn::LayerNorm pre_norm_;
  std::vector<std::unique_ptr<nn::Block>> layers_;
  nn::LayerNorm post_norm_;
};

/// Scales pictures [B, 3, H, W] in [-1, 1] to CLIP's side and gives them its mean and deviation, fp32. They are stretched to a square by
/// torch's bicubic filter, which does not smooth (Wan-Video: wan/modules/clip.py, CLIPModel.visual). transformers' CLIPImageProcessor,
/// which diffusers' pipelines call, cuts a square out of the middle and smooths.
at::Tensor seen_by_clip(const at::Tensor& image_B3HW, int64_t side);

/// Finds a CLIP tower of pictures in its own file, in the names of transformers, which ComfyUI keeps, or of Wan, whose file holds a tower
/// of texts beside.
Source find_clip_vision(const ModelFiles& files);
Recipe clip_vision_recipe(const std::string& name, const Source& source, const ClipVisionConfig& config);
ComponentNames clip_vision_names(const std::string& name, const ClipVisionConfig& config);

}  // namespace burnish::models
