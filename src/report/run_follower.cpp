#include "report/run_follower.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "config/settings.h"
#include "data/image.h"
#include "io/files.h"
#include "io/json.h"

namespace burnish::report {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// What `read` makes of a file; nothing, with a warning, of one that cannot be read. The rest of the page does not wait for it.
template <class F>
json read_or_leave_out(const fs::path& path, F read) {
  if (!io::is_there(path)) return nullptr;
  try {
    return read(path);
  } catch (const Error& error) {
    warn("left out: {}", error.what());
    return nullptr;
  }
}

json settings_of(const fs::path& path) {
  auto list = json::array();
  for (const auto& s : config::read_settings(path))
    list.push_back({{"group", s.group}, {"name", s.name}, {"value", s.value}, {"doc", s.doc}});
  return list;
}

/// Seven digits are what a chart can show; NaN and infinity become null.
json number_of(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.7g}", value).c_str(), nullptr);
}

json table_of(const records::Log& log) {
  json table{{"steps", log.steps}, {"columns", json::object()}, {"num_skipped", log.num_skipped}};
  for (const auto& [name, column] : log.columns) {
    auto& numbers = table["columns"][name] = json::array();
    for (double value : column) numbers.push_back(name == "time" && std::isfinite(value) ? json(value) : number_of(value));
  }
  return table;
}

fs::file_time_type time_of(const fs::path& path) {
  std::error_code failed;
  auto time = fs::last_write_time(path, failed);
  return failed ? fs::file_time_type{} : time;
}

std::string run_name(const fs::path& run) {
  auto path = fs::absolute(run).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

std::vector<std::string> run_names(const std::vector<std::string>& runs) {
  std::vector<std::string> names;
  for (const auto& run : runs) names.push_back(run_name(run));
  return std::set<std::string>(names.begin(), names.end()).size() == names.size() ? names : runs;
}

RunFollower::RunFollower(fs::path run, std::string name, Link link)
    : run_(std::move(run)), name_(std::move(name)), link_(std::move(link)), log_(run_ / "log.jsonl") {
  std::error_code failed;
  if (!fs::is_directory(run_, failed))
    data_error("report", "{} is {}; name the folder of a run, what its --output_path was", run_.string(),
               io::is_there(run_) ? "no folder" : "not there");
  if (!fs::is_regular_file(run_ / "log.jsonl", failed))
    data_error("report", "{} holds no log.jsonl, which a training run writes from its start; name the run's own folder", run_.string());
}

bool RunFollower::settings_changed() {
  auto time = time_of(run_ / "config.toml");
  return std::exchange(settings_time_, time) != time;
}

json RunFollower::new_previews() {
  auto list = json::array();
  for (const auto& preview : records::find_previews(run_)) {
    auto path = records::preview_path(run_, preview.step, preview.number);
    auto time = time_of(path);
    auto [known, is_new] = previews_.try_emplace(preview, time);
    if (!is_new && std::exchange(known->second, time) == time) continue;
    auto described = read_or_leave_out(path, [&](const fs::path&) -> json {
      auto text = data::read_png_text(path);
      return {{"step", preview.step}, {"number", preview.number}, {"url", link_(path, preview)}, {"prompt", text["prompt"]}};
    });
    if (!described.is_null()) list.push_back(std::move(described));
  }
  return list;
}

json RunFollower::next() {
  auto part = log_.next();
  bool whole = settings_changed() || part.from_start;
  if (whole && !part.from_start) {
    log_ = records::LogFollower(run_ / "log.jsonl");
    part = log_.next();
  }
  if (whole) previews_.clear();
  json update{{"log", table_of(part.log)}, {"previews", new_previews()}};
  if (whole) {
    update["name"] = name_;
    update["settings"] = read_or_leave_out(run_ / "config.toml", settings_of);
    update["validation"] = read_or_leave_out(run_ / "validation.json", io::read_json);
    update["plan"] = read_or_leave_out(run_ / "plan.json", io::read_json);
  }
  bool is_news = whole || !part.log.steps.empty() || part.log.num_skipped > 0 || !update["previews"].empty();
  return is_news ? update : json(nullptr);
}

}  // namespace burnish::report
