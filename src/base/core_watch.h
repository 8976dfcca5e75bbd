#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace burnish {

/// A thread that looks now and then whether others have the cores of this process, and as long as they have them makes threads sleep while
/// they wait for each other (`SleepDecision`, `ShortWaits`). The first time it says so. Where a system does not count what threads wait
/// for, by the files below `root`, nothing is watched.
class CoreWatch {
 public:
  /// Watches for a process that may take `cores`, a part of one too. `SleepDecision` is made for looks that are half a second apart.
  explicit CoreWatch(double cores, std::string root = "", std::chrono::milliseconds apart = std::chrono::milliseconds(500));
  ~CoreWatch();
  CoreWatch(const CoreWatch&) = delete;
  CoreWatch& operator=(const CoreWatch&) = delete;

  /// Tells whether waiting threads sleep now.
  bool sleeps() const { return sleeps_; }

 private:
  void look();

  const double cores_;
  const std::string root_;
  const std::chrono::milliseconds apart_;
  std::atomic<bool> sleeps_ = false;
  bool ends_ = false;
  std::mutex mutex_;
  std::condition_variable end_;
  std::thread thread_;
};

/// Watches the cores of this process from the first call until it ends, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT say how threads wait.
void watch_cores(double cores);

}  // namespace burnish
