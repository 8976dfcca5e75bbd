#pragma once
#include <optional>

#include "models/families/ltx2/transformer.h"
#include "models/model/model.h"
#include "models/parts/held_frame.h"

namespace burnish::models::ltx2 {

/// The column that asks for a clip's last frame beside its first. Where a row names a picture in it, this is the last frame; else it is the
/// clip's own.
inline const Column kLastFrame{.name = "end_image", .fit = Column::Fit::as_target, .words = {"a model that goes on from frames"}};
/// The column that asks for frames within a clip; those that a row names stand in place of the clip's own. A plan has the clip's own.
inline const Column kKeyframes{
    .name = "keyframes", .fit = Column::Fit::as_target, .words = {.needs = "LTX-2 with frames within a clip", .example = "0"}};
/// The columns of clips that are seen beside the noise (IC-LoRA), each as long as the target, how many times smaller than the target they
/// are seen, and of a row's own rate of frames, as DiffSynth-Studio calls them.
inline const Column kReferenceClip{
    .name = "in_context_videos", .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"an IC-LoRA of LTX-2", "1"}},
    kReferenceScale{.name = "in_context_downsample_factor",
                    .is = Column::Is::numbers,
                    .fit = Column::Fit::alike,
                    .words = {.needs = "an IC-LoRA of LTX-2", .example = "2"},
                    .value = "reference_downscale_factor"},
    kRowRate{.name = kRateOfFrames,
             .is = Column::Is::numbers,
             .words = {.needs = "LTX-2, of clips that differ in their rates", .example = "24"},
             .value = "row_frame_rate",
             .given = Column::Given::by_rows};

/// The options that say how many first and last frames are given, and which within, how they are compressed, and how many times smaller
/// reference clips are seen.
std::vector<Option> given_frames_options();

/// The frames without noise that a run or a drawing gives the model: the first ones, in place of noisy ones, and beside the noisy ones
/// frames within the clip, the last ones and reference clips (arXiv 2601.03233, diffusers' pipeline_ltx2_condition.py and
/// DiffSynth-Studio's ltx2_audio_video.py).
class GivenFrames {
 public:
  /// Throws a config Error for columns that go with others which are not named.
  GivenFrames(const ModelOptions& options, int64_t channels);

  /// The latents of the first frames, as a value.
  static inline const std::string kFirst = "first_latents";
  bool has_first() const { return first_.are_given; }
  /// Returns how many first frames are given, where there are any.
  int64_t num_first() const { return first_.count; }
  /// Names the values by which a unit can tell what is given, for the two below.
  std::vector<std::string> read_to_tell() const;
  bool are_first(const pipeline::Scope& scope) const { return first_.are_given && first_.at.tell(scope); }
  bool are_any(const pipeline::Scope& scope) const;
  void add_names(Names& names) const;
  /// Adds what encodes them, with the component `vae`.
  void add_units(UnitGroups& groups, const std::string& vae, const Encode& encode) const;
  /// Names what the denoiser reads of them.
  std::vector<std::string> reads() const;
  /// Puts them into what the transformer reads of the noisy latents, which are there already, as is the rate.
  void give(const pipeline::Scope& scope, Transformer::Inputs& in) const;

 private:
  /// The frames at an end of a clip.
  struct End {
    bool are_given = false;
    int64_t count = 1;
    GivenAt at = {};  ///< the visits at which they are given
  };
  bool are_last(const pipeline::Scope& scope) const { return last_.are_given && last_.at.tell(scope); }
  bool are_within(const pipeline::Scope& scope) const { return !keyframes_.empty() && within_at_.tell(scope); }
  void check_shares(const ModelOptions& options) const;
  pipeline::Unit last_frames_unit(const std::string& vae, const Encode& encode) const;
  pipeline::Unit keyframes_unit(const std::string& vae, const Encode& encode) const;
  pipeline::Unit reference_unit(const std::string& vae, const Encode& encode) const;

  End first_, last_;
  bool has_reference_;
  int64_t channels_;
  std::optional<int64_t> scale_;    ///< how many times smaller references are seen; nothing where rows say it
  int64_t crf_ = 0;                 ///< at which single given frames go through H.264; 0: at none
  std::vector<int64_t> keyframes_;  ///< numbers of frames within a clip, from 0 on
  GivenAt within_at_;               ///< the visits at which these are given
};

}  // namespace burnish::models::ltx2
