#pragma once
#include "base/column.h"
#include "models/families/wan/found.h"
#include "models/families/wan/hearing.h"
#include "models/families/wan/side_module.h"

namespace burnish::models::wan {

/// A column that Wan-S2V reads beside the sound, by DiffSynth-Studio's name: a clip of poses.
inline constexpr const char* kSpeechPoses = "s2v_pose_video";
inline const Column kSpeechInputs[] = {kSoundInput,
                                       {.name = kSpeechPoses, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"Wan-S2V"}}};

/// Holds what Wan-S2V reads: a picture, a sound and poses. Sound and poses are those of each frame but the first, which is the picture.
class SpeechUnits : public SideModule {
 public:
  /// Throws a data Error for an encoder of another transformer. `files` are the run's. All but `found` must outlive this.
  SpeechUnits(const ModelOptions& options, Components& components, const ModelFiles& files, const Found& found, const Config& dit);

  std::string variant(bool has_experts) const override;
  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  void add_names(Names& names) const override;
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  bool is_there() const { return dit_.extras.speech.is_there(); }
  pipeline::Unit sound_unit();
  pipeline::Unit pose_unit(const std::string& vae, const Encode& encode) const;

  const Config& dit_;
  Hearing hearing_;
};

/// Takes of states of a sound [B, S, T, W], 50 a second, those of each of `frames` frames but the first: [B, S, frames - 1, W]. They are
/// brought to 30 a second along straight lines; each frame has the nearest, and zeros behind the end (DiffSynth-Studio:
/// models/wav2vec.py). `seconds` is how long a frame is shown.
at::Tensor states_of_frames(const at::Tensor& states_BSTW, int64_t frames, double seconds);

}  // namespace burnish::models::wan
