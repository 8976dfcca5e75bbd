#pragma once
#include <string>

#include "train/options/train_options.h"

namespace burnish::train {

/// Returns a sentence about a learning rate far from what is usual for the optimizer and for what trains (docs/train.md), or "".
std::string learning_rate_hint(const TrainOptions& o);
/// Returns a sentence where both steps and epochs say how long a run is, or "".
std::string length_hint(const TrainOptions& o);

/// Returns a sentence for each folder or file of metadata whose samples several datasets take.
std::vector<std::string> shared_data_hints(const TrainOptions& o);

}  // namespace burnish::train
