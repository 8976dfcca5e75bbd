#pragma once
#include "dist/world.h"
#include "records/status.h"
#include "train/plan/memory_plan.h"
#include "train/run/previews.h"
#include "train/step/step.h"

namespace burnish::train {

/// All that there is once training can start.
struct Training {
  const Settings& settings;
  Subject& subject;
  const Objective& objective;
  const pipeline::Schedule& schedule;
  const Course& course;
  const Feed& feed;
  const AheadResults* ahead;  ///< null when nothing was computed ahead
  const Previews* previews;   ///< null when none are asked for
  const MemoryPlan* plan;     ///< null when memory was not planned
  Trainee& trainee;
  const dist::World& world;           ///< of the processes that train together
  const records::StatusFile& status;  ///< of the run, which hooks tell what it is at

  /// A part of a batch of the live stage.
  Batch batch(const BatchId& id) const { return feed.batch(trainee.live, id, ahead); }
};

/// Losses of samples whose times lie close together.
struct LossBin {
  double raw = 0, weighted = 0;  ///< sums
  int64_t count = 0;
};

/// What a step came to, in numbers of the host.
struct StepReport {
  int64_t step = 0;  ///< counted from 1
  double loss = 0, grad_norm = 0, learning_rate = 0;
  int64_t num_samples = 0;
  double seconds = 0;
  double data_seconds = 0;                ///< of these, fetching what is kept and drawing noise
  std::vector<LossBin> by_time;           ///< equal parts of the way from no noise to noise alone; none where samples have no time
  std::map<std::string, double> logged;   ///< what else the objective has logged
  std::optional<double> learned_rate;     ///< that an optimizer found which finds its rate itself
  std::optional<double> validation_loss;  ///< where a hook measured it after this step
};

/// Something that happens beside the steps of a run: logs, saves, validation, previews. A file each below hooks/.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void before() {}  ///< the first step
  /// Whether `stepped` of this step looks at weights as the step left them; asked once of each step after it was taken.
  virtual bool looks_at(int64_t /*step*/) { return false; }
  /// After every step; later hooks see what earlier ones add to the report. Where it looks at no weights, the next step may have been
  /// taken when the numbers of this one come.
  virtual void stepped(StepReport& /*r*/) {}
  virtual void interrupted() {}  ///< after the step in which Ctrl-C came; then the run ends
  virtual void ended() {}        ///< after the last step
};

}  // namespace burnish::train
