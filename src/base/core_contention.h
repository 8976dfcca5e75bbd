#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace burnish {

/// What the scheduler gave a thread since it began: how long it ran, how long it was ready to run and waited for a core, both in seconds,
/// and how often it got one.
struct CoreTime {
  double ran = 0, queued = 0, turns = 0;
};

/// The core time of each thread of this process, by the files that a system has below `root`: /proc/self/task/*/schedstat
/// (sched-stats(5)). Empty where a system has none.
std::map<int64_t, CoreTime> core_times(const std::string& root = "");

/// How many periods a cgroup with a quota has had, and in how many of them its time ran out.
struct QuotaPeriods {
  int64_t num = 0, throttled = 0;
};

/// The periods of each cgroup that binds this process, by folder, of the line pairs "nr_periods" and "nr_throttled" of cpu.stat. Groups
/// without a quota may be among them; they have no periods.
std::map<std::string, QuotaPeriods> quota_periods(const std::string& root = "");

/// What of a stretch of time this process did not get.
struct Contention {
  /// Cores that threads were ready to run on while others had them. Threads that queue behind each other count only as far as this process
  /// left cores over.
  double cores_taken = 0;
  double throttled = 0;  ///< share of a quota's periods in which the time ran out; the most of any group
};

/// What the system counts for this process at a moment.
struct CoreCounts {
  std::map<int64_t, CoreTime> threads;
  std::map<std::string, QuotaPeriods> quotas;
};
CoreCounts core_counts(const std::string& root = "");

/// What this process, which may run on `cores`, did not get between two moments that are `seconds` apart. A thread that is not among those
/// before has begun since.
Contention contention(const CoreCounts& before, const CoreCounts& after, double seconds, double cores);

/// Decides by what is seen every half a second whether threads had better sleep while they wait for each other.
class SleepDecision {
 public:
  explicit SleepDecision(double cores);

  /// Two stretches with much contention in a row put threads to sleep, ten seconds with little wake them. Where contention is back within
  /// ten seconds, it was sleep that kept it away (threads that sleep use less of a quota): then twice as much quiet is awaited, up to 160
  /// seconds.
  bool sleeps_after(const Contention& seen);

 private:
  static constexpr int kBusy = 2, kQuiet = 20, kMostQuiet = 16 * kQuiet;  // stretches in a row

  double many_, few_;  ///< cores taken
  bool sleeps_ = false;
  int num_agreeing_ = 0;  ///< stretches in a row that speak for a change
  int quiet_ = kQuiet;    ///< how many of them wake
  int awake_ = kQuiet;    ///< stretches since the last sleep
};

}  // namespace burnish
