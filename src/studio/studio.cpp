#include "studio/studio.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "studio/arrival.h"
#include "studio/json_responses.h"

namespace burnish::studio {

using nlohmann::json;

StudioFolder::StudioFolder(Options given, int port)
    : options(std::move(given)), workspace(options.folder), claim(workspace.root(), {port, options.access.certificate.has_value()}) {
  for (const auto& folder : {workspace.files(), workspace.loras()}) remove_arrivals(folder);
  for (const auto& name : Workspace::names(workspace.datasets())) remove_arrivals(workspace.datasets() / name);
}

void StudioFolder::check(const std::string& verb, const std::string& settings) const {
  if (!options.problems) return;
  const auto problems = options.problems(verb, settings);
  std::vector<std::string> sentences;
  for (const auto& problem : problems) sentences.push_back(problem.at("sentence").get<std::string>());
  if (!sentences.empty()) refuse_with(400, join(sentences, "; "), {{"problems", problems}});
}

CheckSettings StudioFolder::check_of(const std::string& verb) const {
  return [this, verb](const std::string& job, const std::string& settings) {
    check(verb.empty() ? job.substr(0, job.find(' ')) : verb, settings);
  };
}

}  // namespace burnish::studio
