#pragma once
#include "models/family.h"

namespace burnish::train {

/// The units that a training run of these experts puts together, in order: from prompt and image to prediction and target.
pipeline::Units training_units(models::Model& model, const std::vector<models::Expert>& experts);

/// The one of `components` that is meant by its name, or by that with the "_1" that DiffSynth-Studio gives the first of several. A config
/// Error names those that there are.
std::string component_called(const std::string& name, const std::vector<std::string>& components);

}  // namespace burnish::train
