#pragma once
#include "config/fields.h"
#include "train/step/settings.h"

namespace burnish::train {

/// Words of options from which settings of a step follow; its numbers are options as they are.
struct StepWords {
  bool recomputes = false;  ///< whether blocks are recomputed in backward
  bool pages_all = false;   ///< whether all of the denoiser's blocks wait in main memory
  std::string activation_budget, graphs = "off", reduction = "fast";
};

/// Lists options of the optimizer, of memory, and of several processes, under headings of their own.
void fields(config::Fields& f, StepSettings& o, StepWords& words);

/// Tells whether blocks are recomputed in backward, wherever their inputs wait.
bool recomputes(const StepSettings& o, const StepWords& words);
/// Returns how many of the denoiser's blocks wait in main memory; kAllBlocks stands for as many as there are.
int64_t waiting_blocks(const StepSettings& o, const StepWords& words);
/// Returns the schedule of a run of that many steps; 0 while they are not known.
optim::ScheduleOptions schedule_of(const StepSettings& o, int64_t num_steps);
/// Returns the settings with what the words say. A config Error for a budget that is no size.
StepSettings with_words(StepSettings settings, const StepWords& words);

}  // namespace burnish::train
