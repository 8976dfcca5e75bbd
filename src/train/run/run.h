#pragma once
#include "dist/world.h"
#include "records/status.h"
#include "train/plan/budget.h"
#include "train/plan/fit.h"
#include "train/plan/memory_planner.h"

namespace burnish::train {

// A run is a chain of values: settings, subject, objective, schedule, samples, course, kept, trainee. Each is made by one function from
// those before it, so what is not made yet cannot be named. What can be refused is refused before the first weight is read, for which
// prompts of previews are read, and a cache is opened, before their turn.

/// Trains, to the end or to Ctrl-C, together with the other processes of `world`: they share out encoding and batches, and the first
/// of them writes all files. `status` is begun once the folder is the run's, and told what the run is at; the caller says how it
/// ended.
void train(const TrainOptions& options, const dist::World& world = dist::World(), records::StatusFile* status = nullptr);

/// Makes a cache that can be trained from alone: computes once what the frozen models make of the samples, and prints what is there.
void make_cache(const TrainOptions& options, const dist::World& world = dist::World());

/// Returns options of which weight_format is none that is to be chosen (settle_format): where it is auto, the first process plans the run
/// without it, and says what becomes of it.
TrainOptions with_format(const TrainOptions& options, const dist::World& world = dist::World());

/// Plans what a run needs of its device's memory, from a dry run on tensors without numbers: no weight is read, and no files are made. The
/// batch is that of the first epoch with the most latents and the longest caption.
MemoryPlan plan_memory(const Settings& settings);
/// Plans one of several processes; `portion` says which.
MemoryPlan plan_memory(const TrainOptions& options, const Portion& portion = {}, Bodies bodies = Bodies::alike_once);
/// Says what is to be found beside a plan, each of which takes several plans more.
struct WantedAdvice {
  bool changes = true;  ///< what each lever alone would make of it
  bool fit = false;     ///< what makes the run fit
};
/// Returns a plan with what could be changed.
Advice advise(const Settings& settings, const WantedAdvice& wanted);
/// Tells how a run fits what there is, by few plans (train/plan/fit.h); c10::Error where it cannot be planned.
HowItFits how_it_fits(Settings settings);

/// Measures on a run's first samples what it would compute once, ahead and at every step. Makes no files.
SplitPlan plan(const TrainOptions& options, const Portion& portion = {});

}  // namespace burnish::train
