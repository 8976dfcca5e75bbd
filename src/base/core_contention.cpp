#include "base/core_contention.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/cgroup.h"

namespace burnish {

namespace {

/// The number that a file's name is, or none.
std::optional<int64_t> number_of(const std::string& name) {
  bool is_number = !name.empty() && name.size() < 18 && name.find_first_not_of("0123456789") == name.npos;
  return is_number ? std::optional<int64_t>(std::stoll(name)) : std::nullopt;
}

std::optional<QuotaPeriods> periods_in(const std::string& path) {
  std::ifstream file(path);
  std::optional<int64_t> num, throttled;
  std::string name;
  for (int64_t value = 0; file >> name >> value;) {
    if (name == "nr_periods") num = value;
    if (name == "nr_throttled") throttled = value;
  }
  if (!num || !throttled) return std::nullopt;
  return QuotaPeriods{*num, *throttled};
}

/// The share of periods in which the time of a group ran out, of those since `before`.
double throttled_since(const QuotaPeriods& before, const QuotaPeriods& after) {
  auto num = after.num - before.num, throttled = after.throttled - before.throttled;
  return num > 0 && throttled > 0 ? std::min(1.0, static_cast<double>(throttled) / static_cast<double>(num)) : 0;
}

}  // namespace

std::map<int64_t, CoreTime> core_times(const std::string& root) {
  std::map<int64_t, CoreTime> times;
  std::error_code gone;  // the folder of a thread that ends meanwhile, or all of them
  std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry(root + "/proc/self/task", gone); !gone && entry != end; entry.increment(gone)) {
    auto thread = number_of(entry->path().filename().string());
    std::ifstream file(entry->path() / "schedstat");
    double ran = 0, queued = 0, turns = 0;  // the first two in nanoseconds
    if (thread && file >> ran >> queued >> turns) times[*thread] = {1e-9 * ran, 1e-9 * queued, turns};
  }
  return times;
}

std::map<std::string, QuotaPeriods> quota_periods(const std::string& root) {
  std::map<std::string, QuotaPeriods> all;
  auto groups = cgroups_of("cpu", root);
  for (const auto* folders : {&groups.unified, &groups.first_kind})
    for (const auto& folder : *folders)
      if (auto periods = periods_in(folder + "/cpu.stat")) all[folder] = *periods;
  return all;
}

CoreCounts core_counts(const std::string& root) { return {core_times(root), quota_periods(root)}; }

Contention contention(const CoreCounts& before, const CoreCounts& after, double seconds, double cores) {
  constexpr double kSecondsToWake = 5e-6;  // a thread is counted as queued so long when it wakes and a core is free
  Contention seen;
  if (seconds <= 0) return seen;
  double ran = 0, queued = 0;
  for (const auto& [thread, now] : after.threads) {
    if (before.threads.empty()) break;  // they could not be read
    auto then = before.threads.contains(thread) ? before.threads.at(thread) : CoreTime{};
    ran += std::max(0.0, now.ran - then.ran);
    queued += std::max(0.0, now.queued - then.queued - kSecondsToWake * (now.turns - then.turns));
  }
  seen.cores_taken = std::clamp(cores - ran / seconds, 0.0, queued / seconds);
  for (const auto& [group, periods] : after.quotas)
    if (before.quotas.contains(group)) seen.throttled = std::max(seen.throttled, throttled_since(before.quotas.at(group), periods));
  return seen;
}

// Measured on two cores, of threads that spin while they wait: nobody beside them takes 0.02 to 0.05 cores, one busy process 0.6 to 0.9,
// three 1.2. Of threads that sleep: 0.01 to 0.12, 0.45 to 0.7, 0.75 to 1.3. What a system does beside its programs grows with its cores.
SleepDecision::SleepDecision(double cores) : many_(0.5 + 0.01 * cores), few_(0.6 * many_) {}

bool SleepDecision::sleeps_after(const Contention& seen) {
  constexpr double kThrottled = 0.2;
  bool is_much = seen.cores_taken >= many_ || seen.throttled >= kThrottled;
  bool is_little = seen.cores_taken <= few_ && seen.throttled == 0;
  num_agreeing_ = (sleeps_ ? is_little : is_much) ? num_agreeing_ + 1 : 0;
  if (!sleeps_) ++awake_;
  if (num_agreeing_ < (sleeps_ ? quiet_ : kBusy)) return sleeps_;
  if (!sleeps_) quiet_ = awake_ <= kQuiet ? std::min(2 * quiet_, kMostQuiet) : kQuiet;
  sleeps_ = !sleeps_;
  num_agreeing_ = awake_ = 0;
  return sleeps_;
}

}  // namespace burnish
