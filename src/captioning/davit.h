#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::captioning {

// Shape letters: B pictures, S side of a picture in pixels, C channels of the last stage, N tokens of a picture, E their width.

/// Numbers of a stage: a convolution that leaves fewer places, and blocks behind it.
struct DavitStage {
  int64_t width = 128, depth = 1, hidden = 512;
  int64_t kernel = 3, stride = 2, padding = 1;
  int64_t num_heads = 4, num_groups = 4;
  bool norm_first = true;  ///< whether the convolution's norm stands before it
};
/// Numbers of Florence-2's eye. Defaults are those of the base model.
struct DavitConfig {
  std::vector<DavitStage> stages;
  int64_t window = 12;      ///< places along a side of the squares within which places attend to each other
  int64_t num_places = 50;  ///< rows, and columns, that places are learned for
  int64_t projected = 768;  ///< width of the tokens
};
/// Reads sizes from shapes (our names), and the rest from config.json's vision_config, null for none.
DavitConfig davit_config(const nlohmann::json& vision_json, const io::Shapes& shapes);

/// The eye of Florence-2 (Xiao et al. 2023, arXiv 2311.06242): a DaViT (Ding et al. 2022, arXiv 2204.03645), learned places, and a
/// projection into the width of the language model. Names are transformers' of Florence2VisionBackbone and Florence2MultiModalProjector.
class DavitEye : public nn::Module {
 public:
  DavitEye(const DavitConfig& config, const at::TensorOptions& options);
  ~DavitEye() override;
  /// Takes pictures, normalised [B, 3, S, S] -> a token of the mean of all places and one of each place, [B, N, E].
  at::Tensor forward(const at::Tensor& image_B3SS);
  const DavitConfig& config() const { return config_; }
  /// Returns the rows, and columns, of places that a picture of that side has behind the last stage.
  static int64_t places_of(const DavitConfig& config, int64_t side);

 private:
  struct Stage;
  at::Tensor placed(const at::Tensor& x_BCHW) const;

  DavitConfig config_;
  std::vector<std::unique_ptr<Stage>> stages_;
  nn::Embedding rows_, columns_;
  nn::Linear projection_;
  nn::LayerNorm norm_;
};

}  // namespace burnish::captioning
