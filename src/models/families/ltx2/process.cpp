#include "models/families/ltx2/process.h"

#include <algorithm>
#include <cmath>

namespace burnish::models::ltx2 {

namespace {
/// The grid of DiffSynth-Studio for the family (its set_timesteps_ltx2).
diffusion::GridConfig diffsynth_grid() { return {.shift = std::exp(2.05), .last = 0, .terminal = 0.1}; }
}  // namespace

diffusion::FlowSamplerConfig published_steps() {
  return {.shift = 1, .base_shift = 0.95, .max_shift = 2.05, .base_image_seq_len = 1024, .max_image_seq_len = 4096, .shift_terminal = 0.1};
}

Process::Process(const diffusion::FlowSamplerConfig& steps) : FlowProcess(steps, diffsynth_grid()), steps_(steps) {}

double Process::draw_time(const diffusion::TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const {
  if (options.mode != "default") return FlowProcess::draw_time(options, key, num_image_tokens);
  auto own = options;
  own.mode = "sigma";
  own.shift = steps_.shift;
  if (steps_.use_dynamic_shifting)
    own.shift = std::exp(diffusion::mu_of_tokens(static_cast<double>(num_image_tokens), steps_.base_image_seq_len, steps_.max_image_seq_len,
                                                 steps_.base_shift, steps_.max_shift));
  // What lies between 0 and 1 is stretched to what lies between the terminal and 1, which the bounds that are asked for are of.
  const auto left = 1 - steps_.shift_terminal;
  own.min_t = std::max(0.0, 1 - (1 - options.min_t) / left);
  own.max_t = std::max(0.0, 1 - (1 - options.max_t) / left);
  return 1 - (1 - FlowProcess::draw_time(own, key, num_image_tokens)) * left;
}

double Process::loss_weight(const diffusion::LossOptions& options, double time) const {
  auto own = options;
  if (own.weighting == "default") own.weighting = "uniform";
  return FlowProcess::loss_weight(own, time);
}

}  // namespace burnish::models::ltx2
