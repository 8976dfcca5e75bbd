#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/options/settings.h"
#include "train/plan/memory_plan.h"

namespace burnish::train {

/// The machines that a table is computed for. Rates in bytes a second.
struct Machines {
  int64_t processes_each = 1;
  double link = 0;        ///< rate from a machine to the others
  double local_link = 0;  ///< rate between processes of a machine
  double flops = 0;       ///< floating-point operations a second that a device does in fact
};

/// The shape of a run's steps: how processes share them out.
struct StepShape {
  int64_t batch_size = 1, global_batch_size = 0;  ///< see CourseSettings
  int64_t batches_per_step = 1;
  int64_t zero_stage = 0;
  int64_t row_size = 0;    ///< see DivisionSettings
  int64_t num_places = 1;  ///< see DivisionSettings
  bool ordered = false;    ///< whether sums are ordered: they begin after backward then
};

/// A step of so many processes, in seconds.
struct ScaledStep {
  int64_t processes = 1, machines = 1;
  double seconds = 0;
  double exposed = 0;  ///< seconds in which processes wait for what travels; `seconds` has them too
  double samples_per_second = 0;
  int64_t device_bytes = 0;  ///< bytes that the first process needs; with more than eight processes no more are needed
};

/// A table of steps by number of processes.
struct Scaling {
  Machines machines = {};
  std::vector<ScaledStep> steps = {};
};

/// Computes a step by a model, not by measurement: sums and gathers are rings whose slowest link sets the pace (2(N-1)/N of the bytes for a
/// sum, (N-1)/N for a gather; Thakur, Rabenseifner and Gropp 2005), with a start-up time a message. Gradients travel in buckets as
/// backward, two thirds of the computing, gives them; blocks that are divided travel one ahead of their use, owners' weights after the
/// step. Owners of several rows sum over these as well. Processes wait for tokens that places share out.
ScaledStep scaled(const StepWork& work, const StepShape& shape, const Machines& machines, int64_t processes);

/// Parses "400Gb" (bits) or "50GB" (bytes), also with "/s", to bytes a second. A config Error names `option`.
double parse_rate(const std::string& option, const std::string& text);

/// Plans and scales steps of 1, 2, 4 ... 1024 processes. `settings` are those of the run that is not shared out yet.
Scaling scaling(const Settings& settings, const Machines& machines, const Planner& planner);

std::string to_text(const Scaling& scaling);
nlohmann::json to_json(const Scaling& scaling);

}  // namespace burnish::train
