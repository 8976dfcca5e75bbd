#pragma once
#include "models/families/qwen_image_21/blocks.h"
#include "models/model/components.h"
#include "models/model/extra_input.h"
#include "models/model/names.h"

// The ControlNet of Qwen-Image-2.1 (alibaba-pai's Fun-Controlnet-Union; DiffSynth-Studio: models/qwen_image_21_controlnet.py, whose tensor
// names these are). Shape letters: B batch, C tokens of text and reference pictures, I tokens of the target, N numbers of a control token,
// D width.
namespace burnish::models::qwen_image_21 {

/// The name of the ControlNet where it trains.
inline const std::string kControlNet = "controlnet";
/// Columns that it reads, by DiffSynth-Studio's names.
inline constexpr const char *kControlColumn = "controlnet_image", *kInpaintedColumn = "controlnet_inpaint_image",
                            *kMaskColumn = "controlnet_inpaint_mask";
inline constexpr ExtraInput kExtraInputs[] = {
    {.column = kControlColumn, .needs = "a ControlNet", .fits_picture = true},
    {.column = kInpaintedColumn, .needs = "a ControlNet that inpaints", .fits_picture = true},
    {.column = kMaskColumn, .needs = "a ControlNet that inpaints", .fits_picture = true},
};

/// Blocks that run beside every so many of the transformer's, on all of its tokens and on what controls, each of which adds a residual
/// behind the transformer's block.
class ControlNet : public nn::Module, public nn::SharesTokens {
 public:
  struct Config {
    qwen_image_21::Config blocks = {.in_channels = 129, .num_layers = 16};  ///< in_channels: numbers of a control token
    int64_t every = 2;                                                      ///< blocks of the transformer for one of these
  };
  /// Reads the numbers from tensor shapes. `transformer` says for how many blocks they are, and what no shape tells.
  static Config detect(const io::Shapes& shapes, const qwen_image_21::Config& transformer);
  ControlNet(const Config& config, const at::TensorOptions& options);
  ~ControlNet() override;

  /// Returns what the first block is given: `inputs` of the transformer's first block (Block), with what controls, [B, I, N], added to the
  /// target's tokens.
  nn::Tensors begin(const nn::Tensors& inputs, const at::Tensor& control_BIN) const;
  /// Goes on behind a block of the transformer: runs the block beside it, where there is one, on `controlled`, which `begin` made, and adds
  /// its residuals to the first two of `inputs`, {condition [B, C, D], target [B, I, D]}.
  void follow(int64_t block, nn::Tensors& controlled, nn::Tensors& inputs) const;

 private:
  class ControlBlock;

  int64_t every_;
  nn::Linear in_, before_;
  std::vector<std::unique_ptr<ControlBlock>> blocks_;
};

/// Finds the ControlNet among these files.
Source find_control(const ModelFiles& files);

/// The ControlNet of a run: found among its files, held to the transformer, and called as the columns ask for it.
class Control {
 public:
  /// Throws a config Error for columns that do not go together, a data Error for a ControlNet of another transformer, where the files hold
  /// one. All must outlive this.
  Control(const ModelFiles& files, const ModelOptions& options, const qwen_image_21::Config& dit, bool has_dit);

  /// Tells whether the run names its columns.
  bool is_read() const { return reads(kControlColumn) || reads(kMaskColumn); }
  void add_components(Components& components) const;
  void add_names(Names& names) const;
  /// Makes the units from the run's columns to control_latents [1, N, h, w], by the autoencoder: latents of the picture that controls, 1
  /// where a picture to inpaint is kept and 0 where it is drawn anew, and latents of that picture. What is not given is 0.
  pipeline::Units encode_units(int64_t downsampling, const std::function<at::Tensor(const at::Tensor& image)>& encode) const;

 private:
  bool reads(const std::string& column) const { return options_.extra_inputs.contains(column); }

  const ModelOptions& options_;
  const qwen_image_21::Config& dit_;
  Source source_;
  ControlNet::Config config_;
};

}  // namespace burnish::models::qwen_image_21
