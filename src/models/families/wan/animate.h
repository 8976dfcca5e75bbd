#pragma once
#include "base/column.h"
#include "models/families/wan/animate_config.h"
#include "models/families/wan/transformer.h"
#include "models/model/components.h"

// Wan-Animate (arXiv 2509.14055): a module beside the transformer that reads a clip of poses, which is added to the tokens, and a clip of a
// face, to which the tokens of a frame attend behind some of the transformer's blocks. Shape letters as in blocks.h; S the side of a face,
// f frames of the latents, M numbers of motion.
namespace burnish::models::wan {

/// The name of the module where it trains, as DiffSynth-Studio has it, and those of its parts: what is made of a face depends on nothing
/// but the face.
inline const std::string kAnimate = "animate_adapter", kAnimateFace = kAnimate + ".face", kAnimateBody = kAnimate + ".body";
/// Columns that it reads, by DiffSynth-Studio's names.
inline constexpr const char *kPoseVideo = "animate_pose_video", *kFaceVideo = "animate_face_video";
/// Columns of a clip that is kept outside of a mask, of the mask, and of frames from which the clip goes on.
inline constexpr const char *kKeptVideo = "animate_inpaint_video", *kKeptMask = "animate_mask_video",
                            *kPreviousFrames = "animate_previous_frames";
inline const Column kAnimateInputs[] = {
    {.name = kPoseVideo, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"Wan-Animate"}},
    {.name = kFaceVideo, .is = Column::Is::clip, .fit = Column::Fit::square, .words = {"Wan-Animate"}, .side = 512},
    {.name = kKeptVideo, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"Wan-Animate"}},
    {.name = kKeptMask, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"Wan-Animate"}},
    {.name = kPreviousFrames, .fit = Column::Fit::as_target, .words = {"Wan-Animate"}},
};

struct AnimatePart {
  bool face = true, body = true;
};

/// Names of parameters are those of diffusers' WanAnimateTransformer3DModel.
class Animate : public nn::Module, public nn::SharesTokens {
 public:
  Animate(const Config& dit, const AnimateConfig& config, const at::TensorOptions& options, AnimatePart part = {});
  ~Animate() override;

  /// Makes of a clip of a face [B, 3, F, S, S] in [-1, 1] tokens [B, 1 + f, N, D], zeros for the frame in front. Needs the face's part.
  at::Tensor face_tokens(const at::Tensor& faces_BCFSS);
  /// Makes of latents of poses [B, C, f, h, w] what is added to the transformer's patches [B, D, 1 + f, h / 2, w / 2], zeros for the frame
  /// in front. Needs the body.
  at::Tensor pose_patches(const at::Tensor& poses_BCFHW) const;
  /// Makes what is added to the transformer's tokens of what face_tokens made. Both must outlive the result. Needs the body.
  Hints hints(const at::Tensor& face_BFND);

 private:
  struct Face;
  class Fuser;
  struct Body;

  AnimateConfig config_;
  std::unique_ptr<Face> face_;
  std::unique_ptr<Body> body_;
};

/// Finds the module among an entry's tensors, in diffusers' names or the original ones.
Source find_animate(const ModelEntry& entry);

}  // namespace burnish::models::wan
