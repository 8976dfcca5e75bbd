#pragma once
#include <optional>

#include "train/options/settings.h"
#include "train/plan/memory_plan.h"
#include "train/plan/scaling.h"

namespace burnish::train {

/// Options changed so that a run takes less memory.
struct Change {
  std::string flags;  ///< to paste behind the command
  int64_t num_bytes = 0, host_bytes = 0;
};

/// Bytes that a run may take of its device's memory and of the host's; nothing where that is not known.
struct Limits {
  std::optional<int64_t> device = {}, host = {};
};
/// Of the device what the settings say, or else what is free on a GPU; of the host what these say, or else what there is for this process
/// (memory::size_of_host).
Limits limits_of(const Settings& settings);
bool fits(const MemoryPlan& plan, const Limits& limits);

/// What each lever that the run does not pull yet would make of its memory, in order of what they cost in speed; without those that change
/// nothing.
std::vector<Change> changes(const Settings& settings, const MemoryPlan& plan, const Planner& planner);

/// Levers with which the run stays within its limits: from the cheapest on until it fits, and then without those that turn out not to be
/// needed; where blocks wait they wait in FP8. Nothing when all of them together are not enough. They change neither what trains nor what a
/// step sees, and the optimizer only where it is AdamW and the command line does not name it.
std::optional<Change> fit(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner);

/// Where nothing makes the run fit: the same with fewer layers that train, without those of a part that can then be computed ahead of
/// training and leave memory (Movable::in_the_way). Nothing where there is none, or that is not enough.
std::optional<Change> fit_training_less(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner);

/// A plan, and what could be done about it.
struct Advice {
  MemoryPlan plan;
  Limits limits = {};
  std::vector<Change> changes = {};  ///< each lever alone
  bool is_fit_sought = false;
  std::optional<Change> fitting = {}, training_less = {};  ///< the latter where nothing fits as it is
  Scaling scaling = {};                                    ///< no steps: not asked for
};
/// For people, and as JSON, with bytes in whole numbers.
std::string to_text(const Advice& advice);
std::string to_json(const Advice& advice);

/// An Error with Exit::no_fit, and what to do about it, when the plan takes more.
void check_fits(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner);

/// A sentence about memory that was missing in a step: where, what is saved, what `plan` (nothing: none was made) had said, and the
/// cheapest options that take no more than there was.
std::string explain(const NoMemory& missing, const Settings& settings, const std::optional<MemoryPlan>& plan, const Planner& planner);

}  // namespace burnish::train
