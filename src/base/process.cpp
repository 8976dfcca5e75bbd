#include "base/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"

namespace burnish {

namespace {

constexpr size_t kMostOfEnding = 400;  // bytes of what a command said that are repeated

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Holds what posix_spawn does in the child before the program runs.
class Preparation {
 public:
  Preparation() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~Preparation() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

pid_t spawn(const Command& command, Preparation& preparation) {
  auto words = command.words;
  auto variables = command.variables ? *command.variables : own_variables();
  sigset_t none;  // whatever this process holds back, the child hears
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&preparation.attributes, &none);
  posix_spawnattr_setflags(&preparation.attributes,
                           static_cast<short>(POSIX_SPAWN_SETSIGMASK | (command.outlives ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP)));
  if (!command.folder.empty()) posix_spawn_file_actions_addchdir_np(&preparation.actions, command.folder.c_str());
  if (!command.output.empty()) {
    posix_spawn_file_actions_addopen(&preparation.actions, STDOUT_FILENO, command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    posix_spawn_file_actions_adddup2(&preparation.actions, STDOUT_FILENO, STDERR_FILENO);
  }
  if (!command.output.empty() || command.outlives)
    posix_spawn_file_actions_addopen(&preparation.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t pid = 0;
  auto error = posix_spawnp(&pid, words.front().c_str(), &preparation.actions, &preparation.attributes, pointers_to(words).data(),
                            pointers_to(variables).data());
  if (error != 0) config_error("base", "{} cannot be started: {}", words.front(), std::strerror(error));
  return pid;
}

Ended ended_of(int status) {
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

/// A pipe whose reading end is here.
struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) config_error("base", "no pipe can be made: {}", std::strerror(errno));
  }
  ~Pipe() {
    for (int end : ends) {
      if (end >= 0) close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(size_t end) { close(std::exchange(ends[end], -1)); }
};

}  // namespace

std::vector<std::string> own_variables() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

pid_t start_process(const Command& command) {
  Preparation preparation;
  return spawn(command, preparation);
}

Ended wait_for_process(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return ended_of(status);
}

std::optional<Ended> ended_process(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  return ended_of(status);
}

namespace {

/// A process whose output is read, and whose input comes from here or from nowhere.
class HeardProcess {
 public:
  HeardProcess(const Command& command, bool is_told) {
    Preparation preparation;
    if (is_told) posix_spawn_file_actions_adddup2(&preparation.actions, input_.ends[0], STDIN_FILENO);
    else
      posix_spawn_file_actions_addopen(&preparation.actions, STDIN_FILENO, command.input.empty() ? "/dev/null" : command.input.c_str(),
                                       O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&preparation.actions, output_.ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&preparation.actions, errors_.ends[1], STDERR_FILENO);
    pid_ = spawn(command, preparation);
    input_.close_end(0);
    output_.close_end(1);
    errors_.close_end(1);
  }
  /// Returns whether all of it was taken.
  bool tell(const std::string& line) {
    const auto count = write(input_.ends[1], line.data(), line.size());
    input_.close_end(1);
    return count == static_cast<ssize_t>(line.size());
  }
  void end() const { kill(-pid_, SIGKILL); }
  Ended wait() const { return wait_for_process(pid_); }
  Said hear(std::chrono::milliseconds most_time, size_t most_bytes);

 private:
  Pipe input_, output_, errors_;
  pid_t pid_ = 0;
};

Said HeardProcess::hear(std::chrono::milliseconds most_time, size_t most_bytes) {
  Said said;
  const auto deadline = std::chrono::steady_clock::now() + most_time;
  std::array<std::pair<Pipe*, std::string*>, 2> streams{{{&output_, &said.output}, {&errors_, &said.errors}}};
  while (output_.ends[0] >= 0 || errors_.ends[0] >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0 || said.output.size() + said.errors.size() > most_bytes) {
      said.is_whole = false;
      end();
      break;
    }
    std::array<pollfd, 2> polled{{{output_.ends[0], POLLIN, 0}, {errors_.ends[0], POLLIN, 0}}};
    poll(polled.data(), polled.size(), static_cast<int>(left));
    for (size_t i = 0; i < streams.size(); ++i) {
      if (polled[i].revents == 0) continue;
      std::array<char, 65536> buffer{};
      auto count = read(polled[i].fd, buffer.data(), buffer.size());
      if (count > 0) streams[i].second->append(buffer.data(), static_cast<size_t>(count));
      else if (count == 0 || errno != EINTR) streams[i].first->close_end(0);
    }
  }
  said.exit_code = wait().exit_code;
  return said;
}

}  // namespace

std::string end_of(std::string_view said) {
  said = trim(said);
  auto first = said.size() - std::min(said.size(), kMostOfEnding);
  while (first < said.size() && (said[first] & 0xc0) == 0x80) ++first;  // inside of a character of UTF-8
  return one_line(std::string(said.substr(first)));
}

std::string ending(std::string_view name, int exit_code, std::string_view said) {
  const auto last = end_of(said);
  return fmt::format("{} ended with exit code {}{}", name, exit_code, last.empty() ? "" : ", and said at last: " + last);
}

Said run_process(const Command& command, std::chrono::milliseconds most_time, size_t most_bytes) {
  return HeardProcess(command, /*is_told=*/false).hear(most_time, most_bytes);
}

class Standby::Heard : public HeardProcess {
 public:
  using HeardProcess::HeardProcess;
};

Standby::Standby(const Command& command) : heard_(std::make_unique<Heard>(command, /*is_told=*/true)) {}

Standby::~Standby() {
  if (!heard_) return;
  heard_->end();
  heard_->wait();
}

std::optional<Said> Standby::go_on(const std::string& line, std::chrono::milliseconds most_time, size_t most_bytes) {
  const auto heard = std::move(heard_);
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // of one that has ended
  const bool is_told = heard->tell(line + "\n");
  std::signal(SIGPIPE, before);
  if (is_told) return heard->hear(most_time, most_bytes);
  heard->end();
  heard->wait();
  return std::nullopt;
}

}  // namespace burnish
