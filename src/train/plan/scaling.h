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
  double link = 0;        ///< of a machine to the others
  double local_link = 0;  ///< between processes of a machine
  double flops = 0;       ///< floating-point operations a second that a device does in fact
};

/// How a run shares out its steps.
struct StepShape {
  int64_t batch_size = 1, global_batch_size = 0;  ///< as in CourseSettings
  int64_t batches_per_step = 1;
  int64_t zero_stage = 0;
  int64_t row_size = 0;    ///< as in DivisionSettings
  int64_t num_places = 1;  ///< likewise
  bool ordered = false;    ///< sums: they begin after backward
};

/// A step of so many processes, in seconds.
struct ScaledStep {
  int64_t processes = 1, machines = 1;
  double seconds = 0;
  double exposed = 0;  ///< of them, in which processes wait for what travels
  double samples_per_second = 0;
  int64_t device_bytes = 0;  ///< that the first process needs; of more than eight no more than this
};

/// A table of them.
struct Scaling {
  Machines machines = {};
  std::vector<ScaledStep> steps = {};
};

/// By a model, not by measurement: sums and gathers are rings whose slowest link sets the pace (2(N-1)/N of the bytes for a sum, (N-1)/N
/// for a gather; Thakur, Rabenseifner and Gropp 2005), with a start-up time a message. Gradients travel in buckets as backward, two thirds
/// of the computing, gives them; blocks that are divided one ahead of their use; weights of owners after the step. Owners of several rows
/// sum over these as well. Tokens that places share out are waited for.
ScaledStep scaled(const StepWork& work, const StepShape& shape, const Machines& machines, int64_t processes);

/// Bytes a second of "400Gb" (bits) or "50GB" (bytes), also with "/s". A config Error names `option`.
double parse_rate(const std::string& option, const std::string& text);

/// Steps of 1, 2, 4 ... 1024 processes, planned and scaled. `settings` are those of the run that is not shared out yet.
Scaling scaling(const Settings& settings, const Machines& machines, const Planner& planner);

std::string to_text(const Scaling& scaling);
nlohmann::json to_json(const Scaling& scaling);

}  // namespace burnish::train
