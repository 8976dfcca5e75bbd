#pragma once
#include <sys/types.h>

#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/process.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// Models on their way from a hub, each brought by a process of its own, which goes on when the studio ends.
class Fetches {
 public:
  /// `program` is started as `PROGRAM models ID --fetch`. The workspace must outlive it.
  Fetches(const Workspace& workspace, std::string program) : workspace_(workspace), program_(std::move(program)) {}

  /// Begins to bring a model; one that is on its way is left alone.
  void start(const std::string& id);
  /// Ends it as Ctrl-C does; what came stays, and is gone on with. False where it is not on its way.
  bool stop(const std::string& id);
  /// [{"name", "goes_on", "exit_code": number or null, "line": the last that it said}], of this studio's time.
  nlohmann::json list();

 private:
  struct Fetch {
    pid_t child = 0;
    std::optional<Ended> ended = {};
  };
  /// Notes whether it has ended.
  static bool goes_on(Fetch& fetch);
  std::filesystem::path log_of(const std::string& id) const;

  const Workspace& workspace_;
  std::string program_;
  std::mutex mutex_;
  std::map<std::string, Fetch> fetches_;
};

}  // namespace burnish::studio
