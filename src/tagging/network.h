#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"
#include "nn/module.h"

namespace burnish::tagging {

// Shape letters: B pictures, S side of a picture in pixels, L tokens, H and W rows and columns, C channels, T tags.

/// A network that sees pictures and says how much each tag is true of them (names of timm's models).
class Network : public nn::Module {
 public:
  /// Takes pictures [B, 3, S, S], normalised -> logits [B, T].
  virtual at::Tensor logits(const at::Tensor& image_B3SS) = 0;
};

/// Says how a network is built, and what it takes.
struct Plan {
  int64_t side = 448;    ///< of the square that pictures are scaled to
  int64_t num_tags = 0;  ///< rows of its last layer
  std::function<std::unique_ptr<Network>(const at::TensorOptions&)> build = {};
};

/// Reads the plan of an architecture from config.json as timm writes it, null for none, and from shapes under our names. A data Error names
/// what does not fit together.
using MakePlan = Plan (*)(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Returns the rules from timm's names of a ViT to ours, which have queries, keys and values apart.
io::KeyMap vision_transformer_keys();
/// A ViT (Dosovitskiy et al. 2020, arXiv 2010.11929; timm's VisionTransformer).
Plan vision_transformer_plan(const nlohmann::json& config_json, const io::Shapes& shapes);
/// An EVA-02 (Fang et al. 2023, arXiv 2303.11331; timm's Eva with rotated places, gates and a norm within them).
Plan eva02_plan(const nlohmann::json& config_json, const io::Shapes& shapes);
/// A Swin Transformer V2 (Liu et al. 2021, arXiv 2111.09883; timm's SwinTransformerV2).
Plan swin_v2_plan(const nlohmann::json& config_json, const io::Shapes& shapes);
/// A ConvNeXt (Liu et al. 2022, arXiv 2201.03545; timm's ConvNeXt).
Plan conv_next_plan(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Returns the arguments that timm was given beside an architecture's own; null where config.json has none.
nlohmann::json arguments_of(const nlohmann::json& config_json);
/// Returns the side of pictures that config.json says, or `otherwise`. A data Error where they are no squares, or `what` cannot see them.
int64_t side_of_pictures(const nlohmann::json& config_json, int64_t otherwise, const char* what);

}  // namespace burnish::tagging
