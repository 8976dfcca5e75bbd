#include "remote/job.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "base/input_error.h"
#include "base/log.h"

namespace burnish::remote {

namespace {

constexpr size_t kMostOfALog = 1 << 20;  // bytes that are read of it at once

}  // namespace

std::optional<Job::Standing> Job::standing(size_t seen) const {
  const auto said =
      host_->try_run(fmt::format("cd {} 2>/dev/null || {{ echo none; exit; }}\n"
                                 "if [ -s ended ]; then echo ended $(cat ended)\n"
                                 "elif [ ! -s process ]; then echo none\n"
                                 "elif kill -0 $(cat process) 2>/dev/null; then echo running\n"
                                 "else echo gone; fi\n"
                                 "tail -c +{} log 2>/dev/null | head -c {}",
                                 shell_word(folder_), seen + 1, kMostOfALog));
  if (!said) return std::nullopt;
  std::istringstream first(said->output.substr(0, said->output.find('\n')));
  std::string word;
  Standing standing;
  first >> word >> standing.exit_code;
  if (word == "running") standing.state = State::running;
  else if (word == "ended") standing.state = State::ended;
  else if (word == "gone") standing.state = State::gone;
  else if (word != "none") data_error("remote", "{} answers '{}' where a job's state is asked for", host_->address(), word);
  const auto end = said->output.find('\n');
  if (end != said->output.npos) standing.log = said->output.substr(end + 1);
  return standing;
}

void Job::start() const {
  // The shell waits for the run and writes how it ended; both belong to a session of their own.
  const auto waiting =
      fmt::format("{} train --config settings.toml --output_path run --auto_resume & echo $! >process; wait $!; echo $? >ended", program_);
  const auto said =
      host_->run(fmt::format("cd {} || exit 1\n"
                             "if [ \"$(cat ended 2>/dev/null)\" = 0 ] && cmp -s settings.toml settings.new.toml; then exit 0; fi\n"
                             "mv settings.new.toml settings.toml && rm -f ended process && : >log && mkdir -p run || exit 1\n"
                             "setsid sh -c {} >>log 2>&1 </dev/null &\n"
                             "for i in 1 2 3 4 5 6 7 8 9 10; do [ -s process ] && exit 0; sleep 0.2; done",
                             shell_word(folder_), shell_word(waiting)));
  if (said.exit_code != 0) data_error("remote", "the run cannot be started on {}: {}", host_->address(), said.errors);
}

bool Job::stop() const { return host_->run(fmt::format("cd {} && kill -TERM $(cat process)", shell_word(folder_))).exit_code == 0; }

std::optional<int> Job::follow(const std::filesystem::path& to, std::chrono::milliseconds every,
                               const std::function<void(const std::string&)>& say, const std::function<bool()>& leaves) const {
  const std::string run = folder_ + "/run";
  size_t seen = 0;
  bool is_lost = false;
  while (!leaves()) {
    const auto now = standing(seen);
    const bool came = now && host_->fetch(run, to, {"*.safetensors", "*.partial-*", "state"});
    if (!now || (!came && now->state == State::running)) {
      if (!is_lost) warn("the line to {} is lost; the run goes on there, and is followed again when the line is back", host_->address());
      is_lost = true;
    } else {
      if (is_lost) info("the line to {} is back", host_->address());
      is_lost = false;
      say(now->log);
      seen += now->log.size();
      if (now->state == State::gone)
        data_error("remote", "the run on {} was killed, or the machine was restarted; the same command goes on from its last save",
                   host_->address());
      if (now->state != State::running && now->log.empty() && host_->fetch(run, to, {"*.partial-*", "state"})) return now->exit_code;
      if (now->state != State::running) continue;
    }
    for (auto slept = std::chrono::milliseconds(0); slept < every && !leaves(); slept += std::chrono::milliseconds(100))
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return std::nullopt;
}

}  // namespace burnish::remote
