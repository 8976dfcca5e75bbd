#pragma once
#include <memory>

#include "memory/dry_run.h"
#include "train/options/settings.h"
#include "train/plan/memory_plan.h"
#include "train/plan/savings.h"
#include "train/samples/kept.h"

namespace burnish::train {

/// Returns the settings of a run's plan: its model is on the meta device.
Settings on_meta(Settings settings);

/// The files and samples that a run has opened, so that its plans need not open them again.
struct OpenFiles {
  const models::Model& model;
  const Listed& listed;
  const Samples* held_out;  ///< may be null
};

/// Goes through the stages of a run on tensors without numbers, by the functions that the run itself uses, and writes down what memory they
/// take. `settings` are on_meta's, `device` is the run's own. The batch is the one of the first epoch with the most latents, and the step
/// is the second: it finds what the first has left. `limit` is what there is of the device's memory, as a GPU's caching allocator goes by
/// it; encoders that are too large for it are read block by block. With `known`, bodies of blocks that are alike are gone through once in
/// all rehearsals that are given the same one (memory/repeats.h): that says the same in a fraction of the time.
MemoryPlan rehearse(const Settings& settings, const KeptForBackward& kept, c10::Device device, std::optional<int64_t> limit,
                    const OpenFiles& files, const std::shared_ptr<memory::KnownBodies>& known);

/// Rehearses the run with nothing computed again, and one batch to a step.
Savings rehearse_savings(Settings settings, c10::Device device, const OpenFiles& files);

}  // namespace burnish::train
