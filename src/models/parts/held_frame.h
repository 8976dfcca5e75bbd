#pragma once
#include "models/model/names.h"
#include "models/model/options.h"
#include "models/parts/shared_units.h"

// First frames of a clip that are given: their latents stand in place of the noisy ones, without noise, and a walk leads to them.
namespace burnish::models {

/// The column of the metadata that asks for it, as DiffSynth-Studio calls it. The picture is the clip's own first frame.
inline constexpr std::string_view kFirstFrameColumn = "input_image";

/// The visits of a run at which frames are given: all of them, or a share, which is drawn for a batch (ReferenceNames::given_shares).
class GivenAt {
 public:
  GivenAt() = default;
  GivenAt(std::string number, double share) : number_(std::move(number)), share_(share) {}
  void add_names(Names& names) const;
  /// Adds to the values that a unit reads what it has to know.
  void add_to(std::vector<std::string>& reads) const;
  /// Tells a unit whether frames are given.
  bool tell(const pipeline::Scope& scope) const;

 private:
  bool is_share() const { return share_ < 1; }
  std::string number_;
  double share_ = 1;
};
/// The option that says at which share of visits first frames are given.
inline constexpr const char* kFirstShare = "given_frames_share";
/// Makes an option that says so of frames: `what` are the first frames of a clip, say, and `where` says how they are asked for.
Option given_share_option(const char* name, const std::string& what, const std::string& where);
/// Makes the option kFirstShare.
Option first_share_option();
/// The option that says how many first frames are given.
inline constexpr const char* kGivenFrames = "given_frames";
/// Makes it.
Option given_frames_option();
/// Throws a config Error for a number of given frames, as this option says it, that no clip of a model has: 1 and a multiple of those of a
/// latent.
void check_given_frames(const char* option, int64_t num_frames, int64_t frames_of_latent);

/// Returns pictures [B, 3, H, W] as clips of one frame, and clips [B, 3, F, H, W] as they are, in [-1, 1].
at::Tensor as_clip(const at::Tensor& image);
/// Returns what stands in a column of pictures for each clip, and where it is empty the clip's own frame: [B, 3, H, W]. Throws a data Error
/// where several do.
at::Tensor frames_in(const pipeline::Scope& scope, std::string_view column, const at::Tensor& own_BCHW);
/// Throws a config Error for a clip that has no more frames than those that are given.
void check_has_more(int64_t num_frames, int64_t num_given = 1);

/// Makes of what a unit reads the first frames [B, 3, H, W] of clips, of which `own` is each one's own.
using FirstFrames = std::function<at::Tensor(const pipeline::Scope& scope, const at::Tensor& own_BCHW)>;
/// Makes the unit from a clip, of which it reads the first frame, to first_latents [B, C, 1, h, w]; `reads` are columns that `frames`
/// reads, which is null where the clip's own frame is given.
pipeline::Units held_frame_units(const std::string& vae, const Encode& encode, const std::vector<std::string>& reads = {},
                                 const FirstFrames& frames = nullptr);
/// Makes the unit from a clip, of which it reads so many frames, to their first_latents.
pipeline::Units held_beginning_units(const std::string& vae, const Encode& encode, int64_t num_frames);
/// Makes the unit from latents to the loss_map that leaves out so many first ones where they are given.
pipeline::Units held_frame_weights(int64_t num_latents = 1, const GivenAt& given = {});

/// Returns the noisy latents with the given ones in place of as many first.
at::Tensor with_first(const at::Tensor& noisy_BCFHW, const at::Tensor& first_BCGHW);
/// Puts in place of a prediction's first latents the velocity that leads from the noisy ones to the given ones, wherever a walk is.
at::Tensor leading_to_first(const at::Tensor& prediction_BCFHW, const at::Tensor& noisy_BCFHW, const at::Tensor& first_BCGHW,
                            const at::Tensor& sigma_B);

}  // namespace burnish::models
