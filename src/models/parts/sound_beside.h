#pragma once
#include <ATen/core/Tensor.h>

#include "base/column.h"
#include "models/model/options.h"
#include "pipeline/unit.h"

// Sound beside the frames of a clip, of families whose models make both.
namespace burnish::models {

/// The options that say how much the losses of sound and of frames count, and whether a sample without sound learns silence.
inline constexpr const char *kSoundWeight = "sound_loss_weight", *kFramesWeight = "frames_loss_weight",
                            *kSilence = "silent_on_missing_audio";
/// Makes these options.
std::vector<Option> sound_loss_options();

/// The factors on the losses of both.
struct LossWeights {
  double frames = 1, sound = 1;
  bool is_column_named = false;  ///< whether a run names the column of sound; else samples have none, and drawings alone are judged

  /// Tells whether the sound of samples is learned.
  bool learns_sound() const { return is_column_named && sound > 0; }
};
/// Reads them. Throws a config Error where nothing would be learned.
LossWeights loss_weights(const ModelOptions& options, const Column& column);

/// The sounds of a batch: samples of those that have one, and zeros of others.
struct HeardSounds {
  at::Tensor samples_BCN;
  at::Tensor has_B11;  ///< 1 for those that have one, or learn silence
};
/// Reads sounds [B, C, N], of which samples are no numbers where a row has none (Column::Fit::target), cut or filled with zeros to
/// `length`.
HeardSounds heard_sounds(const at::Tensor& samples_BCN, int64_t length, bool learns_silence);

/// Makes the unit by which a stream of sound counts where the value `has_sound` of a sample is 1.
pipeline::Unit weigh_sound(const std::string& stream, const std::string& has_sound);

}  // namespace burnish::models
