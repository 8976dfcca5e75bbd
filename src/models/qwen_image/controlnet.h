#pragma once
#include "models/components.h"
#include "models/extra_input.h"
#include "models/names.h"
#include "models/qwen_image/config.h"
#include "nn/block.h"
#include "nn/layers.h"

// The blockwise ControlNet of Qwen-Image (DiffSynth-Studio: models/qwen_image_controlnet.py, whose tensor names these are). Shape letters:
// B batch, I image tokens of the target, C channels of a token, D width.
namespace burnish::models::qwen_image {

/// What it is called where it trains.
inline const std::string kBlockwise = "blockwise_controlnet";
/// Columns that it reads, as DiffSynth-Studio calls them.
inline constexpr const char *kControlColumn = "blockwise_controlnet_image", *kControlMaskColumn = "blockwise_controlnet_inpaint_mask";
inline constexpr ExtraInput kExtraInputs[] = {
    {.column = kControlColumn, .needs = "a blockwise ControlNet", .fits_picture = true},
    {.column = kControlMaskColumn, .needs = "a blockwise ControlNet that inpaints", .fits_picture = true},
};

/// Adds to the picture behind every block of the transformer what it makes of that and of a control picture.
class BlockwiseControlNet : public nn::Module {
 public:
  struct Config {
    int64_t in_channels = 64;  ///< of a token of the control picture: 4 × channels of its latents, and of the mask of one that inpaints
    int64_t num_blocks = 60, width = 3072;
  };
  static Config detect(const io::Shapes& shapes);
  BlockwiseControlNet(const Config& config, const at::TensorOptions& options);

  /// control [B, I, C] -> [B, I, D], for all blocks.
  at::Tensor embed(const at::Tensor& control_BIC) const { return in_.forward(control_BIC); }
  /// The picture behind a block, with what is added to it.
  at::Tensor forward(int64_t block, const at::Tensor& image_BID, const at::Tensor& embedded_BID) const;

 private:
  nn::Linear in_;
  std::vector<std::unique_ptr<nn::Block>> blocks_;
};

/// The blockwise ControlNet among these files.
Source find_control(const ModelFiles& files);

/// The one of a run: found among its files, held to the transformer, and called as the columns ask for it.
class Control {
 public:
  /// A config Error for columns that do not go together, a data Error for a ControlNet of another transformer, where the files hold one.
  /// All must outlive this.
  Control(const ModelFiles& files, const ModelOptions& options, const qwen_image::Config& dit, bool has_dit);

  /// Whether the run names its columns.
  bool is_read() const { return options_.extra_inputs.contains(kControlColumn); }
  bool inpaints() const { return options_.extra_inputs.contains(kControlMaskColumn); }
  void add_components(Components& components) const;
  void add_names(Names& names) const;
  /// The columns of the run -> control_latents, by the autoencoder.
  pipeline::Units encode_units(int64_t downsampling, const std::function<at::Tensor(const at::Tensor& image)>& encode) const;

 private:
  const ModelOptions& options_;
  const qwen_image::Config& dit_;
  Source source_;
  BlockwiseControlNet::Config config_;
};

}  // namespace burnish::models::qwen_image
