#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

// Rows of options that several rooms read, or whose conditions are those of a whole run; the others stand in their rooms.

/// Lists what trains, adapters, words and presets.
void trained_fields(config::Fields& f, TrainOptions& o);
/// Lists the loss and the times at which it is taken.
void loss_fields(config::Fields& f, TrainOptions& o);
/// Lists what a run puts out, its plan, and whom it tells.
void output_fields(config::Fields& f, TrainOptions& o);

}  // namespace burnish::train
