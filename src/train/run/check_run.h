#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

/// Throws what `train` would throw before it reads a weight, but for a run that does not fit into memory. Makes no files.
void check_run(const TrainOptions& options);

}  // namespace burnish::train
