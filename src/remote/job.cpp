#include "remote/job.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "base/input_error.h"
#include "base/log.h"
#include "base/shell_word.h"

namespace burnish::remote {

namespace {

constexpr size_t kMostOfALog = 1 << 20;  // bytes that are read of it at once

/// A function of the shell: whether the process of the file `process`, number $p, is there. Numbers are used again; one with the time at
/// which it began, in ticks since that start of the machine (proc(5)), is not.
constexpr const char* kIsAlive =
    "is_alive() { read -r p began boot <process 2>/dev/null && [ \"$boot\" = \"$(cat /proc/sys/kernel/random/boot_id)\" ] && "
    "[ \"$(cut -d ' ' -f 22 /proc/$p/stat 2>/dev/null)\" = \"$began\" ]; }\n";

}  // namespace

std::optional<Job::Standing> Job::standing(size_t seen) const {
  const auto said =
      host_->try_run(fmt::format("cd {} 2>/dev/null || {{ echo none; exit; }}\n{}"
                                 "if [ -s ended ]; then echo ended $(cat ended)\n"
                                 "elif [ ! -s process ]; then echo none\n"
                                 "elif is_alive; then echo running\n"
                                 "else echo gone; fi\n"
                                 "tail -c +{} log 2>/dev/null | head -c {}",
                                 shell_word(folder_), kIsAlive, seen + 1, kMostOfALog));
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
  const auto waiting = fmt::format(
      "{} train --config settings.toml --output_path run --auto_resume & p=$!\n"
      "echo \"$p $(cut -d ' ' -f 22 /proc/$p/stat) $(cat /proc/sys/kernel/random/boot_id)\" >process; wait $p; echo $? >ended",
      shell_word(program_));
  const auto said =
      host_->run(fmt::format("cd {} || exit 1\n{}"
                             "exec 9>lock; flock 9\n"  // of two that start it one does
                             "[ ! -s ended ] && is_alive && exit 0\n"
                             "if [ \"$(cat ended 2>/dev/null)\" = 0 ] && cmp -s settings.toml settings.new.toml; then exit 0; fi\n"
                             "mv settings.new.toml settings.toml && rm -f ended process && : >log && mkdir -p run || exit 1\n"
                             "setsid sh -c {} >>log 2>&1 </dev/null 9>&- &\n"
                             "for i in 1 2 3 4 5 6 7 8 9 10; do [ -s process ] && exit 0; sleep 0.5; done\n"
                             "echo 'its process does not begin' >&2; exit 1",
                             shell_word(folder_), kIsAlive, shell_word(waiting)));
  if (said.exit_code != 0) data_error("remote", "the run cannot be started on {}: {}", host_->address(), said.errors);
}

bool Job::stop() const {
  return host_->run(fmt::format("cd {} || exit 1\n{}[ ! -s ended ] && is_alive && kill -TERM $p", shell_word(folder_), kIsAlive))
             .exit_code == 0;
}

std::optional<int> Job::follow(const std::filesystem::path& to, std::chrono::milliseconds every,
                               const std::function<void(const std::string&)>& say, const std::function<bool()>& leaves) const {
  const std::string run = folder_ + "/run";
  size_t seen = 0;
  bool is_lost = false;
  while (!leaves()) {
    const auto now = standing(seen);
    const bool has_come = now && host_->fetch(run, to, {"*.safetensors", "*.partial-*", "state"});
    if (!has_come && !is_lost)
      warn("the line to {} is lost; the run goes on there, and is followed again when the line is back", host_->address());
    if (has_come && is_lost) info("the line to {} is back", host_->address());
    is_lost = !has_come;
    if (has_come) {
      say(now->log);
      seen += now->log.size();
      if (now->state == State::gone || now->state == State::none)
        data_error("remote", "the run on {} was killed, or the machine was restarted; the same command goes on from its last save",
                   host_->address());
      if (now->state == State::ended && now->log.empty() && host_->fetch(run, to, {"*.partial-*", "state"})) return now->exit_code;
    }
    for (auto slept = std::chrono::milliseconds(0); slept < every && !leaves(); slept += std::chrono::milliseconds(100))
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return std::nullopt;
}

}  // namespace burnish::remote
