#include "dist/launch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/process.h"
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

/// Makes the command of one process of several.
Command command_of(const std::vector<std::string>& words, int64_t rank, int64_t count, int64_t port) {
  auto variables = own_variables();
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
  return {.words = words, .variables = std::move(variables)};
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

/// Holds what became of the processes.
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
    auto& child = children_[rank];
    if (!child.runs) return;
    const auto ended = ended_process(child.pid);
    if (!ended) return;
    child.runs = false;
    if (ended->exit_code == 0 || code_ != 0) return;
    code_ = ended->exit_code;
    deadline_ = Clock::now() + kPatience;
    if (ended->signal != 0)
      tell(fmt::format("process {} of {} was ended by signal {} ({})", rank, children_.size(), ended->signal, strsignal(ended->signal)));
    else tell(fmt::format("process {} of {} ended with exit status {}", rank, children_.size(), code_), /*said_itself=*/true);
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
  for (int64_t rank = 0; rank < count; ++rank) children.push_back({start_process(command_of(command, rank, count, store->port()))});
  return Children(std::move(children), *store, said).wait();
}

}  // namespace burnish::dist
