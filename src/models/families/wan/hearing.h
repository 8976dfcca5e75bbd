#pragma once
#include "base/column.h"
#include "models/model/options.h"
#include "models/parts/side_module.h"
#include "models/parts/wav2vec2.h"

// Models that hear a sound have this in common: wav2vec 2.0, its settings, and the column of the sound.
namespace burnish::models::wan {

/// The name of what hears, as DiffSynth-Studio has it, and samples of a sound a second.
inline const std::string kAudioEncoder = "audio_encoder";
inline constexpr int64_t kSoundRate = 16000;
/// The column of a file of sound in place of the clip's own.
inline const Column kSoundInput{.name = "input_audio",
                                .is = Column::Is::sound,
                                .words = {"Wan-S2V or InfiniteTalk", "1"},
                                .value = "sound",
                                .channels = 1,
                                .rate = kSoundRate};

/// The option that names where the settings of what hears lie, as DiffSynth-Studio has it.
Option audio_processor_option();
/// Throws a config Error where the option is given to a transformer that hears nothing.
void refuse_audio_processor(const ModelOptions& options);

/// What hears, and how sounds are brought before it.
class Hearing {
 public:
  /// Reads what the source holds, of which settings lie beside it or where an option says.
  void read(const ModelOptions& options, const ModelFiles& files, const Source& source);
  bool is_there() const { return source_.entry != nullptr; }
  const Wav2Vec2Config& config() const { return config_; }
  NamedRecipe component() const;
  /// Returns the states of a sound [B, N], Wav2Vec2's, of so many steps where it is asked for them.
  at::Tensor states(Wav2Vec2& encoder, const at::Tensor& sound_BN, c10::ScalarType dtype, int64_t num_steps = 0) const;

 private:
  Source source_;
  Wav2Vec2Config config_;
  bool normalizes_ = true;  ///< whether sounds are brought to one loudness before they are heard
};

}  // namespace burnish::models::wan
