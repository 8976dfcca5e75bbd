#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

/// Lists the options of a training run, in the order of --help. What they say of themselves (ranges, choices, when they count) is by the
/// values that `o` has when it is asked; `o` must outlive the fields.
void fields(config::Fields& f, TrainOptions& o);

}  // namespace burnish::train
