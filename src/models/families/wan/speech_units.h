#pragma once
#include "base/column.h"
#include "models/families/wan/found.h"
#include "models/families/wan/side_module.h"
#include "models/parts/wav2vec2.h"

namespace burnish::models::wan {

/// The name of what hears, as DiffSynth-Studio has it.
inline const std::string kAudioEncoder = "audio_encoder";
/// Columns that Wan-S2V reads, by DiffSynth-Studio's names: a file of sound in place of the clip's own, and a clip of poses.
inline constexpr const char *kSoundInput = "input_audio", *kSpeechPoses = "s2v_pose_video";
inline const Column kSpeechInputs[] = {
    {.name = kSoundInput, .is = Column::Is::sound, .words = {"Wan-S2V", "1"}, .value = "sound", .channels = 1, .rate = 16000},
    {.name = kSpeechPoses, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"Wan-S2V"}},
};

/// The option that names where the settings of what hears lie, as DiffSynth-Studio has it.
Option audio_processor_option();

/// Holds what Wan-S2V reads: a picture, a sound and poses. Sound and poses are those of each frame but the first, which is the picture.
class SpeechUnits : public SideModule {
 public:
  /// Throws a data Error for an encoder of another transformer, and a config Error for its settings beside a transformer that hears
  /// nothing. `files` are the run's. All but `found` must outlive this.
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

  Source source_;
  const Config& dit_;
  Wav2Vec2Config config_;
  bool normalizes_ = true;  ///< whether sounds are brought to one loudness before they are heard
};

/// Takes of states of a sound [B, S, T, W], 50 a second, those of each of `frames` frames but the first: [B, S, frames - 1, W]. They are
/// brought to 30 a second along straight lines; each frame has the nearest, and zeros behind the end (DiffSynth-Studio:
/// models/wav2vec.py). `seconds` is how long a frame is shown.
at::Tensor states_of_frames(const at::Tensor& states_BSTW, int64_t frames, double seconds);

}  // namespace burnish::models::wan
