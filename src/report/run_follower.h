#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "records/json_log.h"
#include "records/previews.h"

namespace burnish::report {

/// Makes the names by which a page calls runs: the names of their folders, or their paths where those are alike.
std::vector<std::string> run_names(const std::vector<std::string>& runs);

/// Reads the folder of a run while it goes on, for the page.
class RunFollower {
 public:
  /// A function that says how the page gets a picture: a URL for the path of its file.
  using Link = std::function<std::string(const std::filesystem::path&, const records::Preview&)>;

  /// Throws a data Error unless `run` is a folder with a log.jsonl. `name` is what the page calls the run.
  RunFollower(std::filesystem::path run, std::string name, Link link);

  /// Reads what came since the last call; null when nothing did. The first time, and whenever the run began anew, all of it:
  ///   {"name", "settings": [{"group", "name", "value", "doc"}] or null, "validation": {"before", "after"} or null,
  ///    "log": {"steps": [...], "columns": {name: [number or null, ...]}, "num_skipped"},
  ///    "previews": [{"step", "number", "url", "prompt"}]}
  /// and otherwise the log's new rows and the pictures that are new or were drawn again, without the first three.
  /// Files that cannot be read are left out with a warning.
  nlohmann::json next();

 private:
  bool settings_changed();
  nlohmann::json new_previews();

  std::filesystem::path run_;
  std::string name_;
  Link link_;
  records::LogFollower log_;
  std::filesystem::file_time_type settings_time_{};
  std::map<records::Preview, std::filesystem::file_time_type> previews_;
};

}  // namespace burnish::report
