#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>

#include "data/raw_sound.h"

namespace burnish::data {

/// Decodes a window of a file's sound, mixed to so many channels and resampled to `rate`, by FFmpeg's libraries: fp32 [C, N] in [-1, 1], N
/// being round(length · own rate) of the file's samples at the new rate, rounded up. Where the file has no sound there is silence; [C, 0]
/// where it has none at all and no length is asked for. A data Error names the file where it cannot be read.
at::Tensor decode_sound(const std::filesystem::path& path, const SoundWindow& window, int64_t rate, int64_t num_channels);

/// Resamples fp32 [..., L] to [..., ceil(L · to / from)] by a sinc of six lobes under a Hann window, rolled off at 0.99 of the lower rate,
/// as torchaudio's resample does unasked (Smith, Digital Audio Resampling Home Page).
at::Tensor resample(const at::Tensor& samples_L, int64_t from, int64_t to);

}  // namespace burnish::data
