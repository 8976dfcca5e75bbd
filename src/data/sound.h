#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>

#include "base/column.h"
#include "data/raw_sound.h"

namespace burnish::data {

/// Sound fp32 [C, N] in [-1, 1], one or two channels, at so many samples a second; undefined samples are no sound.
struct Sound {
  at::Tensor samples_CN = {};
  int64_t rate = 0;
};

/// Decodes a window of a file's sound, mixed to so many channels and resampled to `rate`, by FFmpeg's libraries: fp32 [C, N] in [-1, 1], N
/// being round(length · own rate) of the file's samples at the new rate, rounded up. Where the file has no sound there is silence; [C, 0]
/// where it has none at all and no length is asked for, and samples `otherwise` where one is. A data Error names the file where it cannot
/// be read.
at::Tensor decode_sound(const std::filesystem::path& path, const SoundWindow& window, int64_t rate, int64_t num_channels,
                        double otherwise = 0);

/// Returns what a sample of a column's sound is where there is none.
double where_missing(const Column& column);
/// Makes so many samples of a column's sound where there is none: silence, or no numbers (NaN) of one that is trained.
at::Tensor no_sound(const Column& column, int64_t num_samples);

/// Resamples fp32 [..., L] to [..., ceil(L · to / from)] by a sinc of six lobes under a Hann window, rolled off at 0.99 of the lower rate,
/// as torchaudio's resample does unasked (Smith, Digital Audio Resampling Home Page).
at::Tensor resample(const at::Tensor& samples_L, int64_t from, int64_t to);

}  // namespace burnish::data
