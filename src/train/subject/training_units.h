#pragma once
#include "models/registry.h"

namespace burnish::train {

/// Puts together the units of a training run of these experts, in order: from prompt and image to prediction and target.
pipeline::Units training_units(models::Model& model, const std::vector<models::Expert>& experts);

/// Finds the one of `components` that a name means: by this name, or by it without the "_1" that DiffSynth-Studio gives the first of
/// several. Throws a config Error that names the components that there are.
std::string component_called(const std::string& name, const std::vector<std::string>& components);

}  // namespace burnish::train
