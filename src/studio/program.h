#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/process.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// The program itself, which answers what needs a model or a dataset to be opened: as a process of its own, which may fail, or take too
/// much memory, without harm to the studio. Two answer at once; others wait.
class Program {
 public:
  /// `path` is that of the program. The workspace must outlive it.
  Program(const Workspace& workspace, std::string path, bool trusts_settings)
      : workspace_(workspace), path_(std::move(path)), trusts_settings_(trusts_settings) {}

  const std::string& path() const { return path_; }
  /// Runs a verb with its arguments, in the workspace.
  Said run(const std::vector<std::string>& words);
  /// What `burnish plan --json` says of settings, which lie where those of jobs lie: {"problems": [{"option", "sentence"}]}, or
  /// {"plan": ..., "exit_code"}, and "sentence" where it could not say more.
  nlohmann::json plan(const std::string& settings, bool wants_fit);

 private:
  const Workspace& workspace_;
  std::string path_;
  bool trusts_settings_;
  std::mutex mutex_;
  std::condition_variable freed_;
  int num_running_ = 0;
  int64_t num_drafts_ = 0;
};

}  // namespace burnish::studio
