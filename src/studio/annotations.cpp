#include "studio/annotations.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/input_error.h"
#include "studio/files.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// A job is called by its verb and the dataset: "caption cats".
std::pair<std::string, std::string> parts_of(const Job& job) {
  const auto space = job.run.find(' ');
  return {job.run.substr(0, space), job.run.substr(std::min(space + 1, job.run.size()))};
}

Work annotation(const Workspace& workspace, const std::string& program, CheckSettings check) {
  return {.folder = workspace.queue() / "annotations",
          .results = workspace.datasets(),
          .working_in = workspace.root(),
          .command =
              [program](const Job& job, const std::string& settings, const std::string&) {
                return std::vector<std::string>{program, parts_of(job).first, "--config", settings};
              },
          .variables = {"BURNISH_PROGRESS_SECONDS=1"},
          .check = std::move(check)};
}

}  // namespace

Annotations::Annotations(const Workspace& workspace, const std::string& program, CheckSettings check)
    : queue_(annotation(workspace, program, std::move(check))) {}

Job Annotations::add(const fs::path& dataset, const std::string& verb, const std::string& settings) {
  if (verb != "caption" && verb != "mask")
    config_error("studio", "'{}' writes nothing for the pictures of a dataset; caption and mask do", verb);
  return queue_.add(fmt::format("{} {}", verb, dataset.filename().string()),
                    fmt::format("folder = {}\n{}", to_toml(json::array({dataset.string()})), settings), /*resumes=*/true);
}

json Annotations::list() const {
  auto all = json::array();
  for (const auto& job : queue_.jobs()) {
    auto value = to_json(job);
    const auto [verb, dataset] = parts_of(job);
    value["verb"] = verb;
    value["dataset"] = dataset;
    value["says"] = queue_.says(job.id);
    all.push_back(std::move(value));
  }
  return all;
}

bool Annotations::end(const std::string& id) {
  for (const auto& job : queue_.jobs()) {
    if (job.id == id && interrupt(job)) return true;
  }
  return queue_.remove(id);
}

}  // namespace burnish::studio
