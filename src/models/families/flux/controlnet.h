#pragma once
#include "models/families/flux/transformer.h"

namespace burnish::models::flux {

/// Numbers of a ControlNet, read as the transformer's are.
struct ControlConfig {
  Config trunk = {};              ///< numbers of its copies of the transformer's first blocks
  int64_t control_channels = 64;  ///< 4 × channels of what controls: latents, and the mask where it inpaints
  int64_t num_modes = 0;          ///< kinds of control that it tells apart; 0: one alone
};
ControlConfig detect_control(const nlohmann::json* config_json, const Shapes& shapes);

/// A FLUX.1 ControlNet: copies of the transformer's first blocks, of which each gives a residual through a layer of its own (Zhang et al.
/// 2023, arXiv 2302.05543). Parameter names are those of diffusers' FluxControlNetModel.
class ControlNet : public nn::Module {
 public:
  ControlNet(const ControlConfig& config, const at::TensorOptions& options);

  struct Inputs {
    Transformer::Conditions conditions;
    at::Tensor latents_BIC;  ///< packed noisy latents
    at::Tensor control_BIC;  ///< packed latents that control, of control_channels
    at::Tensor text_BTE;
    at::Tensor mode_B{};  ///< int64, below num_modes; undefined for a ControlNet without modes
    Grid grid = {};
  };
  /// Computes what each of its blocks, double blocks first, adds to image tokens: [B, N, I, D].
  at::Tensor forward(const Inputs& in);

  const ControlConfig& config() const { return config_; }

 private:
  ControlConfig config_;
  Transformer trunk_;
  nn::Linear control_embedder_;
  std::unique_ptr<nn::Embedding> mode_embedder_;
  std::vector<std::unique_ptr<nn::Linear>> out_;
};

/// Returns the residual for a block of the transformer, undefined where there is none. Each of a ControlNet's blocks serves as many of the
/// transformer's as it takes to serve them all.
at::Tensor residual_for(int64_t block, const Config& transformer, const Config& trunk, const at::Tensor& residuals_BNID);

/// Returns the number of a control's kind: its number as text, or its name in InstantX's FLUX.1-dev-Controlnet-Union ("canny"); a data
/// Error for another.
int64_t control_mode(const std::string& name, int64_t num_modes);

}  // namespace burnish::models::flux
