#include "base/core_contention.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/number.h"

namespace burnish {

std::map<int64_t, CoreTime> core_times(const std::string& root) {
  std::map<int64_t, CoreTime> times;
  std::error_code gone;  // the folder of a thread that ends meanwhile, or all of them
  std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry(root + "/proc/self/task", gone); !gone && entry != end; entry.increment(gone)) {
    auto thread = parse_number<int64_t>(entry->path().filename().string());
    std::ifstream file(entry->path() / "schedstat");
    double ran = 0, queued = 0, turns = 0;  // the first two in nanoseconds
    if (thread && file >> ran >> queued >> turns) times[*thread] = {1e-9 * ran, 1e-9 * queued, turns};
  }
  return times;
}

double cores_taken(const std::map<int64_t, CoreTime>& before, const std::map<int64_t, CoreTime>& after, double seconds, double cores) {
  constexpr double kSecondsToWake = 5e-6;        // a thread is counted as queued so long when it wakes and a core is free
  if (seconds <= 0 || before.empty()) return 0;  // they could not be read
  double ran = 0, queued = 0;
  for (const auto& [thread, now] : after) {
    auto then = before.contains(thread) ? before.at(thread) : CoreTime{};
    ran += std::max(0.0, now.ran - then.ran);
    queued += std::max(0.0, now.queued - then.queued - kSecondsToWake * (now.turns - then.turns));
  }
  return std::clamp(cores - ran / seconds, 0.0, queued / seconds);
}

// Measured on two cores, of threads that spin while they wait: nobody beside them takes 0.02 to 0.05 cores, one busy process 0.6 to 0.9,
// three 1.2. Of threads that sleep: 0.01 to 0.12, 0.45 to 0.7, 0.75 to 1.3. What a system does beside its programs grows with its cores.
SleepDecision::SleepDecision(double cores) : much_(0.5 + 0.01 * cores), little_(0.6 * much_) {}

bool SleepDecision::sleeps_after(double cores_taken) {
  bool agrees = sleeps_ ? cores_taken <= little_ : cores_taken >= much_;
  num_agreeing_ = agrees ? num_agreeing_ + 1 : 0;
  ++lasted_;
  bool is_settled = num_agreeing_ >= (sleeps_ ? quiet_ : kBusy);
  if (!is_settled && !(sleeps_ && lasted_ >= trial_)) return sleeps_;
  if (sleeps_) was_quiet_ = is_settled;
  else if (lasted_ > kQuiet) quiet_ = kQuiet, trial_ = kTrial;
  else if (was_quiet_) quiet_ = std::min(2 * quiet_, kMostTimes * kQuiet);
  else trial_ = std::min(2 * trial_, kMostTimes * kTrial);
  sleeps_ = !sleeps_;
  num_agreeing_ = lasted_ = 0;
  return sleeps_;
}

}  // namespace burnish
