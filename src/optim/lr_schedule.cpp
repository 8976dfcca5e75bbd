#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/choice.h"

namespace burnish::optim {
namespace {

const std::vector<std::string> kNames{"constant",
                                      "linear",
                                      "cosine",
                                      "cosine_with_restarts",
                                      "polynomial",
                                      "rex",
                                      "warmup_stable_decay",
                                      "inverse_sqrt",
                                      "constant_with_warmup",
                                      "cosine_with_min_lr"};
constexpr size_t kNumSecondNames = 2;  ///< at their end: other names of curves that stand before them

double half_cosine(double p) { return (1 + std::cos(std::numbers::pi * p)) / 2; }

int64_t decay_steps(const ScheduleOptions& options) {
  return options.decay_steps > 0 ? options.decay_steps : std::max<int64_t>(1, options.max_steps / 10);
}

/// Tells whether the curve is drawn between the warm-up and the last step.
bool has_an_end(const ScheduleOptions& options) { return !is_constant(options) && options.name != "inverse_sqrt"; }

/// The curve `num_steps` after the warm-up, without its floor.
double curve(const ScheduleOptions& options, int64_t num_steps) {
  if (is_constant(options)) return 1;
  const auto n = static_cast<double>(num_steps);
  if (options.name == "inverse_sqrt") {
    const auto scale = static_cast<double>(options.warmup_steps > 0 ? options.warmup_steps : 10000);
    return std::sqrt(scale / (scale + n));
  }
  const auto length = static_cast<double>(std::max<int64_t>(1, options.max_steps - options.warmup_steps));
  const double p = std::min(1.0, n / length);
  if (options.name == "linear") return 1 - p;
  if (options.name == "cosine" || options.name == "cosine_with_min_lr") return half_cosine(p);
  if (options.name == "cosine_with_restarts") return p < 1 ? half_cosine(std::fmod(static_cast<double>(options.num_cycles) * p, 1.0)) : 0;
  if (options.name == "polynomial") return std::pow(1 - p, options.power);
  if (options.name == "rex") return (1 - p) / (0.1 + 0.9 * (1 - p));
  if (options.name == "warmup_stable_decay") {
    const auto last = static_cast<double>(decay_steps(options));
    return half_cosine(std::clamp((n - (length - last)) / last, 0.0, 1.0));
  }
  unknown_choice("optim", "lr_scheduler", options.name, kNames);
}

void check_room(const ScheduleOptions& options) {
  if (options.max_steps <= 0) return;
  int64_t least = options.warmup_steps + (has_an_end(options) ? 1 : 0);
  if (options.max_steps < least) {
    config_error("optim", "a warm-up of {} steps needs {} steps at least with the {} schedule, and the run has {}; lower lr_warmup_steps",
                 options.warmup_steps, least, options.name, options.max_steps);
  }
  if (options.warmup_steps + options.decay_steps > options.max_steps) {
    config_error("optim", "a warm-up of {} steps and a decay over {} need more than the {} steps of the run; lower lr_decay_steps",
                 options.warmup_steps, options.decay_steps, options.max_steps);
  }
}

}  // namespace

std::vector<std::string> lr_schedules() { return {kNames.begin(), kNames.end() - kNumSecondNames}; }

bool is_constant(const ScheduleOptions& options) { return options.name == "constant" || options.name == "constant_with_warmup"; }

void check(const ScheduleOptions& options) {
  if (std::find(kNames.begin(), kNames.end(), options.name) == kNames.end()) {
    unknown_choice("optim", "lr_scheduler", options.name, kNames);
  }
  if (options.warmup_steps < 0) config_error("optim", "lr_warmup_steps must not be negative, found {}", options.warmup_steps);
  if (!(options.min_lr_ratio >= 0 && options.min_lr_ratio <= 1)) {
    config_error("optim", "the smallest learning rate must be a fraction in [0, 1] of the full one, found {}", options.min_lr_ratio);
  }
  if (options.num_cycles < 1) config_error("optim", "lr_scheduler_num_cycles must be at least 1, found {}", options.num_cycles);
  if (!(options.power > 0)) config_error("optim", "lr_scheduler_power must be above 0, found {}", options.power);
  if (options.decay_steps < 0) config_error("optim", "lr_decay_steps must not be negative, found {}", options.decay_steps);
  const auto read_by = [&](const char* option, bool given, const char* name) {
    if (given && options.name != name)
      config_error("optim", "{} is for lr_scheduler {}, and the run has {}; take it out", option, name, options.name);
  };
  read_by("lr_scheduler_num_cycles", options.num_cycles != 1, "cosine_with_restarts");
  read_by("lr_scheduler_power", options.power != 1, "polynomial");
  read_by("lr_decay_steps", options.decay_steps != 0, "warmup_stable_decay");
  if (is_constant(options) && options.min_lr_ratio > 0)
    config_error("optim", "lr_scheduler_min_lr_ratio says where a curve ends, and lr_scheduler {} has none; take it out", options.name);
  check_room(options);
}

double lr_factor(const ScheduleOptions& options, int64_t step) {
  if (step < options.warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  const double r = options.min_lr_ratio;
  return r + (1 - r) * curve(options, step - options.warmup_steps);
}

}  // namespace burnish::optim
