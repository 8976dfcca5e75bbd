#include "data/row_sound.h"

#include <ATen/ops/zeros.h>

#include "data/sound.h"
#include "io/files.h"

namespace burnish::data {

std::string sound_file(const Dataset& dataset, int64_t row) {
  const auto& from = dataset.entry(row);
  auto own = from.extra.find(kSoundColumn);
  return own != from.extra.end() && own->is_string() ? own->get<std::string>() : from.file;
}

// Numbered frames are shown as fast as they are asked for.
at::Tensor load_sound(const Dataset& dataset, int64_t row, int64_t rate) {
  const auto& from = dataset.entry(row);
  const auto& asked = dataset.subsets()[from.subset].clips.rate;
  auto window = from.window.value_or(ClipWindow{.first = 0, .count = 1, .rate = asked});
  if (io::is_folder(from.file)) window.rate = asked;
  const SoundWindow seconds{{window.first * window.rate.den, window.rate.num}, {window.count * window.rate.den, window.rate.num}};
  const auto file = sound_file(dataset, row);
  if (file == from.file && !is_video(file)) return at::zeros({seconds.length.num * rate / seconds.length.den});
  return decode_mono(file, seconds, rate);
}

}  // namespace burnish::data
