#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "studio/queue.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// Models on their way from a hub into its cache, one after the other.
class Fetches {
 public:
  /// Goes on with what waits.
  Fetches(const Workspace& workspace, const std::string& program);

  /// Begins to bring a model; one that is on its way is left alone. A config Error for what is no id.
  void start(const std::string& id);
  /// Ends it as Ctrl-C does; what came stays, and is gone on with. False where it is not on its way.
  bool stop(const std::string& id);
  /// [{"name", "state": "waiting", "running" or "ended", "exit_code": number or null, "says": the last that the program said}].
  nlohmann::json list() const;

 private:
  Queue queue_;
};

}  // namespace burnish::studio
