#include "studio/about_runs.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "io/last_lines.h"
#include "studio/files.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t kMostSaid = 4 << 20;  // a ranking of thousands of saves is shorter

Work asking(const Workspace& workspace, const std::string& program, const std::string& verb, const std::string& question) {
  const auto folder = workspace.queue() / (question + "-of-runs");
  return {.folder = folder,
          .results = folder,
          .working_in = workspace.root(),
          .command =
              [program, verb](const Job&, const std::string& settings, const std::string&) {
                return std::vector<std::string>{program, verb, "--config", settings};
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

AboutRuns::AboutRuns(const Workspace& workspace, const std::string& program, const std::string& verb, const std::string& question)
    : queue_(asking(workspace, program, verb, question.empty() ? verb : question)) {}

void AboutRuns::start(const fs::path& run, const std::string& settings) {
  const auto name = run.filename().string();
  if (const auto job = queue_.of_run(name)) {
    if (job->state != Job::State::ended) return;
    queue_.remove(job->id);
  }
  queue_.add(name, settings, /*resumes=*/false);
}

bool AboutRuns::stop(const std::string& run) {
  const auto job = queue_.of_run(run);
  return job && (interrupt(*job) || (job->state == Job::State::waiting && queue_.remove(job->id)));
}

void AboutRuns::forget(const std::string& run) {
  if (const auto job = queue_.of_run(run)) queue_.remove(job->id);
}

json AboutRuns::standing(const std::string& run) const {
  const auto job = queue_.of_run(run);
  if (!job) return {{"state", ""}, {"exit_code", nullptr}, {"says", ""}};
  const auto value = to_json(*job);
  return {{"state", value["state"]}, {"exit_code", value["exit_code"]}, {"says", queue_.says(job->id)}};
}

std::string AboutRuns::said(const std::string& run) const {
  const auto job = queue_.of_run(run);
  const bool is_done = job && job->state == Job::State::ended && job->exit_code.value_or(0) == 0;
  return is_done ? io::last_lines(queue_.log_of(job->id), kMostSaid) : "";
}

}  // namespace burnish::studio
