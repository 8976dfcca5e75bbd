#include "report/run_follower.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/number.h"
#include "config/settings.h"
#include "data/animated_webp.h"
#include "io/files.h"
#include "io/json.h"
#include "report/preview_text.h"

namespace burnish::report {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Returns what `read` makes of a file; nothing, with a warning, of one that cannot be read. The rest of the page does not wait for it.
template <class F>
std::invoke_result_t<F, const fs::path&> read_or_leave_out(const fs::path& path, F read) {
  if (!io::is_there(path)) return {};
  try {
    return read(path);
  } catch (const Error& error) {
    warn("left out: {}", error.what());
    return {};
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

/// Returns what a file holds, or why it cannot be read; "" for one that is not there.
std::string text_or_error(const fs::path& path) {
  try {
    return io::is_there(path) ? io::read_text(path) : "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Frames a second by a text; as many as most models make where it is none.
double rate_of(const std::string& text) {
  constexpr double kUsualRate = 16;
  const auto rate = parse_number<double>(text).value_or(0);
  return rate > 0 ? rate : kUsualRate;
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

void check_run(const fs::path& run, bool may_begin) {
  if (!io::is_folder(run))
    data_error("report", "{} is {}; name the folder of a run, what its --output_path was", run.string(),
               io::is_there(run) ? "no folder" : "not there");
  std::error_code failed;
  bool has_begun = io::is_there(records::status_path(run)) || fs::is_regular_file(run / "log.jsonl", failed);
  if (!has_begun && !(may_begin && fs::is_empty(run, failed)))
    data_error("report", "{} holds neither a status.json nor a log.jsonl, which a training run writes; name the run's own folder",
               run.string());
}

RunFollower::RunFollower(fs::path run, std::string name, Link link, Link strip)
    : run_(std::move(run)), name_(std::move(name)), link_(std::move(link)), strip_(std::move(strip)), log_(run_ / "log.jsonl") {}

bool RunFollower::settings_changed() {
  auto time = time_of(run_ / "config.toml");
  return std::exchange(settings_time_, time) != time;
}

/// Also when its process has ended without a word since.
bool RunFollower::status_changed() {
  auto path = records::status_path(run_);
  auto text = text_or_error(path);
  bool changed = std::exchange(status_text_, text) != text;
  if (changed) status_ = read_or_leave_out(path, [&](const fs::path&) { return records::read_status(run_); });
  auto running = status_ && !status_->has_ended() ? records::is_running(status_->process) : std::nullopt;
  return std::exchange(is_running_, running) != running || changed;
}

json RunFollower::status() const {
  if (!status_) return nullptr;
  auto value = records::to_json(*status_);
  value["is_running"] = is_running_ ? json(*is_running_) : json();
  return value;
}

json RunFollower::describe(const records::Preview& preview, const fs::path& path) const {
  using Kind = records::PreviewKind;
  const auto frames = preview.kind == Kind::frames ? records::preview_frames(path) : std::vector<fs::path>();
  if (preview.kind == Kind::frames && frames.empty()) return nullptr;  // none is written yet
  auto text = preview_text(preview.kind, frames.empty() ? path : frames.front());
  json described{{"step", preview.step}, {"number", preview.number}, {"prompt", text["prompt"]}};
  if (text.contains("strength")) described["strength"] = text["strength"];
  if (frames.empty()) described["url"] = link_(path, preview);
  else described.update({{"url", link_(frames.front(), preview)}, {"frames", json::array()}, {"rate", rate_of(text["frame_rate"])}});
  for (const auto& frame : frames) described["frames"].push_back(link_(frame, preview));
  if (preview.kind == Kind::mp4 || preview.kind == Kind::webm) described["video"] = true;
  const bool is_clip = preview.kind != Kind::png && (preview.kind != Kind::webp || data::num_frames_of_webp(path) > 1);
  if (is_clip && strip_) described["strip"] = read_or_leave_out(path, [&](const fs::path&) { return strip_(path, preview); });
  return described;
}

json RunFollower::new_previews() {
  auto list = json::array();
  for (const auto& preview : records::find_previews(run_)) {
    auto path = records::preview_path(run_, preview.step, preview.number, preview.kind);
    auto time = time_of(path);
    auto [known, is_new] = previews_.try_emplace(preview, time);
    if (!is_new && std::exchange(known->second, time) == time) continue;
    auto described = read_or_leave_out(path, [&](const fs::path&) { return describe(preview, path); });
    if (!described.is_null()) list.push_back(std::move(described));
  }
  return list;
}

json RunFollower::next() {
  auto part = log_.next();
  bool whole = settings_changed() || part.from_start, has_new_status = status_changed();
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
  if (whole || has_new_status) update["status"] = status();
  bool is_news = whole || has_new_status || !part.log.steps.empty() || part.log.num_skipped > 0 || !update["previews"].empty();
  return is_news ? update : json(nullptr);
}

}  // namespace burnish::report
