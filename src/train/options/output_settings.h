#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/fields.h"
#include "train/objectives/objective_kind.h"
#include "train/step/settings.h"
#include "train/subject/strength.h"

namespace burnish::train {

struct PreviewSettings {
  std::string prompts = {};  ///< a file of prompts; "" draws none
  int64_t every = 0;         ///< steps from one drawing to the next; 0 draws before the first and after the last only
  int64_t num_steps = 20;    ///< steps of the sampler, where a prompt does not say
  uint64_t seed = 0;
  std::string format = "default";  ///< what they are written as (data/drawn_file.h)
  DrawnBy by = {};                 ///< how they are drawn; its steps are all that there are
  double frame_rate = 0;           ///< how fast clips play; 0: as fast as the model's
  bool with_presets = false;       ///< whether presets that are merged while training are in the model that draws
};

/// The forms that the log has beside log.jsonl, and whether a page about the run is written at its end.
struct LogSettings {
  bool tensorboard = false, csv = false, report = true;
};

/// What is in files of weights.
struct SavedFileSettings {
  c10::ScalarType dtype = c10::kBFloat16;
  /// Entries of ModelSpec that files have beside those that the run knows itself: "title", "author" and so on.
  std::map<std::string, std::string> described = {{"title", ""}, {"author", ""}, {"description", ""}, {"license", ""}, {"tags", ""}};
};

struct OutputSettings {
  std::filesystem::path folder = {};
  std::string name = {};  ///< what the names of saved weights begin with, before a dash; "" for nothing
  SaveSettings save = {};
  std::vector<Strength> validation_strengths = {};  ///< strengths of the adapter at which held-out samples are judged beside its own, 1
  int64_t validation_steps = 0;  ///< steps from one validation to the next; 0 judges held-out samples before and after only
  PreviewSettings previews = {};
  LogSettings logs = {};
  SavedFileSettings files = {};
  bool resume = false, overwrite = false;
  std::filesystem::path state() const { return folder / "state"; }
  /// What stands before "step-N" and "best" in names of files.
  std::string prefix() const { return name.empty() ? "" : name + "-"; }
};

}  // namespace burnish::train
