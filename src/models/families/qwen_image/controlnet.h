#pragma once
#include "base/column.h"
#include "models/families/qwen_image/transformer.h"
#include "models/parts/side_module.h"
#include "nn/block.h"
#include "nn/layers.h"

// The blockwise ControlNet of Qwen-Image (DiffSynth-Studio: models/qwen_image_controlnet.py, whose tensor names these are). Shape letters:
// B batch, I image tokens of the target, C channels of a token, D width.
namespace burnish::models::qwen_image {

/// The name of the ControlNet where it trains.
inline const std::string kBlockwise = "blockwise_controlnet";
/// Columns that it reads, by DiffSynth-Studio's names.
inline constexpr const char *kControlColumn = "blockwise_controlnet_image", *kControlMaskColumn = "blockwise_controlnet_inpaint_mask";
inline const Column kExtraInputs[] = {
    {.name = kControlColumn, .fit = Column::Fit::as_target, .words = {"a blockwise ControlNet"}},
    {.name = kControlMaskColumn, .fit = Column::Fit::as_target, .words = {"a blockwise ControlNet that inpaints"}},
};

/// Adds to the image tokens behind every block of the transformer a residual, made of them and of a control picture.
class BlockwiseControlNet : public nn::Module {
 public:
  struct Config {
    int64_t in_channels = 64;  ///< numbers of a control token: 4 × channels of the latents, and of the mask where it inpaints
    int64_t num_blocks = 60, width = 3072;
  };
  static Config detect(const io::Shapes& shapes);
  BlockwiseControlNet(const Config& config, const at::TensorOptions& options);

  /// Embeds control [B, I, C] -> [B, I, D], for all blocks.
  at::Tensor embed(const at::Tensor& control_BIC) const { return in_.forward(control_BIC); }
  /// Returns the image tokens behind a block with their residual added.
  at::Tensor forward(int64_t block, const at::Tensor& image_BID, const at::Tensor& embedded_BID) const;

 private:
  nn::Linear in_;
  std::vector<std::unique_ptr<nn::Block>> blocks_;
};

/// Finds the blockwise ControlNet among these files.
Source find_control(const ModelFiles& files);

/// The blockwise ControlNet of a run: found among its files, held to the transformer, and called as the columns ask for it.
class Control : public SideModule<Transformer::Inputs> {
 public:
  /// Throws a config Error for columns that do not go together, a data Error for a ControlNet of another transformer, where the files hold
  /// one. `options`, `components` and `dit` must outlive this.
  Control(const ModelOptions& options, Components& components, const ModelFiles& files, const qwen_image::Config& dit, bool has_dit);

  /// Tells whether the run names its columns.
  bool is_read() const { return has(kControlColumn); }
  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  void add_names(Names& names) const override;
  /// Adds the unit from the run's columns to control_latents, by the autoencoder.
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  bool inpaints() const { return has(kControlMaskColumn); }

  const qwen_image::Config& dit_;
  Source source_;
  BlockwiseControlNet::Config config_;
};

}  // namespace burnish::models::qwen_image
