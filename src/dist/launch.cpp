#include "dist/launch.h"

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "dist/seat.h"
#include "dist/watch.h"

namespace burnish::dist {

namespace {

using Clock = std::chrono::steady_clock;

/// A process that runs ends 4 seconds after it can know (dist/watch.h): one that is still there is stopped, or waits for a disk.
constexpr auto kPatience = std::chrono::seconds(6);

volatile std::sig_atomic_t g_signal = 0;
void on_signal(int number) { g_signal = number; }

void pass_signals_on() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

std::vector<std::string> environment_of(int64_t rank, int64_t count, int64_t port) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  auto add = [&](const char* name, const std::string& value) { variables.push_back(fmt::format("{}={}", name, value)); };
  std::erase_if(variables, [](const std::string& variable) {
    for (const char* name : {"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=", "TORCHELASTIC_"}) {
      if (variable.starts_with(name)) return true;
    }
    return false;
  });
  add("RANK", std::to_string(rank));
  add("LOCAL_RANK", std::to_string(rank));
  add("WORLD_SIZE", std::to_string(count));
  add("LOCAL_WORLD_SIZE", std::to_string(count));
  add("MASTER_ADDR", "127.0.0.1");
  add("MASTER_PORT", std::to_string(port));
  add("TORCHELASTIC_USE_AGENT_STORE", "True");
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// In a group of its own, so that Ctrl-C reaches it through the launcher alone.
pid_t start(std::vector<std::string> command, std::vector<std::string> environment) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  auto error =
      posix_spawnp(&pid, command.front().c_str(), nullptr, &attributes, pointers_to(command).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) config_error("dist", "{} cannot be started: {}", command.front(), std::strerror(error));
  return pid;
}

struct Child {
  pid_t pid = 0;
  bool runs = true;
};

void send(const std::vector<Child>& children, int number) {
  for (const auto& child : children) {
    if (child.runs) kill(child.pid, number);
  }
}

/// What became of the processes.
class Children {
 public:
  Children(std::vector<Child> children, Store& store, std::string& said) : children_(std::move(children)), store_(store), said_(said) {}

  int wait() {
    while (std::ranges::any_of(children_, [](const Child& child) { return child.runs; })) {
      if (int number = g_signal; number != 0) {
        g_signal = 0;
        send(children_, number);
      }
      for (size_t rank = 0; rank < children_.size(); ++rank) look_at(rank);
      if (code_ != 0 && Clock::now() > deadline_) send(children_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return code_;
  }

 private:
  void look_at(size_t rank) {
    int status = 0;
    auto& child = children_[rank];
    if (!child.runs || waitpid(child.pid, &status, WNOHANG) != child.pid) return;
    child.runs = false;
    auto code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code == 0 || code_ != 0) return;
    code_ = code;
    deadline_ = Clock::now() + kPatience;
    if (WIFSIGNALED(status))
      tell(fmt::format("process {} of {} was ended by signal {} ({})", rank, children_.size(), WTERMSIG(status),
                       strsignal(WTERMSIG(status))));
    else tell(fmt::format("process {} of {} ended with exit status {}", rank, children_.size(), code), /*said_itself=*/true);
  }

  /// The others end by themselves when they learn of it.
  void tell(const std::string& sentence, bool said_itself = false) {
    if (!said_itself && is_told_first(store_)) said_ = sentence;
    if (!store_.has(kFailed)) store_.set(kFailed, sentence);
  }

  std::vector<Child> children_;
  Store& store_;
  std::string& said_;
  int code_ = 0;
  Clock::time_point deadline_;
};

}  // namespace

int launch(int64_t count, const std::vector<std::string>& command, std::string& said) {
  auto store = with_prefix(serve_store("127.0.0.1", 0), kFirstAttempt);
  pass_signals_on();
  std::vector<Child> children;
  for (int64_t rank = 0; rank < count; ++rank) children.push_back({start(command, environment_of(rank, count, store->port()))});
  return Children(std::move(children), *store, said).wait();
}

}  // namespace burnish::dist
