#pragma once
#include "models/family.h"

namespace burnish::train {

/// The units that a training run puts together, in order: from prompt and image to loss.
pipeline::Units training_units(models::Model& model);

}  // namespace burnish::train
