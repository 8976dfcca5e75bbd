#include "studio/runs.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/input_error.h"
#include "base/median.h"
#include "base/text.h"
#include "io/files.h"
#include "records/previews.h"
#include "records/status.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Nothing where there is none, or it cannot be read.
std::optional<records::Status> status_of(const fs::path& run) {
  try {
    return records::read_status(run);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// [step, number] of the last preview of a run; null where there is none that is a picture.
json last_preview(const fs::path& run) {
  const auto previews = records::find_previews(run);
  if (previews.empty()) return nullptr;
  const auto last = previews.back().step;
  for (const auto& preview : previews) {
    const bool is_shown = preview.kind == records::PreviewKind::png || preview.kind == records::PreviewKind::webp;
    if (preview.step == last && is_shown) return json::array({preview.step, preview.number});
  }
  return nullptr;
}

constexpr const char* kArchived = ".archived";
constexpr const char* kNotes = "notes.txt";
constexpr size_t kMostOfNotes = 64 << 10;
constexpr const char* kTags = "tags.txt";
constexpr std::ptrdiff_t kMostTags = 20;
constexpr size_t kMostOfATag = 60;

std::vector<std::string> tags_of(const fs::path& run) {
  return io::is_there(run / kTags) ? split_list(io::read_text(run / kTags), '\n') : std::vector<std::string>();
}

/// The middle one of the last times that a step took: a save or a preview in between does not count.
double median_of_last(const std::vector<double>& seconds) {
  constexpr std::ptrdiff_t kMost = 101;
  std::vector<double> last(seconds.end() - std::min<std::ptrdiff_t>(kMost, std::ssize(seconds)), seconds.end());
  std::erase_if(last, [](double one) { return std::isnan(one); });
  return median(std::move(last));
}

}  // namespace

void Runs::read_log(const std::string& name, json& card) {
  const auto path = workspace_.runs() / name / "log.jsonl";
  auto& read = read_.try_emplace(name, Read{records::LogFollower(path)}).first->second;
  const auto part = read.log.next();
  if (part.from_start) {
    read.step = 0;
    read.has_loss = false;
  }
  for (const char* column : {"loss", "raw_loss"}) {
    auto found = part.log.columns.find(column);
    if (found == part.log.columns.end() || found->second.empty() || std::isnan(found->second.back())) continue;
    read.loss = found->second.back();
    read.has_loss = true;
  }
  if (!part.log.steps.empty()) read.step = part.log.steps.back();
  if (auto times = part.log.columns.find("step_seconds"); times != part.log.columns.end()) {
    const auto seconds = median_of_last(times->second);
    if (seconds > 0) read.seconds_a_step = seconds;
  }
  card["step"] = read.step;
  card["loss"] = read.has_loss ? json(read.loss) : json();
  card["seconds_a_step"] = read.seconds_a_step > 0 ? json(read.seconds_a_step) : json();
}

json Runs::card(const std::string& name) {
  const auto run = workspace_.runs() / name;
  json card{{"name", name},         {"state", ""},
            {"preview", nullptr},   {"job", nullptr},
            {"gpu", nullptr},       {"started", 0},
            {"written", 0},         {"notes", io::is_there(run / kNotes) ? io::read_text(run / kNotes) : ""},
            {"tags", tags_of(run)}, {"is_archived", io::is_there(run / kArchived)}};
  if (auto status = status_of(run)) {
    card.update(records::to_json(*status));
    const bool is_gone = !status->has_ended() && records::is_running(status->process) == false;
    if (is_gone) card["state"] = "gone";
    card.erase("process");
  }
  if (auto job = queue_.of_run(name)) {
    card["job"] = job->id;
    if (job->gpu) card["gpu"] = *job->gpu;
    if (job->state == Job::State::waiting) card["state"] = "waiting";
  }
  read_log(name, card);
  card["preview"] = last_preview(run);
  return card;
}

json Runs::card_of_failed(const Job& job) {
  auto failed = card(job.run);
  failed.update({{"state", "failed"}, {"sentence", queue_.says(job.id)}, {"exit_code", *job.exit_code}, {"has_folder", false}});
  return failed;
}

json Runs::one(const std::string& name) {
  std::lock_guard lock(mutex_);
  return card(name);
}

json Runs::list() {
  std::lock_guard lock(mutex_);
  std::vector<json> cards;
  const auto names = Workspace::names(workspace_.runs());
  std::erase_if(read_, [&](const auto& read) { return !std::ranges::binary_search(names, read.first); });
  for (const auto& name : names) cards.push_back(card(name));
  for (const auto& job : queue_.jobs()) {  // that ended before they had a folder
    const bool is_shown = job.state == Job::State::ended && job.exit_code.value_or(0) != 0 && !is_taken(workspace_.runs() / job.run);
    if (is_shown) cards.push_back(card_of_failed(job));
  }
  std::ranges::stable_sort(cards, [](const json& a, const json& b) { return a["started"].get<double>() > b["started"].get<double>(); });
  return cards;
}

void archive(const fs::path& run, bool is_archived) {
  if (is_archived) return io::write_text_atomic(run / kArchived, "");
  std::error_code error;
  fs::remove(run / kArchived, error);
  if (error) data_error("studio", "{} cannot be removed: {}", (run / kArchived).string(), error.message());
}

void note(const fs::path& run, const std::string& text) {
  if (text.size() > kMostOfNotes)
    config_error("studio", "notes of a run are at most {} bytes long, not {}; keep longer ones in a file of your own", kMostOfNotes,
                 text.size());
  io::write_text_atomic(run / kNotes, text);
}

void tag(const fs::path& run, const std::vector<std::string>& tags) {
  std::vector<std::string> kept;
  for (const auto& given : tags) {
    const std::string one(trim(given));
    if (one.empty() || contains(kept, one)) continue;
    if (one.size() > kMostOfATag || one.find('\n') != one.npos)
      config_error("studio", "a tag of a run is one line of at most {} bytes, and '{}' is not; keep longer texts in its notes", kMostOfATag,
                   one_line(one.substr(0, kMostOfATag)));
    kept.push_back(one);
  }
  if (std::ssize(kept) > kMostTags)
    config_error("studio", "a run has at most {} tags, not {}; take some of them away", kMostTags, kept.size());
  io::write_text_atomic(run / kTags, join(kept, "\n") + "\n");
}

bool interrupt(const fs::path& run) {
  const auto status = status_of(run);
  if (!status || status->has_ended() || records::is_running(status->process) != true) return false;
  return kill(static_cast<pid_t>(status->process.id), SIGINT) == 0;
}

}  // namespace burnish::studio
