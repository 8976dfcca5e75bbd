#include "base/core_watch.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include "base/core_contention.h"
#include "base/log.h"
#include "base/short_waits.h"

namespace burnish {

namespace {

using Clock = std::chrono::steady_clock;

/// The watch of this process, which ends with it. A process that was forked has none: the thread stayed with its parent, and what that
/// waits for cannot be taken down.
struct OfThisProcess {
  CoreWatch* watch;
  pid_t process = getpid();
  ~OfThisProcess() {
    if (getpid() == process) delete watch;
  }
};

}  // namespace

CoreWatch::CoreWatch(double cores, std::string root, std::chrono::milliseconds apart)
    : cores_(cores), root_(std::move(root)), apart_(apart), thread_([this] {
        try {
          look();
        } catch (const std::exception&) {  // no memory for looking: threads wait on as they did before
        }
      }) {}

CoreWatch::~CoreWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  end_.notify_all();
  thread_.join();
}

void CoreWatch::look() {
  SleepDecision decision(cores_);
  std::optional<ShortWaits> short_waits;
  bool was_said = false;
  auto then = Clock::now();
  auto before = core_times(root_);
  if (before.empty()) return;
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, apart_, [this] { return ends_; })) {
    auto now = Clock::now();
    auto after = core_times(root_);
    bool sleeps = decision.sleeps_after(cores_taken(before, after, std::chrono::duration<double>(now - then).count(), cores_));
    then = now;
    before = std::move(after);
    if (sleeps == sleeps_) continue;
    if (sleeps) short_waits.emplace();
    else short_waits.reset();
    if (sleeps && !was_said && short_waits->has_effect())
      info("other programs use cores of this machine: threads wait asleep while they do");
    was_said = was_said || sleeps;
    sleeps_ = sleeps;
  }
}

void watch_cores(double cores) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  try {
    static const OfThisProcess watched{new CoreWatch(cores)};
  } catch (const std::system_error&) {  // no room for a thread more
  }
}

}  // namespace burnish
