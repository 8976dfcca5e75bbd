#include "optim/groups.h"

#include <cmath>

#include "base/input_error.h"
#include "base/numbers_by_name.h"

namespace burnish::optim {
namespace {

NumbersByName rates_of(const GroupOptions& options) { return {"optim", "lr_groups", options.lr_groups}; }
NumbersByName decays_of(const GroupOptions& options) { return {"optim", "weight_decay_groups", options.weight_decay_groups}; }

}  // namespace

void check(const GroupOptions& options) {
  rates_of(options);
  decays_of(options);
  if (!(options.loraplus_lr_ratio >= 0) || std::isinf(options.loraplus_lr_ratio))
    config_error("optim", "loraplus_lr_ratio must be a number of at least 0, found {}", options.loraplus_lr_ratio);
}

void apply_groups(ParameterList& parameters, const GroupOptions& options, double learning_rate) {
  check(options);
  NumbersByName rates = rates_of(options), decays = decays_of(options);
  bool has_lora = false;
  for (NamedParameter& parameter : parameters) {
    if (const auto rate = rates.find(parameter.name)) parameter.lr_factor = *rate / learning_rate;
    if (const auto decay = decays.find(parameter.name)) parameter.weight_decay = decay;
    if (!parameter.name.ends_with(".lora_B.weight")) continue;
    has_lora = true;
    if (options.loraplus_lr_ratio > 0) parameter.lr_factor *= options.loraplus_lr_ratio;
  }
  rates.check_all_fitted();
  decays.check_all_fitted();
  if (options.loraplus_lr_ratio > 0 && !has_lora)
    config_error("optim", "loraplus_lr_ratio raises the rate of LoRA's B, and no LoRA trains; take it out");
}

}  // namespace burnish::optim
