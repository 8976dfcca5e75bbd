#pragma once
#include <string>

#include "optim/parameter.h"

namespace burnish::optim {

/// Numbers with which parts of a model train otherwise than the rest; lists as in base/numbers_by_name.h, over the parameters' names.
struct GroupOptions {
  std::string lr_groups = {};            ///< rates
  std::string weight_decay_groups = {};  ///< weight decays
  double loraplus_lr_ratio = 0;          ///< the rate of LoRA's B over that of its A (LoRA+, Hayou et al. 2024, arXiv 2402.12354); 0 is off
};

/// Throws a config Error for lists that cannot be read and numbers out of range.
void check(const GroupOptions& options);

/// Gives parameters their rates, as factors on `learning_rate`, and weight decays; rates that were there before stay where no entry fits. A
/// config Error for an entry that fits no parameter, and for a ratio where no LoRA trains.
void apply_groups(ParameterList& parameters, const GroupOptions& options, double learning_rate);

}  // namespace burnish::optim
