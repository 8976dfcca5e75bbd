#pragma once
#include "models/families/minimax_h3/process.h"
#include "models/families/minimax_h3/sound_autoencoder.h"
#include "models/model/model.h"
#include "models/parts/shared_components.h"
#include "models/parts/sound_beside.h"

namespace burnish::models::minimax_h3 {

/// The name of the autoencoder of sound, as diffusers has it, and the column of sounds, as DiffSynth-Studio has it.
inline const std::string kAudioVae = "audio_vae";
inline const Column kSoundInput{.name = "input_audio",
                                .is = Column::Is::sound,
                                .fit = Column::Fit::target,
                                .words = {"MiniMax-H3's sound"},
                                .value = "sound",
                                .channels = 2,
                                .rate = 32000};

/// The option that says what stands for the sound of a sample that has none.
inline constexpr const char* kSoundOption = "sound_of_stills";
std::vector<Option> sound_options();

/// The sides of a sound.
inline constexpr int64_t kSides = 2;
/// A value of each sample that says whether it has a sound.
inline const std::string kHasSound = "has_sound";

/// The sound beside frames: what of it is seen and what is learned, and the units of it.
///
/// The model has always seen a clip's sound beside its frames. Where a sample has none, its tokens stand there all the same: they are noise
/// of the level that sound has beside such frames, and nothing of it is judged. A run that names input_audio learns the sound of those that
/// have one; all samples have equally many latents, so that they may stand in one batch.
class SoundUnits {
 public:
  /// `channels` are those that the transformer reads; 0 where no file says it, and they are the autoencoder's. Throws a config Error for
  /// options that contradict each other, and where a run is to learn sound without an autoencoder of it.
  SoundUnits(const ModelOptions& options, Components& components, const Source& source, int64_t channels);

  /// Tells whether the sequence has tokens of sound, and whether the sound of samples is learned.
  bool is_seen() const { return is_seen_; }
  bool is_learned() const { return weights_.learns_sound(); }
  double frames_weight() const { return weights_.frames; }
  /// Returns the samples a second of sounds.
  int64_t rate() const { return config_.rate; }
  std::vector<NamedRecipe> components() const;
  LatentSpace::Stream stream() const;
  void add_names(Names& names) const;

  /// Makes the unit that encodes sounds in a list of tensors, [2, N] -> [C, 2 L], all of the left before the right; other tensors stay.
  pipeline::Unit encode_list_unit(const std::string& from, const std::string& to) const;

  /// Adds what encodes, weighs and decodes sound. This must outlive the units.
  void add_units(UnitGroups& groups) const;

 private:
  pipeline::Unit stand_unit() const;
  pipeline::Unit encode_unit() const;
  pipeline::Unit decode_unit() const;
  bool is_encoded() const { return is_seen_ && options_.extra_inputs.contains(kSoundInput.name); }

  const ModelOptions& options_;
  Components& components_;
  Source source_;
  SoundConfig config_;
  int64_t channels_;
  bool is_seen_ = false;
  LossWeights weights_;
};

}  // namespace burnish::models::minimax_h3
