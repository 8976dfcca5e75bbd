#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

/// Refuses unknown names, numbers that make no sense and contradictions, before any file is opened.
void check(const TrainOptions& o);

}  // namespace burnish::train
