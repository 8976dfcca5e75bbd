#pragma once
#include "base/column.h"
#include "models/families/wan/transformer.h"
#include "models/families/wan/vace_config.h"
#include "models/model/components.h"

// VACE (arXiv 2503.07598): a module beside the transformer that reads a clip, a mask and a picture, and adds to the tokens behind some of
// the transformer's blocks. Shape letters as in blocks.h; K channels of what it reads.
namespace burnish::models::wan {

/// The name of the module where it trains, as DiffSynth-Studio has it; behind a second transformer it is vace_2.
inline const std::string kVace = "vace";
/// Columns that it reads, by DiffSynth-Studio's names: the clip that guides, a mask that is white where it is to be replaced, and a picture
/// of what is to be seen.
inline constexpr const char *kVaceVideo = "vace_video", *kVaceMask = "vace_video_mask", *kVaceReference = "vace_reference_image";
inline const Column kVaceInputs[] = {
    {.name = kVaceVideo, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"VACE"}},
    {.name = kVaceMask, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"VACE"}, .given = Column::Given::or_white},
    {.name = kVaceReference, .fit = Column::Fit::as_target, .words = {"VACE"}},
};

/// Names of parameters are those of diffusers' WanVACETransformer3DModel. Tokens are shared out as the transformer's, whose places they
/// have.
class Vace : public nn::Module, public nn::SharesTokens {
 public:
  Vace(const Config& dit, const VaceConfig& config, const at::TensorOptions& options);
  ~Vace() override;

  /// Makes what is added to the transformer's tokens of a context [B, K, F, H, W], which has as many frames and sides as the noisy latents.
  /// Both must outlive the result. Each block runs when the transformer comes to the place where its result is added.
  Hints hints(const at::Tensor& context_BKFHW);

 private:
  class HintBlock;
  VaceConfig config_;
  nn::Conv patch_in_;
  std::vector<std::unique_ptr<HintBlock>> blocks_;
};

/// Finds the module among an entry's tensors, in diffusers' names or the original ones; beside the transformer, or in a file of its own.
Source find_vace(const ModelEntry& entry);

}  // namespace burnish::models::wan
