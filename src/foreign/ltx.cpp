#include "foreign/ltx.h"

namespace burnish::foreign {

int64_t frames_of_ltx(double number) {
  const auto frames = static_cast<int64_t>(number);
  return frames < 1 ? 1 : (frames - 1) / 8 * 8 + 1;
}

Outcome carried_frames_of_ltx(const Value& number) {
  const auto given = number_of(number);
  if (!given) return left_out("is no number of frames");
  const auto frames = frames_of_ltx(*given);
  return carried(frames, static_cast<double>(frames) == *given ? "" : "a clip has 1 frame and a multiple of 8");
}

}  // namespace burnish::foreign
