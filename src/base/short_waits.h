#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace burnish {

/// Counts how many threads more, up to `wanted`, the system lets this process have at once. Some libraries end the program when they get
/// none, so whoever calls them asks first.
int64_t startable_threads(int64_t wanted);

/// While an object of this class lives, threads of parallel loops that wait for each other sleep at once instead of spinning for
/// milliseconds first. How many threads share a loop stays as it is, and so do results.
///
/// libgomp spins 300,000 times before a thread sleeps, but 100 times while it manages more threads than there are cores. So a thread opens
/// one parallel region of one thread more than there are cores and sleeps until this ends; the region's threads sleep as well, and end with
/// it. Other OpenMP runtimes wait as before.
class ShortWaits {
 public:
  /// Has no effect where the system has no room for so many threads.
  ShortWaits();
  ~ShortWaits();
  ShortWaits(const ShortWaits&) = delete;
  ShortWaits& operator=(const ShortWaits&) = delete;

  bool has_effect() const { return is_open_; }

 private:
  void hold(int num_threads);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ready_ = false, is_open_ = false, ends_ = false;
  std::thread thread_;
};

}  // namespace burnish
