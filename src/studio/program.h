#pragma once
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/process.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// The program's only word where it is to be told by a line on its standard input what it is asked (base/process.h, Standby).
inline constexpr const char* kStandby = "--standby";

/// The program itself, which answers what needs a model or a dataset to be opened: as a process of its own, which may fail, or take too
/// much memory, without harm to the studio. Two answer at once; others wait.
/// Once something was planned, a process stands by for the next plan, with the libraries loaded that take longer than most plans.
class Program {
 public:
  /// `path` is that of the program. The workspace must outlive it.
  Program(const Workspace& workspace, std::string path, bool trusts_settings)
      : workspace_(workspace), path_(std::move(path)), trusts_settings_(trusts_settings) {}

  const std::string& path() const { return path_; }
  /// Runs a verb with its arguments, in the workspace, with further variables ("NAME=value").
  Said run(const std::vector<std::string>& words, const std::vector<std::string>& variables = {});
  /// Returns what a verb says as JSON; a config Error with its sentence where it fails.
  nlohmann::json json_of(const std::vector<std::string>& words);
  /// The options of a verb as `burnish help VERB --json` writes them, asked for once.
  std::string options_of(const std::string& verb);
  /// Runs a verb with its arguments, and behind them the name of a file with settings, which lies where those of jobs lie while it runs.
  Said run_on(const std::string& settings, std::vector<std::string> words, const std::vector<std::string>& variables = {});
  /// Returns what `burnish plan --json` says of settings, with an option more ("alone", "fit") or none: what answer_of has of it as "plan".
  /// `variables`: further ones that it has ("NAME=value").
  nlohmann::json plan(const std::string& settings, const std::string& option, const std::vector<std::string>& variables = {});

 private:
  Command command_of(const std::vector<std::string>& words, const std::vector<std::string>& variables) const;
  /// Runs a command by the process that stands by, where there is one, and has another stand by.
  Said run_at_once(const std::vector<std::string>& words, const std::vector<std::string>& variables);

  const Workspace& workspace_;
  std::string path_;
  bool trusts_settings_;
  std::mutex mutex_;
  std::condition_variable freed_;
  int num_running_ = 0;
  int64_t num_drafts_ = 0;
  std::map<std::string, std::string> options_;  ///< by verb
  std::unique_ptr<Standby> standby_;            ///< null where none stands by
  std::vector<std::string> standby_variables_;  ///< the further variables that it was started with, which hold for its plan
};

/// Returns the variables of this process with others ("NAME=value") in place of those that have their names.
std::vector<std::string> variables_with(const std::vector<std::string>& others);

/// A line that the program printed, without what stands in brackets before it: the time, the kind of a message, the room that it is from.
std::string spoken(std::string line);
/// Returns what a program said at last of why it ended.
std::string sentence_of(const Said& said);
/// Returns what a verb said in JSON: {"problems": [{"option", "sentence"}]}, or its answer under `name` with "exit_code", and a "sentence"
/// where it could not say more.
nlohmann::json answer_of(const Said& said, const std::string& name);

}  // namespace burnish::studio
