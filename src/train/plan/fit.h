#pragma once
#include <optional>

#include "train/options/settings.h"
#include "train/plan/memory_plan.h"
#include "train/plan/scaling.h"

namespace burnish::train {

/// A change of options with which a run takes less memory.
struct Change {
  std::string flags;  ///< options to paste behind the command
  int64_t num_bytes = 0, host_bytes = 0;
};

/// The bytes that a run may take of its device's memory and of the host's; nothing where that is not known.
struct Limits {
  std::optional<int64_t> device = {}, host = {};
  bool are_one = false;  ///< whether device and host have one memory; the device's limit is then that of both together

  /// Returns the limit of the memory in which `where` computes.
  const std::optional<int64_t>& of(c10::Device where) const { return where.is_cpu() ? host : device; }
};
/// Finds a run's limits. The device's is what the settings say, or else what is free on a GPU; the host's is what the settings say, or else
/// what there is for this process (memory::size_of_host); where they are one memory, the host's is the device's.
Limits limits_of(const Settings& settings);
bool fits(const MemoryPlan& plan, const Limits& limits);

/// Lists what each lever that the run does not pull yet would make of its memory, in order of what they cost in speed; levers that change
/// nothing are left out.
std::vector<Change> changes(const Settings& settings, const MemoryPlan& plan, const Planner& planner);

/// Pulls levers until the run stays within its limits: from the cheapest on until it fits, and then without those that turn out not to be
/// needed; where blocks wait they wait in FP8. Nothing when all of them together are not enough. They change neither what trains nor what a
/// step sees, and the optimizer only where it is AdamW and the command line does not name it.
std::optional<Change> fit(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner);

/// Fits a run that no lever makes fit, with fewer layers that train: without those of a part that can then be computed ahead of training
/// and leave memory (Movable::in_the_way). Nothing where there is no such part, or that is not enough.
std::optional<Change> fit_training_less(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner);

/// A run stays within its limits as it is, with options that cost it speed, or by none that were tried.
enum class HowItFits { as_it_is, with_options, not_at_all };
/// Finds it by few plans, where `fit` makes many: all levers together, and where the host's memory is what they lack, those before blocks
/// wait in it; where that is not enough either, as many levers as `fit` begins with. Where it says that options make the run fit, `fit`
/// finds the cheapest.
HowItFits how_it_fits(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner);

/// A memory plan with what could be done about it.
struct Advice {
  MemoryPlan plan;
  Limits limits = {};
  std::vector<Change> changes = {};  ///< changes by each lever alone
  bool is_fit_sought = false;
  std::optional<Change> fitting = {}, training_less = {};  ///< training_less where nothing fits as it is
  Scaling scaling = {};                                    ///< no steps where it is not asked for
};
/// Both write the advice, for people and as JSON with bytes in whole numbers.
std::string to_text(const Advice& advice);
std::string to_json(const Advice& advice);

/// Throws an Error with Exit::no_fit, which says what to do about it, when the plan takes more than the limits.
void check_fits(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner);

/// Writes a sentence about memory that was missing in a step: where, what is saved, what `plan` (nothing: none was made) had said, and the
/// cheapest options that take no more than there was.
std::string explain(const NoMemory& missing, const Settings& settings, const std::optional<MemoryPlan>& plan, const Planner& planner);

}  // namespace burnish::train
