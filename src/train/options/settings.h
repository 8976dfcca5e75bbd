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

struct PreviewSettings {
  std::string prompts;     ///< a file of prompts; "" draws none
  int64_t every = 0;       ///< steps from one drawing to the next; 0 draws before the first and after the last only
  int64_t num_steps = 20;  ///< steps of the sampler, where a prompt does not say
  uint64_t seed = 0;
  std::string format = "default";  ///< what they are written as (data/drawn_file.h)
  DrawnBy by = {};                 ///< how they are drawn; its steps are all that there are
  bool with_presets = false;       ///< whether presets that are merged while training are in the model that draws
};

/// The forms that the log has beside log.jsonl.
struct LogSettings {
  bool tensorboard = false, csv = false;
};

/// What is in files of weights.
struct SavedFileSettings {
  c10::ScalarType dtype = c10::kBFloat16;
  /// Entries of ModelSpec that files have beside those that the run knows itself: "title", "author" and so on.
  std::map<std::string, std::string> described = {};
};

struct OutputSettings {
  std::filesystem::path folder;
  std::string name = {};  ///< what the names of saved weights begin with, before a dash; "" for nothing
  SaveSettings save;
  std::vector<double> validation_strengths = {};  ///< strengths of the adapter at which held-out samples are judged beside its own, 1
  int64_t validation_steps = 0;  ///< steps from one validation to the next; 0 judges held-out samples before and after only
  PreviewSettings previews;
  LogSettings logs = {};
  SavedFileSettings files = {};
  bool resume = false, overwrite = false;
  std::filesystem::path state() const { return folder / "state"; }
  /// What stands before "step-N" and "best" in names of files.
  std::string prefix() const { return name.empty() ? "" : name + "-"; }
};

/// Settings that a plan of the run's memory goes by.
struct PlanSettings {
  bool refuses = true;                                        ///< whether it refuses a run that does not fit
  std::optional<int64_t> device_bytes = {}, host_bytes = {};  ///< bytes that the run may take; nothing: device and machine are asked
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

/// Returns the schedule of a run of that many steps.
optim::ScheduleOptions schedule_of(const Settings& settings, int64_t num_steps);

/// Puts in words the options under which a saved state is good; under others it is not.
std::string fingerprint(const TrainOptions& options, int64_t global_batch_size, const std::string& trained, bool has_adapters,
                        bool has_whole, int64_t num_samples);

}  // namespace burnish::train
