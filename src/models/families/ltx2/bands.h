#pragma once
#include <ATen/core/Tensor.h>

#include "models/families/ltx2/sound_config.h"

namespace burnish::models::ltx2 {

/// Makes the weights of bands [num_bands, window / 2 + 1] over the pitches of a window: triangles whose corners follow each other on
/// Slaney's scale of pitch (linear to 1 kHz, logarithmic above), each of one area, as librosa and torchaudio make them for "slaney".
at::Tensor band_weights(const BandConfig& bands, const at::TensorOptions& options);

/// Computes the logarithm of the strength of bands of samples [..., N] -> [..., N / step + 1, num_bands]: of magnitudes in windows of Hann
/// that are centred on every step, mirrored at the ends of the sound; at least 1e-5 before the logarithm. A sound that is too short to be
/// mirrored ends in silence.
at::Tensor log_bands(const at::Tensor& samples_N, const BandConfig& bands);

}  // namespace burnish::models::ltx2
