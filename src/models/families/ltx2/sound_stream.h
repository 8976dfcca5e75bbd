#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/families/ltx2/sound_autoencoder.h"
#include "models/families/ltx2/sound_config.h"
#include "models/families/ltx2/vocoder.h"
#include "models/families/ltx2/vocoder_config.h"
#include "models/model/model.h"
#include "models/parts/shared_components.h"
#include "models/parts/sound_beside.h"

namespace burnish::models::ltx2 {

/// The names of the autoencoder of sound and of its vocoder, as diffusers has them, and the column of sounds, as DiffSynth-Studio has it.
inline const std::string kAudioVae = "audio_vae", kVocoder = "vocoder";
inline const Column kSoundInput{.name = "input_audio",
                                .is = Column::Is::sound,
                                .fit = Column::Fit::target,
                                .words = {"LTX-2's sound"},
                                .value = "sound",
                                .channels = 2,
                                .rate = 16000};

/// The latents of sound as a stream, and a value of each sample that says whether it has a sound.
inline const std::string kSound = "audio_latents", kHasSound = "has_sound";

/// The sound beside frames: what of it is learned, and the units of it.
///
/// The model has always seen a clip's sound beside its frames. Where a sample has none, its tokens stand there all the same: they are noise
/// of the level that the frames have, and nothing of it is judged. A run that names input_audio learns the sound of those that have one;
/// all samples of one length have equally many latents, so that they may stand in one batch. A still has one latent.
class SoundStream {
 public:
  /// `channels` are the numbers of a latent that the transformer reads; 0 where no file says it, and they are the autoencoder's. Throws a
  /// config Error for options that contradict each other, and a data Error for files of different models.
  SoundStream(const ModelOptions& options, Components& components, const ModelFiles& files, int64_t channels);

  bool is_judged() const { return weights_.learns_sound(); }
  const LossWeights& weights() const { return weights_; }
  std::vector<NamedRecipe> components() const;
  /// Returns what their files say of both beside tensors (file_settings.h), by section.
  nlohmann::json settings() const;
  LatentSpace::Stream stream() const;
  void add_names(Names& names) const;
  /// Adds what encodes, weighs and decodes sound. This must outlive the units.
  void add_units(UnitGroups& groups) const;

 private:
  bool is_encoded() const { return options_.extra_inputs.contains(kSoundInput.name); }
  pipeline::Unit stand_unit() const;
  pipeline::Unit encode_unit() const;
  pipeline::Unit decode_unit() const;
  /// Tells whether files hold all that makes a sound of latents; without it clips are drawn silent.
  bool can_sound() const { return source_.entry && config_.has_decoder && vocoder_source_.entry; }

  const ModelOptions& options_;
  Components& components_;
  LossWeights weights_;
  Source source_, vocoder_source_;
  SoundConfig config_;
  VocoderConfig vocoder_;
  int64_t channels_;
};

}  // namespace burnish::models::ltx2
