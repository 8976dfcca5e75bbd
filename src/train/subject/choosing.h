#pragma once
#include "train/subject/chosen.h"

namespace burnish::train {

/// Settles what trains. Throws a config Error for names that the training units do not run, a component named in both ways, a learning rate
/// of something that does not train, and those of choose_layers.
Chosen choose(const TrainedSettings& settings, models::Model& model);

/// Returns `lora_target_modules` without the names of a part's layers; it must be a list. "" where no names are left, or a file decides.
std::string targets_outside(const std::string& part, const TrainedSettings& settings, models::Model& model);

}  // namespace burnish::train
