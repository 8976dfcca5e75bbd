#pragma once
#include <functional>
#include <optional>

#include "train/memory_plan.h"
#include "train/options.h"

namespace burnish::train {

/// Options changed so that a run takes less memory.
struct Change {
  std::string flags;  ///< to paste behind the command
  int64_t num_bytes = 0;
};

/// Plans a run.
using Planner = std::function<MemoryPlan(const TrainOptions&)>;

/// What each lever that the run does not pull yet would make of its memory, in order of what they cost in speed.
std::vector<Change> changes(const TrainOptions& options, const MemoryPlan& plan, const Planner& planner);

/// Levers with which the run stays within `limit` bytes: from the cheapest on until it fits, and then without those that turn out not to be
/// needed. Nothing when all of them together are not enough.
std::optional<Change> fit(const TrainOptions& options, const MemoryPlan& plan, int64_t limit, const Planner& planner);

/// A plan, and what could be done about it.
struct Advice {
  MemoryPlan plan;
  std::optional<int64_t> limit = {};  ///< bytes that there are
  std::vector<Change> changes = {};   ///< each lever alone
  std::optional<Change> fitting = {};
};
/// For people, and as JSON, with bytes in whole numbers.
std::string to_text(const Advice& advice);
std::string to_json(const Advice& advice);

/// Bytes of "24GiB", "24 GB", "800MiB" or a number of GiB. A config Error names `option`.
int64_t parse_size(const std::string& option, const std::string& text);

/// What a device has: what the options say, or else what is free on it; of the host, the least of its memory and the limits of the process
/// (cgroup, ulimit -v). Nothing where that is not known.
std::optional<int64_t> memory_limit(const TrainOptions& options);

/// An Error with Exit::no_fit, and what to do about it, when the plan takes more.
void check_fits(const TrainOptions& options, const MemoryPlan& plan, int64_t limit, const Planner& planner);

}  // namespace burnish::train
