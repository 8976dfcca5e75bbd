#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "studio/queue.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// Asks a verb of the program about runs, `best`, `card` or `data` say: one run after the other, each a job that is called by its run,
/// which goes on without the studio and is kept until the verb is asked again.
class AboutRuns {
 public:
  /// Goes on with those that wait. What is asked lies in a folder of the queue that is called by `question`, or by the verb.
  AboutRuns(const Workspace& workspace, const std::string& program, const std::string& verb, const std::string& question = "");

  /// Asks about a run, with the options of the verb as TOML. One that goes on is left alone, and one that has ended gives way.
  void start(const std::filesystem::path& run, const std::string& settings);
  /// Ends one that goes on, or takes it out of those that wait. False where there is none.
  bool stop(const std::string& run);
  /// Forgets what was said of a run, which has ended.
  void forget(const std::string& run);
  /// {"state": "" where nobody asked, "waiting", "running" or "ended", "exit_code": number or null, "says": the last line that the program
  /// said}.
  nlohmann::json standing(const std::string& run) const;
  /// Returns all that the program said of a run in the end; "" before that, and where it failed.
  std::string said(const std::string& run) const;

 private:
  Queue queue_;
};

/// Finds the JSON object that a program printed at the end of a log, among lines for people; null where there is none.
nlohmann::json last_object_in(const std::string& log);

}  // namespace burnish::studio
