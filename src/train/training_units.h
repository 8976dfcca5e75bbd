#pragma once
#include "models/family.h"

namespace burnish::train {

/// The units that a training run puts together, in order.
pipeline::Units training_units(models::Model& model);

}  // namespace burnish::train
