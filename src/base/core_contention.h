#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace burnish {

/// The time that the scheduler gave a thread since it began: how long it ran, how long it was ready to run and waited for a core, both in
/// seconds, and how often it got one.
struct CoreTime {
  double ran = 0, queued = 0, turns = 0;
};

/// Reads the core time of each thread of this process from the files that a system has below `root`: /proc/self/task/*/schedstat
/// (sched-stats(5)). Empty where a system has none.
std::map<int64_t, CoreTime> core_times(const std::string& root = "");

/// Computes how many of the `cores` that this process may take others had while its threads were ready to run on them, between two moments
/// that are `seconds` apart. Threads that queue behind each other, or because a quota ran out, count only as far as this process left cores
/// over. A thread that is not in `before` has begun since.
double cores_taken(const std::map<int64_t, CoreTime>& before, const std::map<int64_t, CoreTime>& after, double seconds, double cores);

/// Decides from how many cores others took, every half a second, whether threads had better sleep while they wait for each other.
class SleepDecision {
 public:
  explicit SleepDecision(double cores);

  /// Two stretches in which others took many cores put threads to sleep, ten seconds in which they took few wake them. After a minute of
  /// sleep a trial wakes them anyhow: neighbours of low priority take many cores of threads that sleep, few of threads that spin. Where
  /// others take many again within ten seconds, the quiet or trial that woke threads is awaited twice as long, up to sixteen times.
  bool sleeps_after(double cores_taken);

 private:
  static constexpr int kBusy = 2, kQuiet = 20, kTrial = 120, kMostTimes = 16;  // stretches in a row

  double much_, little_;  ///< cores taken
  bool sleeps_ = false, was_quiet_ = true;
  int num_agreeing_ = 0;  ///< stretches in a row that speak for a change
  int lasted_ = kQuiet;   ///< stretches since the last change
  int quiet_ = kQuiet, trial_ = kTrial;
};

}  // namespace burnish
