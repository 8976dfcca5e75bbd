#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "records/json_log.h"
#include "records/previews.h"
#include "records/status.h"

namespace burnish::report {

/// Makes the names by which a page calls runs: the names of their folders, or their paths where those are alike.
std::vector<std::string> run_names(const std::vector<std::string>& runs);

/// A data Error for what is no folder of a run: it needs a status.json or a log.jsonl. `may_begin`: or it is empty, so that a run may begin
/// there.
void check_run(const std::filesystem::path& run, bool may_begin);

/// Reads the folder of a run while it goes on, for the page.
class RunFollower {
 public:
  /// A function that says how the page gets a picture: a URL for the path of its file.
  using Link = std::function<std::string(const std::filesystem::path&, const records::Preview&)>;

  /// `name` is what the page calls the run. `strip` says how the page gets the strip of a preview that is a clip; none without it.
  RunFollower(std::filesystem::path run, std::string name, Link link, Link strip = {});

  /// Reads what came since the last call; null when nothing did. The first time, and whenever the run began anew, all of it:
  ///   {"name", "settings": [{"group", "name", "value", "doc"}] or null, "validation": {"before", "after"} or null,
  ///    "log": {"steps": [...], "columns": {name: [number or null, ...]}, "num_skipped"},
  ///    "previews": [{"step", "number", "url", "prompt", of clips "strip", of videos "video": true, of frames "frames": [url], "rate"}],
  ///    "status": what status.json holds, and "is_running": false where its process has gone without a word; null without the file}
  /// and otherwise the log's new rows, the pictures that are new or were drawn again, and the status if it changed, without the first
  /// three. Files that cannot be read are left out with a warning.
  nlohmann::json next();

 private:
  bool settings_changed();
  bool status_changed();
  nlohmann::json status() const;
  nlohmann::json new_previews();
  nlohmann::json describe(const records::Preview& preview, const std::filesystem::path& path) const;

  std::filesystem::path run_;
  std::string name_;
  Link link_, strip_;
  records::LogFollower log_;
  std::filesystem::file_time_type settings_time_{};
  std::string status_text_;  ///< that `status_` was read from
  std::optional<records::Status> status_;
  std::optional<bool> is_running_;
  std::map<records::Preview, std::filesystem::file_time_type> previews_;
};

}  // namespace burnish::report
