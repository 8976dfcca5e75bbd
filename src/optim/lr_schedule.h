#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace burnish::optim {

/// Options of how the learning rate moves over a run. Names are those of transformers and sd-scripts.
struct ScheduleOptions {
  std::string name = "constant";  ///< see lr_factor
  int64_t warmup_steps = 0;
  int64_t max_steps = 0;    ///< optimizer steps of the whole run, warm-up included; 0 while it is not known
  double min_lr_ratio = 0;  ///< where curves end, as a fraction of the full rate
  int64_t num_cycles = 1;   ///< cycles of cosine_with_restarts
  double power = 1;         ///< exponent of polynomial
  int64_t decay_steps = 0;  ///< steps at the end of warmup_stable_decay; 0 takes a tenth of the run (Hu et al. 2024, arXiv 2404.06395)
};

/// Returns the words that a schedule's name may be, each curve by one.
std::vector<std::string> lr_schedules();

/// Tells whether the rate stays what it is after the warm-up.
bool is_constant(const ScheduleOptions& options);

/// Throws a config Error for an unknown name (naming the choices), numbers out of range, numbers that the schedule does not read, or a
/// warm-up or a decay that a run of max_steps (when that is known) has no room for.
void check(const ScheduleOptions& options);

/// The factor on the learning rate at optimizer step `step`, counted from 0.
/// Warm-up, steps 0 .. w-1: (step + 1) / w, so the first step never has rate zero and step w-1 has the full rate.
/// After it r + (1-r) c, where r is min_lr_ratio, n = step - w, p = n / (max_steps - w), at most 1, and c is
///   constant, constant_with_warmup   1
///   linear                           1 - p
///   cosine, cosine_with_min_lr       (1 + cos(pi p)) / 2
///   cosine_with_restarts             (1 + cos(pi frac(num_cycles p))) / 2
///   polynomial                       (1 - p)^power
///   rex                              (1 - p) / (0.1 + 0.9 (1 - p)), as in OneTrainer and musubi-tuner (Chen et al. 2021, arXiv 2107.04197)
///   inverse_sqrt                     sqrt(s / (s + n)), s = w, or 10000 without a warm-up
///   warmup_stable_decay              (1 + cos(pi q)) / 2, where q goes from 0 to 1 over the last decay_steps, and is 0 before them
/// transformers (optimization.py) and diffusers have the same curves; their warm-up is step / w. p and q reach 1 only after the last step,
/// max_steps - 1.
double lr_factor(const ScheduleOptions& options, int64_t step);

}  // namespace burnish::optim
