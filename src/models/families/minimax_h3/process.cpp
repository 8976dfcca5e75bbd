#include "models/families/minimax_h3/process.h"

namespace burnish::models::minimax_h3 {

namespace {
/// The shift of DiffSynth-Studio's grid for the family.
constexpr double kDiffsynthShift = 2.22;
}  // namespace

Process::Process(double shift, double of_sound)
    : FlowProcess({.shift = shift, .use_dynamic_shifting = false}, diffusion::GridConfig{.shift = kDiffsynthShift, .last = 0}),
      shift_(shift),
      sound_over_frames_(of_sound / shift) {}

double Process::shift_of(std::string_view stream) const { return stream == kSound ? sound_over_frames_ : 1; }

double Process::draw_time(const diffusion::TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const {
  auto own = options;
  if (own.mode == "default") {
    own.mode = "sigma";
    own.shift = shift_;
  }
  return FlowProcess::draw_time(own, key, num_image_tokens);
}

double Process::loss_weight(const diffusion::LossOptions& options, double time) const {
  auto own = options;
  if (own.weighting == "default") own.weighting = "uniform";
  return FlowProcess::loss_weight(own, time);
}

}  // namespace burnish::models::minimax_h3
