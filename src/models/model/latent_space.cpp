#include "models/model/latent_space.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/random_key.h"

namespace burnish::models {

std::string stream_value(const std::string& stream, const std::string& of_first) {
  if (of_first == kLatents) return stream;
  return stream == kLatents ? of_first : stream + "_" + of_first;
}

uint64_t stream_key(uint64_t key, const std::string& stream) { return stream == kLatents ? key : mix64(key ^ mix64(stream)); }

namespace {

/// Counts the latents of a clip's frames: of those that it has at least, and of each step.
int64_t num_latents(const LatentSpace& space, int64_t temporal, int64_t num_frames) {
  auto made_of = [&](int64_t count) { return (count + temporal - 1) / temporal; };
  if (space.has_layers) return num_frames - space.first_frames + 1;
  if (num_frames < space.first_frames) return 1;  // a still
  return made_of(space.first_frames) + (num_frames - space.first_frames) / space.frames_step * made_of(space.frames_step);
}

}  // namespace

int64_t num_of_line(double seconds, int64_t latents_a_second) {
  return std::max<int64_t>(1, std::llround(seconds * static_cast<double>(latents_a_second)));
}

std::vector<int64_t> LatentSpace::shape(const Stream& stream, const Extent& extent, double rate) const {
  check(extent);
  if (stream.spatial == 0) {
    const auto seconds = static_cast<double>(extent.frames) / rate_of(rate);
    return {stream.channels, stream.num_before * num_of_line(seconds, stream.temporal)};
  }
  std::vector<int64_t> shape{stream.channels, extent.height / stream.spatial, extent.width / stream.spatial};
  if (frames_step > 0) shape.insert(shape.begin() + 1, stream.num_before + num_latents(*this, stream.temporal, extent.frames));
  return shape;
}

int64_t LatentSpace::num_tokens(at::IntArrayRef shape) const {
  const auto patch = streams.at(0).patch;
  const auto plane = shape.slice(shape.size() - 2);
  const auto num_frames = has_layers ? 1 : c10::multiply_integers(shape.slice(1, shape.size() - 3));
  return num_frames * (plane[0] / patch) * (plane[1] / patch);
}

double LatentSpace::rate_of(double rate) const {
  if (rate == 0) return frame_rate;
  if (rate_use == Column::RateUse::fixed && rate != frame_rate)
    config_error("models", "clips of this model have {:g} frames a second, and frame_rate asks for {:g}; take it out", frame_rate, rate);
  return rate;
}

void LatentSpace::check(const Extent& extent) const {
  const auto& [frames, height, width] = extent;
  if (height < side || width < side || height % side || width % side)
    config_error("models", "height and width must be multiples of {} pixels for this model, not {} and {}", side, height, width);
  if (frames_step == 0 && frames != first_frames) config_error("models", "this model makes pictures, which are one frame, not {}", frames);
  const bool is_still = frames == 1 && !has_layers;
  if (frames_step == 0 || is_still || (frames >= first_frames && (frames - first_frames) % frames_step == 0)) return;
  const auto below = frames < first_frames ? first_frames : frames - (frames - first_frames) % frames_step;
  config_error("models", "the clips of this model have {} + a multiple of {} frames, and not {}; the nearest are {} and {}", first_frames,
               frames_step, frames, below, below + frames_step);
}

LatentSpace picture_space(int64_t channels, int64_t spatial, int64_t patch) {
  return {.streams = {{.name = kLatents, .channels = channels, .spatial = spatial, .patch = patch}}, .side = spatial * patch};
}

}  // namespace burnish::models
