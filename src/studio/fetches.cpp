#include "studio/fetches.h"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "io/files.h"
#include "studio/runs.h"

namespace burnish::studio {

using nlohmann::json;

namespace {

constexpr size_t kMostOfALine = 2000;

/// "author/model"; what a hub takes beyond that, it says itself.
bool is_id(const std::string& text) {
  const auto slash = text.find('/');
  return slash != text.npos && is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1)) && !text.starts_with('-');
}

}  // namespace

std::filesystem::path Fetches::log_of(const std::string& id) const {
  auto name = id;
  std::ranges::replace(name, '/', ' ');
  return workspace_.queue() / (".fetch " + name + ".log");
}

bool Fetches::goes_on(Fetch& fetch) {
  if (!fetch.ended) fetch.ended = ended_process(fetch.child);
  return !fetch.ended;
}

void Fetches::start(const std::string& id) {
  if (!is_id(id)) config_error("studio", "'{}' is no id of a model on a hub, which is author/model", id);
  std::lock_guard lock(mutex_);
  if (auto found = fetches_.find(id); found != fetches_.end() && goes_on(found->second)) return;
  auto variables = own_variables();
  variables.emplace_back("BURNISH_PROGRESS_SECONDS=1");
  const auto log = log_of(id);
  io::write_text_atomic(log, "");
  fetches_[id] = {.child = start_process({.words = {program_, "models", id, "--fetch"},
                                          .variables = std::move(variables),
                                          .folder = workspace_.root(),
                                          .output = log,
                                          .outlives = true})};
}

bool Fetches::stop(const std::string& id) {
  std::lock_guard lock(mutex_);
  auto found = fetches_.find(id);
  return found != fetches_.end() && goes_on(found->second) && kill(found->second.child, SIGINT) == 0;
}

json Fetches::list() {
  std::lock_guard lock(mutex_);
  auto list = json::array();
  for (auto& [id, fetch] : fetches_) {
    const bool on = goes_on(fetch);
    const auto lines = split_list(last_lines(log_of(id), kMostOfALine), '\n');
    list.push_back({{"name", id},
                    {"goes_on", on},
                    {"exit_code", on ? json() : json(fetch.ended->exit_code)},
                    {"line", lines.empty() ? "" : lines.back()}});
  }
  return list;
}

}  // namespace burnish::studio
