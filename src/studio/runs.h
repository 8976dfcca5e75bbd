#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "records/json_log.h"
#include "studio/about_runs.h"
#include "studio/queue.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// What a list of runs says of each, read from their folders while they go on.
class Runs {
 public:
  /// The workspace and the queue must outlive it; the program is burnish.
  Runs(const Workspace& workspace, const Queue& queue, const std::string& program)
      : workspace_(workspace),
        queue_(queue),
        rankings_(workspace, program, "best"),
        cards_(workspace, program, "card"),
        captions_(workspace, program, "data", "captions"),
        gradients_(workspace, program, "data", "gradients") {}

  /// {"name", "state", "stage", "done", "total", "seconds_left", "step", "steps", "seconds_a_step", "loss", "sentence", "exit_code",
  /// "started", "written", "preview": [step, number] or null, "job": id or null, "gpu": the one that it was given or null, "is_archived",
  /// "notes", "tags"} of a run that is there. The state is "gone" where a process has ended without a word, and "waiting" where its job
  /// waits.
  nlohmann::json one(const std::string& name);
  /// Returns that of each run, the newest first, and of runs that failed before they had a folder, with "has_folder": false.
  nlohmann::json list();
  /// Says which save of a run is best.
  AboutRuns& rankings() { return rankings_; }
  /// Makes cards of runs, and sends them to a hub.
  AboutRuns& cards() { return cards_; }
  /// Asks the models of runs, as they were before training, which captions say little of their pictures.
  AboutRuns& captions() { return captions_; }
  /// Asks them which pictures pull elsewhere than the others.
  AboutRuns& gradients() { return gradients_; }

 private:
  /// Holds what was read of a log so far.
  struct Read {
    records::LogFollower log;
    int64_t step = 0;
    double loss = 0, seconds_a_step = 0;  ///< the latter 0 until it is known
    bool has_loss = false;
  };
  nlohmann::json card(const std::string& name);
  nlohmann::json card_of_failed(const Job& job);
  void read_log(const std::string& name, nlohmann::json& card);

  const Workspace& workspace_;
  const Queue& queue_;
  AboutRuns rankings_, cards_, captions_, gradients_;
  std::mutex mutex_;
  std::map<std::string, Read> read_;
};

/// Keeps a run out of the way, or brings it back: a file in its folder says so, which it keeps wherever it goes. A data Error where that
/// cannot be written.
void archive(const std::filesystem::path& run, bool is_archived);

/// Writes what somebody notes of a run into its folder, as notes.txt. A config Error for more than 64 KiB.
void note(const std::filesystem::path& run, const std::string& text);

/// Writes the tags of a run into its folder, as tags.txt, one a line and each once. A config Error for more than 20, or one that is longer
/// than 60 bytes, or has several lines.
void tag(const std::filesystem::path& run, const std::vector<std::string>& tags);

/// Sends the run's process what Ctrl-C sends. False where none is known to run.
bool interrupt(const std::filesystem::path& run);

}  // namespace burnish::studio
