#pragma once
#include <chrono>
#include <deque>
#include <functional>

#include "memory/transfer.h"
#include "train/run/hook.h"

namespace burnish::train {

/// A step that was taken, whose numbers may still be on their way from the device.
struct Taken {
  StepReport report;
  std::chrono::steady_clock::time_point start;
  memory::Numbers last;                   ///< numbers that come last: when they are there all are
  std::function<void(StepReport&)> read;  ///< completes the report; throws a data Error where it says that the run cannot go on
};

/// Tells hooks of steps in their order, and does not wait for a device: where a step's numbers are not there yet, hooks hear of it when the
/// next step was taken. Only a hook that looks at the weights (Hook::looks_at) hears at once.
class Telling {
 public:
  /// The hooks must outlive it.
  explicit Telling(const std::vector<std::unique_ptr<Hook>>& hooks) : hooks_(hooks) {}

  void add(Taken taken);
  /// Tells hooks of all steps that they have not heard of.
  void finish();

 private:
  void tell_first();

  const std::vector<std::unique_ptr<Hook>>& hooks_;
  std::deque<Taken> untold_;
  std::chrono::steady_clock::time_point told_ = {};  ///< when the numbers of the step before were there
};

}  // namespace burnish::train
