#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "studio/gpus.h"
#include "studio/program.h"
#include "studio/queue.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// What processors have done since the machine started, in ticks.
struct Ticks {
  int64_t busy = 0, all = 0;
};
/// Reads the ticks in the text of /proc/stat; nothing where it does not say.
std::optional<Ticks> ticks_in(const std::string& text);
/// A number of KiB in lines of /proc as "MemTotal:  1024 kB", in bytes; 0 where there is none.
int64_t bytes_in(const std::string& text, const std::string& name);

/// What the machine is at, and was at over the last minutes: looked at every other second while somebody asks or a job runs, and for as
/// long as a history is after that, so that a studio which nobody looks at does nothing.
class Machine {
 public:
  static constexpr auto kBetween = std::chrono::seconds(2);
  static constexpr auto kHistory = std::chrono::minutes(5);

  /// All must outlive it. `root`: of /proc, for tests.
  Machine(const Workspace& workspace, const Queue& queue, Program& program, std::string root = "");
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Returns the state in the form of docs/studio-api.md.
  nlohmann::json state();
  /// What `burnish doctor --json` says, asked once in five minutes: it takes some seconds.
  nlohmann::json notes();

 private:
  using Clock = std::chrono::steady_clock;
  /// A look at the machine.
  struct Look {
    Clock::time_point at = {};
    double time = 0;  ///< seconds since 1970
    std::optional<double> busy = {};
    int64_t used_bytes = 0, total_bytes = 0;
    std::vector<Gpu> gpus = {};
  };
  void work();
  void look();
  nlohmann::json jobs(const std::vector<Gpu>& gpus) const;

  const Workspace& workspace_;
  const Queue& queue_;
  Program& program_;
  std::string root_;
  std::mutex mutex_;
  /// Holds what is known so far.
  struct Seen {
    std::deque<Look> looks;
    std::optional<Ticks> ticks;
    Clock::time_point asked = Clock::now() - 2 * kHistory;
    std::unique_ptr<Gpus> gpus;  ///< null before the first look
  } known_;
  /// Holds what doctor said, and when.
  struct Notes {
    std::mutex mutex;
    std::string text;
    Clock::time_point at;
  } notes_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread worker_;
};

}  // namespace burnish::studio
