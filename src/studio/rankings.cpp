#include "studio/rankings.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "io/last_lines.h"
#include "studio/files.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t kMostOfARanking = 4 << 20;  // a run of thousands of saves has a ranking of one

Work ranking(const Workspace& workspace, const std::string& program) {
  return {.folder = workspace.queue() / "rankings",
          .results = workspace.queue() / "rankings",
          .working_in = workspace.root(),
          .command =
              [program](const Job&, const std::string& settings, const std::string&) {
                return std::vector<std::string>{program, "best", "--config", settings};
              },
          .variables = {"BURNISH_PROGRESS_SECONDS=1"}};
}

}  // namespace

json last_object_in(const std::string& log) {
  // An object that is printed over several lines begins and ends with a brace that has a line for itself.
  const auto end = log.rfind("\n}");
  if (end == log.npos) return nullptr;
  for (auto begin = log.rfind("{\n", end); begin != log.npos; begin = begin == 0 ? log.npos : log.rfind("{\n", begin - 1)) {
    if (begin != 0 && log[begin - 1] != '\n') continue;
    auto value = json::parse(log.substr(begin, end + 2 - begin), nullptr, /*allow_exceptions=*/false);
    if (value.is_object()) return value;
  }
  return nullptr;
}

Rankings::Rankings(const Workspace& workspace, const std::string& program) : queue_(ranking(workspace, program)) {}

void Rankings::start(const fs::path& run, const std::vector<std::string>& models) {
  const auto name = run.filename().string();
  if (const auto job = queue_.of_run(name)) {
    if (job->state != Job::State::ended) return;
    queue_.remove(job->id);
  }
  auto settings = fmt::format("run = {}\njson = true\n", to_toml(json::array({run.string()})));
  if (!models.empty()) settings += fmt::format("model = {}\n", to_toml(json(models)));
  queue_.add(name, settings, /*resumes=*/false);
}

bool Rankings::stop(const std::string& run) {
  const auto job = queue_.of_run(run);
  return job && (interrupt(*job) || (job->state == Job::State::waiting && queue_.remove(job->id)));
}

void Rankings::forget(const std::string& run) {
  if (const auto job = queue_.of_run(run)) queue_.remove(job->id);
}

json Rankings::standing(const std::string& run) const {
  const auto job = queue_.of_run(run);
  if (!job) return {{"state", ""}, {"exit_code", nullptr}, {"says", ""}, {"ranking", nullptr}};
  auto value = to_json(*job);
  const bool is_done = job->state == Job::State::ended && job->exit_code.value_or(0) == 0;
  auto ranked = is_done ? last_object_in(io::last_lines(queue_.log_of(job->id), kMostOfARanking)) : json();
  json standing{{"state", value["state"]}, {"exit_code", value["exit_code"]}, {"says", is_done ? "" : queue_.says(job->id)}};
  standing["ranking"] = ranked.contains("saves") ? std::move(ranked) : json();
  return standing;
}

}  // namespace burnish::studio
