#pragma once
#include "models/families/wan/blocks.h"
#include "models/families/wan/frame_tokens.h"

// What the transformer of Wan-S2V has beside the others (arXiv 2508.18621; Wan-Video: wan/modules/s2v): a clip of poses that is added to
// the tokens, and a sound, to which the tokens of a frame attend behind some of its blocks. Shape letters as in blocks.h; F frames of the
// clip, f of the latents, S states of a sound, W their width.
namespace burnish::models::wan {

/// The place in time of the frame of a reference picture.
inline constexpr int64_t kReferencePlace = 30;

class Speech : public nn::Module, public nn::SharesTokens {
 public:
  Speech(const Config& dit, const at::TensorOptions& options);
  ~Speech() override;

  /// Makes of latents of poses [B, C, f, h, w] what is added to the patches of a reference frame and of the noisy latents behind it:
  /// [B, D, 1 + f, h / 2, w / 2].
  at::Tensor added_patches(const at::Tensor& poses_BCFHW) const;
  /// Makes what is added to the tokens of f noisy frames, beside which the reference frame is given, of what is heard in 4 f frames of the
  /// clip, [B, S, F, W]. Both must outlive the result.
  Hints hints(const at::Tensor& states_BSFW);
  /// Returns the block that adds behind the transformer's block of that number; null where none does.
  nn::Block* behind(int64_t block) const;

  /// Tells whether a parameter of the transformer begins as zero when it is trained from scratch, by its path.
  static bool begins_as_zero(const std::string& path);
  /// Sets what begins otherwise than drawn: all states count alike.
  void initialise();

 private:
  class Injector;
  FrameTokens::Made heard(const at::Tensor& states_BSFW) const;

  std::vector<int64_t> layers_;
  nn::Conv pose_in_;
  at::Tensor weights_;  ///< [1, S, 1, 1]: of how much each state counts
  FrameTokens encoder_;
  std::vector<std::unique_ptr<Injector>> injectors_;
  nn::Embedding kinds_;                             ///< what noisy frames, a reference frame and frames before the clip are told apart by
  std::vector<std::unique_ptr<nn::Conv>> packers_;  ///< of frames before the clip, which files hold and no run has
};

}  // namespace burnish::models::wan
