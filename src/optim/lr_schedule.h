#pragma once
#include <cstdint>
#include <string>

namespace burnish::optim {

/// How the learning rate moves over a run.
struct ScheduleOptions {
  std::string name = "constant";  ///< constant, linear or cosine
  int64_t warmup_steps = 0;
  int64_t max_steps = 0;    ///< optimizer steps of the whole run, warm-up included; read by linear and cosine
  double min_lr_ratio = 0;  ///< what linear and cosine end at, as a fraction of the full rate
};

/// Throws a config Error for an unknown name (naming the choices), a negative warm-up, a ratio outside [0, 1], or a warm-up longer
/// than a run of max_steps (when that is known, above 0), of which linear and cosine need a step after it.
void check(const ScheduleOptions& options);

/// The factor on the learning rate at optimizer step `step`, counted from 0.
/// Warm-up, steps 0 .. w-1: (step + 1) / w, so the first step never has rate zero and step w-1 has the full rate.
/// After it p = (step - w) / (max_steps - w), at most 1, and with r = min_lr_ratio
///   constant 1;  linear r + (1-r)(1-p);  cosine r + (1-r)(1 + cos(pi p)) / 2.
/// p reaches 1 only after the last step, max_steps - 1.
double lr_factor(const ScheduleOptions& options, int64_t step);

}  // namespace burnish::optim
