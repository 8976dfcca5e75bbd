#pragma once
#include "train/plan/fit.h"
#include "train/plan/rehearsal.h"

namespace burnish::train {

/// Plans runs on the model files and samples of one that was opened, and leaves their log lines out. What is opened must outlive the
/// planner.
///
/// What the settings leave open of what blocks keep for backward is decided here, since only a plan knows: with `activation_budget` what is
/// computed again, so that it is the least work within it; without, whether the values of nn::remade are kept, which is faster: where the
/// plan takes nine tenths of what there is at most. Where that is not known, or the run is not planned, they are made again. Config Errors
/// where a budget is smaller than what is left when all is computed again.
Planner planner_of(const OpenFiles& files);

}  // namespace burnish::train
