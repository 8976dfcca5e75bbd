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
  int64_t hidden = 3072;  ///< width between the layers of the MLP
  int64_t num_layers = 12;
  int64_t num_heads = 12;
  int64_t max_positions = 77;
  double eps = 1e-5;
  bool quick_gelu = true;      ///< x·sigmoid(1.702 x); else exact GELU
  int64_t eos_token_id = 2;    ///< 2 stands for CLIP's first configs: pooled where the id is largest
  int64_t projection_dim = 0;  ///< width of the projected pooled embedding; 0: the model has no projection
};

/// Returns the numbers of OpenCLIP's ViT-bigG, SDXL's second text encoder.
ClipConfig open_clip_big_g();

/// Reads sizes from shapes (our names) and the rest from config.json, or takes it from `otherwise` where that says nothing.
ClipConfig clip_config(const nlohmann::json& config_json, const io::Shapes& shapes, const ClipConfig& otherwise = {});

enum class Projection { leave_out, keep };

/// Returns the weights of a CLIP text encoder within `source`, with or without a `text_model.` prefix there: position ids and, unless it is
/// to be kept, the projection of the pooled embedding are left out.
io::TensorSource clip_tensors(const io::TensorSource& source, Projection projection = Projection::leave_out);

/// Tells whether `source` names its tensors as OpenCLIP does (`transformer.resblocks.…`, query, key and value in one matrix).
bool has_open_clip_names(const io::TensorSource& source);

/// Returns the rules between OpenCLIP's names and ours.
io::KeyMap open_clip_keys();

/// Returns the rules between transformers' names (CLIPTextModel, CLIPTextModelWithProjection) and ours.
io::KeyMap transformers_clip_keys();

/// Returns the rules between the names of `source` (OpenCLIP's or transformers') and ours.
io::KeyMap clip_keys(const io::TensorSource& source);

/// CLIP's text encoder (Radford et al. 2021, arXiv 2103.00020; names of transformers' CLIPTextModel and, with a projection,
/// CLIPTextModelWithProjection).
class ClipTextModel : public nn::Module {
 public:
  ClipTextModel(const ClipConfig& config, const at::TensorOptions& options);
  ~ClipTextModel() override;

  struct Out {
    at::Tensor hidden_BLE;               ///< states after the final layer norm
    at::Tensor pooled_BE;                ///< their row at the end-of-text token
    at::Tensor projected_BP;             ///< the pooled embedding projected; undefined without projection
    std::vector<at::Tensor> states_BLE;  ///< states before the final layer norm: the embeddings, then what each layer makes of them
  };
  /// Takes ids [B, L] int64, L at most max_positions.
  Out forward(const at::Tensor& ids_BL);
  /// Applies the final layer norm, for models that read an earlier state through it (clip skip).
  at::Tensor normalise(const at::Tensor& state_BLE) const { return final_layer_norm_.forward(state_BLE); }
  const ClipConfig& config() const { return config_; }

 private:
  ClipConfig config_;
  nn::Embedding token_embedding_, position_embedding_;
  std::vector<std::unique_ptr<nn::Block>> layers_;
  nn::LayerNorm final_layer_norm_;
  std::unique_ptr<nn::Linear> text_projection_;
};

}  // namespace burnish::models::text
