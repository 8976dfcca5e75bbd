#pragma once
#include "train/plan/fit.h"
#include "train/plan/rehearsal.h"

namespace burnish::train {

/// Says which bodies of blocks a rehearsal goes through: each of them, or once those that are alike, which tells the same sooner.
enum class Bodies { each, alike_once };

/// Makes a planner for runs on the model files and samples of a run that was opened; their log lines are left out. Opened files must
/// outlive the planner.
///
/// The planner decides what blocks keep for backward where settings leave it open, since only a plan knows it. With `activation_budget` it
/// chooses what is computed again, so that it is the least work within the budget. Without, it keeps the values of nn::recomputed, which is
/// faster, where the plan then takes nine tenths of what there is at most; where that is not known, or the run is not planned, they are
/// made again. Throws config Errors where a budget is smaller than what is left when all is computed again.
Planner planner_of(const OpenFiles& files, Bodies bodies = Bodies::alike_once);

}  // namespace burnish::train
