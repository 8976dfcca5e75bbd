#include "studio/fetches.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "studio/files.h"

namespace burnish::studio {

using nlohmann::json;

namespace {

/// "author/model"; what a hub takes beyond that, it says itself.
bool is_id(const std::string& text) {
  const auto slash = text.find('/');
  const bool has_blanks = text.find(' ') != text.npos;
  return slash != text.npos && !has_blanks && is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1)) && !text.starts_with('-');
}

/// The name of its job, which has a blank in place of the slash.
std::string name_of(std::string id) {
  std::ranges::replace(id, '/', ' ');
  return id;
}

Work fetching(const Workspace& workspace, const std::string& program) {
  return {.folder = workspace.queue() / "fetches",
          .results = workspace.queue() / "fetches",
          .working_in = workspace.root(),
          .command =
              [program](const Job&, const std::string& settings, const std::string&) {
                return std::vector<std::string>{program, "models", "--config", settings};
              },
          .variables = {"BURNISH_PROGRESS_SECONDS=1"}};
}

}  // namespace

Fetches::Fetches(const Workspace& workspace, const std::string& program) : queue_(fetching(workspace, program)) {}

void Fetches::start(const std::string& id) {
  if (!is_id(id)) config_error("studio", "'{}' is no id of a model on a hub, which is author/model", id);
  if (const auto job = queue_.of_run(name_of(id))) {
    if (job->state != Job::State::ended) return;
    queue_.remove(job->id);
  }
  queue_.add(name_of(id), fmt::format("model = {}\nfetch = true\n", to_toml(json{id})), /*resumes=*/false);
}

bool Fetches::stop(const std::string& id) {
  const auto job = queue_.of_run(name_of(id));
  return job && (interrupt(*job) || (job->state == Job::State::waiting && queue_.remove(job->id)));
}

json Fetches::list() const {
  auto list = json::array();
  for (const auto& job : queue_.jobs()) {
    auto name = job.run;
    std::ranges::replace(name, ' ', '/');
    auto value = to_json(job);
    value["name"] = name;
    value["says"] = queue_.says(job.id);
    list.push_back(std::move(value));
  }
  return list;
}

}  // namespace burnish::studio
