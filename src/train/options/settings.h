#pragma once
#include <filesystem>
#include <optional>

#include "train/course/settings.h"
#include "train/objectives/settings.h"
#include "train/options/train_options.h"
#include "train/samples/settings.h"
#include "train/step/settings.h"
#include "train/subject/settings.h"

namespace burnish::train {

// Settings are a run as its options mean it. Nothing in a run changes them; planning changes copies.

/// Settings that a plan of the run's memory goes by.
struct PlanSettings {
  bool refuses = true;                                        ///< whether it refuses a run that does not fit
  std::optional<int64_t> device_bytes = {}, host_bytes = {};  ///< bytes that the run may take; nothing: device and machine are asked
  bool is_unified = false;                                    ///< whether device and host have one memory, whatever the device says
  int64_t processes_here = 1;                                 ///< number of the run's processes that share this machine
};

struct Settings {
  TrainOptions given;        ///< the options as they were written, for config.toml and the fingerprint
  Portion together;          ///< the portion of this process among those that train together
  bool makes_cache = false;  ///< whether the run makes a cache and trains nothing
  ModelSettings model;
  TrainedSettings trained;
  DataSettings data;
  ObjectiveSettings objective;
  ScheduleSettings schedule;
  CourseSettings course;
  StepSettings step;
  OutputSettings output;
  PlanSettings plan;
};

/// Refuses contradictions (check), and says what options mean of a run whose processes are not told apart yet.
Settings understood(const TrainOptions& options);
/// Returns the settings of one of several processes that train together. Refuses what these cannot do together.
Settings shared_out(Settings settings, Portion together);
/// Does both, understood and shared_out; `portion` is the portion of the run that this process does.
Settings settle(const TrainOptions& options, Portion portion = {});

/// Keeps results of frozen models in a folder, and beside them what is remembered of the pictures.
void keep_in(DataSettings& data, const std::filesystem::path& folder);

/// Puts in words the options under which a saved state is good; under others it is not.
std::string fingerprint(const TrainOptions& options, int64_t global_batch_size, const std::string& trained, bool has_adapters,
                        bool has_whole, int64_t num_samples);

}  // namespace burnish::train
