#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "studio/queue.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// Finds which save of a run is best: by `burnish best`, for one run after the other, each a job that is called by its run.
class Rankings {
 public:
  /// Goes on with those that wait.
  Rankings(const Workspace& workspace, const std::string& program);

  /// Begins to rank the saves of a run, by models that see pictures, or by its validation loss alone where none is named. One that goes on
  /// is left alone, and another one gives way.
  void start(const std::filesystem::path& run, const std::vector<std::string>& models);
  /// Ends a ranking after the picture that it is at, or takes it out of those that wait. False where there is none.
  bool stop(const std::string& run);
  /// Forgets the ranking of a run that has ended.
  void forget(const std::string& run);
  /// {"state": "" where nobody asked, "waiting", "running" or "ended", "exit_code": number or null, "says": the last that the program said,
  /// "ranking": what `burnish best --json` says, or null}.
  nlohmann::json standing(const std::string& run) const;

 private:
  Queue queue_;
};

/// Finds the JSON object that a program printed at the end of a log, among lines for people; null where there is none.
nlohmann::json last_object_in(const std::string& log);

}  // namespace burnish::studio
