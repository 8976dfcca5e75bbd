#pragma once
#include <vector>

#include "nn/block.h"
#include "nn/layers.h"
#include "tagging/network.h"

namespace burnish::tagging {

/// Numbers of a transformer over patches of a picture, as far as it is the same whatever its blocks do.
struct PatchConfig {
  int64_t width = 768, num_layers = 12, num_heads = 12, patch = 16;
  int64_t num_places = 784;         ///< rows of the table of places
  int64_t num_tags = 0;             ///< 0: it has no last layer
  double eps = 1e-6;                ///< of its norms
  bool has_class = false;           ///< whether a token stands before those of patches
  bool norm_after_pooling = false;  ///< "fc_norm" and not "norm"
  bool pools_class = false;         ///< whether that token is what is read, and not the mean of those of patches

  /// Returns patches along a side.
  int64_t grid() const;
};
/// Reads what shapes and config.json say; `what` names the model in messages.
PatchConfig patch_config(const nlohmann::json& config_json, const io::Shapes& shapes, const char* what);

/// A transformer over patches of a picture, each with a learned place; its blocks are {tokens [B, L, C], shared...} -> {tokens}.
class VisionTransformer : public Network {
 public:
  using MakeBlock = std::function<std::unique_ptr<nn::Block>(const at::TensorOptions& options)>;
  /// `shared` is given to every block beside tokens.
  VisionTransformer(const PatchConfig& config, const at::TensorOptions& options, const MakeBlock& make_block, nn::Tensors shared = {});
  at::Tensor logits(const at::Tensor& image_B3SS) override;
  /// Takes pictures of any sides of whole patches -> what its last layer reads, [B, C]. Places of other sides than the config's are
  /// interpolated.
  at::Tensor pooled(const at::Tensor& image_B3SS);

 private:
  PatchConfig config_;
  nn::Conv2d patch_embedding_;
  at::Tensor class_token_11C_, places_1LC_;
  std::vector<std::unique_ptr<nn::Block>> blocks_;
  nn::Tensors shared_;
  nn::LayerNorm norm_;
  std::unique_ptr<nn::Linear> head_;
};

}  // namespace burnish::tagging
