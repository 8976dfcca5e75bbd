#include "optim/lr_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/choice.h"

namespace burnish::optim {
namespace {
const std::array<std::string, 3> kNames = {"constant", "linear", "cosine"};
}  // namespace

void check(const ScheduleOptions& options) {
  if (std::find(kNames.begin(), kNames.end(), options.name) == kNames.end()) {
    unknown_choice("optim", "lr_scheduler", options.name, kNames);
  }
  if (options.warmup_steps < 0) config_error("optim", "lr_warmup_steps must not be negative, found {}", options.warmup_steps);
  if (!(options.min_lr_ratio >= 0 && options.min_lr_ratio <= 1)) {
    config_error("optim", "the smallest learning rate must be a fraction in [0, 1] of the full one, found {}", options.min_lr_ratio);
  }
  auto least = options.warmup_steps + (options.name == "constant" ? 0 : 1);
  if (options.max_steps > 0 && options.max_steps < least) {
    config_error("optim", "a warm-up of {} steps needs {} steps at least with the {} schedule, and the run has {}; lower lr_warmup_steps",
                 options.warmup_steps, least, options.name, options.max_steps);
  }
}

double lr_factor(const ScheduleOptions& options, int64_t step) {
  if (step < options.warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  if (options.name == "constant") return 1.0;
  const double length = static_cast<double>(std::max<int64_t>(1, options.max_steps - options.warmup_steps));
  const double p = std::min(1.0, static_cast<double>(step - options.warmup_steps) / length);
  const double r = options.min_lr_ratio;
  if (options.name == "linear") return r + (1 - r) * (1 - p);
  if (options.name == "cosine") return r + (1 - r) * (1 + std::cos(std::numbers::pi * p)) / 2;
  unknown_choice("optim", "lr_scheduler", options.name, kNames);
}

}  // namespace burnish::optim
