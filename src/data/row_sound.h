#pragma once
#include <string>

#include "data/dataset.h"

namespace burnish::data {

/// The column that names a file with the sound of a row, where it is among the extra files of a dataset.
constexpr const char* kSoundColumn = "input_audio";
/// Samples a second of the sound that units read.
constexpr int64_t kSoundRate = 16000;

/// Returns the file that holds a row's sound: the one that the column names, else its clip or picture.
std::string sound_file(const Dataset& dataset, int64_t row);

/// Loads the sound of a row's frames, of as long as they are shown, in one channel at `rate`: fp32 [N] in [-1, 1]. It is silence where the
/// file has none.
at::Tensor load_sound(const Dataset& dataset, int64_t row, int64_t rate);

}  // namespace burnish::data
