#pragma once
#include <optional>
#include <string>
#include <vector>

namespace burnish {

/// The folders of the cgroups that bind this process for a controller ("cpu", "memory"), from the root of each hierarchy down to its own,
/// by the files that a system has below `root`. /proc/self/cgroup names the group in the unified hierarchy as "0::/path", and in one of the
/// first kind as "7:memory:/path" (cgroups(7)). In a container the path may not be there: the root of the hierarchy is then its own.
struct Cgroups {
  std::vector<std::string> unified, first_kind;
};
Cgroups cgroups_of(const std::string& controller, const std::string& root = "");

/// How many processors' time this process may take at most, by the least quota of its cgroups: cpu.max, or cpu.cfs_quota_us over
/// cpu.cfs_period_us. Nothing where there is no quota.
std::optional<double> cpu_quota(const std::string& root = "");

}  // namespace burnish
