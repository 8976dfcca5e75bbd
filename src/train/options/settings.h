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

// A run as its options mean it. Words of options are compared where they become settings; from here on nothing changes them.

struct PreviewSettings {
  std::string prompts;     ///< a file; "" draws none
  int64_t every = 0;       ///< steps; 0 draws before the first and after the last only
  int64_t num_steps = 20;  ///< of the sampler, where a prompt does not say
  uint64_t seed = 0;
  bool with_presets = false;  ///< with the presets that are merged while training
};

struct OutputSettings {
  std::filesystem::path folder;
  SaveSettings save;
  int64_t validation_steps = 0;  ///< 0 judges held-out samples before and after only
  PreviewSettings previews;
  bool tensorboard = false, csv = false;
  c10::ScalarType dtype = c10::kBFloat16;
  bool resume = false, overwrite = false;
  std::filesystem::path state() const { return folder / "state"; }
};

/// What a plan of the run's memory goes by.
struct PlanSettings {
  bool refuses = true;                                        ///< a run that does not fit
  std::optional<int64_t> device_bytes = {}, host_bytes = {};  ///< that it may take; nothing asks device and machine
  int64_t processes_here = 1;                                 ///< which share this machine
};

struct Settings {
  TrainOptions given;        ///< as they were written, for config.toml and the fingerprint
  Portion together;          ///< which of the processes that train together this one is
  bool makes_cache = false;  ///< a cache and no training
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

/// Refuses what contradicts itself (check), and says what the rest means of a run whose processes are not told apart yet.
Settings understood(const TrainOptions& options);
/// The settings of one of several processes that train together. Refuses what these cannot do together.
Settings shared_out(Settings settings, Portion together);
/// Both: `portion` is what of the run this process does.
Settings settle(const TrainOptions& options, Portion portion = {});

/// Keeps results of frozen models in a folder, and beside them what is remembered of the pictures.
void keep_in(DataSettings& data, const std::filesystem::path& folder);

/// Options that a saved state is only good for, in words.
std::string fingerprint(const TrainOptions& options, int64_t global_batch_size, const std::string& trained, bool has_adapters,
                        bool has_whole, int64_t num_samples);

}  // namespace burnish::train
