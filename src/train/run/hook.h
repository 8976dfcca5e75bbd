#pragma once
#include "dist/world.h"
#include "records/asked.h"
#include "records/status.h"
#include "train/plan/memory_plan.h"
#include "train/run/previews.h"
#include "train/run/rollouts.h"
#include "train/step/step.h"

namespace burnish::train {

/// The batches of a run, and what they are put together of.
struct Batches {
  const Feed& feed;
  const AheadResults* ahead = nullptr;  ///< null when nothing was computed ahead
  Rollouts* rollouts = nullptr;         ///< null where the run draws no pictures to learn from
};

/// The values that there are once training can start.
struct Training {
  const Settings& settings;
  Subject& subject;
  const Objective& objective;
  const pipeline::Schedule& schedule;
  const Course& course;
  const Batches& batches;
  const Previews* previews;  ///< null when none are asked for
  const MemoryPlan* plan;    ///< null when memory was not planned
  Trainee& trainee;
  const dist::World& world;           ///< the processes that train together
  const records::StatusFile& status;  ///< the run's status, which hooks tell what it is at

  /// Returns a part of a batch of the live stage.
  Batch batch(const BatchId& id) const {
    auto batch = batches.feed.batch(trainee.live, id, batches.ahead);
    if (batches.rollouts != nullptr && !id.held_out) batches.rollouts->complete(trainee, course, batch, id);
    return batch;
  }
};

/// The losses of samples whose times lie close together.
struct LossBin {
  double raw = 0, weighted = 0;  ///< sums
  int64_t count = 0;
};

/// A sample's visit in a step: its row, the share of noise that was drawn for it, 0 to 1, and its loss before it was weighted.
struct VisitLoss {
  int64_t row = kNoRow;
  double time = 0, loss = 0;
};

/// The results of a step, in numbers of the host.
struct StepReport {
  int64_t step = 0;  ///< counted from 1
  double loss = 0, grad_norm = 0, learning_rate = 0;
  int64_t num_samples = 0;
  double seconds = 0;
  std::optional<double> raw_loss;           ///< the loss before weighting: comparable between steps, and with a validation loss
  double data_seconds = 0;                  ///< seconds of these for fetching what is kept and drawing noise
  std::vector<LossBin> by_time;             ///< losses by equal stretches from no noise to noise alone; none where samples have no time
  std::vector<VisitLoss> visits;            ///< of all processes, in their order; none where samples have no time
  std::map<std::string, double> logged;     ///< other values that the objective has logged
  std::optional<double> learned_rate;       ///< the rate that an optimizer found which finds its rate itself
  std::optional<double> validation_loss;    ///< loss of held-out samples, where a hook measured it after this step
  std::map<std::string, double> losses_at;  ///< the same by the adapter's strength, at those of validation_strengths
  records::Asked asked = {};                ///< what was asked of the run when the step had been taken, the same on all processes
};

/// Something that happens beside the steps of a run: logs, saves, validation, previews. Each has a file below hooks/.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void before() {}  ///< called before the first step
  /// Called once all hooks are ready, where nothing was trained yet: step 0, of which the report holds what hooks measured.
  virtual void begun(StepReport& /*r*/) {}
  /// Tells whether `stepped` of this step looks at weights as the step left them; asked once of each step after it was taken. Of its report
  /// the step's number and what is asked of the run are known.
  virtual bool looks_at(const StepReport& /*r*/) { return false; }
  /// Called after every step; later hooks see what earlier ones add to the report. Where it looks at no weights, the next step may have
  /// been taken when the numbers of this one come.
  virtual void stepped(StepReport& /*r*/) {}
  virtual void interrupted() {}  ///< called after the step in which Ctrl-C came; then the run ends
  virtual void ended() {}        ///< called after the last step
};

}  // namespace burnish::train
