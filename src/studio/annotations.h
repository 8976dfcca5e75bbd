#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "studio/queue.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// Captions and masks that models write beside the pictures of datasets: runs of `burnish caption` and `burnish mask`, one after the other.
class Annotations {
 public:
  /// Goes on with those that wait.
  Annotations(const Workspace& workspace, const std::string& program, CheckSettings check = {});

  /// Adds one at the end: of a verb, "caption" or "mask", over a dataset's folder, with further options of the verb as TOML. A config Error
  /// for another verb.
  Job add(const std::filesystem::path& dataset, const std::string& verb, const std::string& settings);
  /// [{"id", "verb", "dataset", "state", "exit_code", "says"}], in their order.
  nlohmann::json list() const;
  /// Ends one that runs after the picture that it is at, or takes one that waits or has ended out of the list. False where there is none.
  bool end(const std::string& id);

 private:
  Queue queue_;
};

}  // namespace burnish::studio
