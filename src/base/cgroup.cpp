#include "base/cgroup.h"

#include <algorithm>
#include <fstream>

namespace burnish {

namespace {

/// A folder and each below it, as far as `path` says.
std::vector<std::string> folders_along(const std::string& root, const std::string& path) {
  std::vector<std::string> folders{root};
  for (size_t begin = 1; begin < path.size();) {
    auto end = std::min(path.find('/', begin), path.size());
    folders.push_back(folders.back() + "/" + path.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

/// Tells whether a controller is one of a comma list.
bool is_among(const std::string& controller, const std::string& list) {
  return ("," + list + ",").find("," + controller + ",") != list.npos;
}

/// Keeps the lesser; "max" and -1 are no quota.
void take_quota(std::optional<double>& least, double quota, double period) {
  if (quota > 0 && period > 0) least = std::min(least.value_or(quota / period), quota / period);
}

/// The first number in a file, or 0.
double number_in(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  return file >> number ? number : 0;
}

}  // namespace

Cgroups cgroups_of(const std::string& controller, const std::string& root) {
  Cgroups groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    auto controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) groups.unified = folders_along(root + "/sys/fs/cgroup", path);
    else if (is_among(controller, controllers)) groups.first_kind = folders_along(root + "/sys/fs/cgroup/" + controller, path);
  }
  return groups;
}

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> least;
  auto groups = cgroups_of("cpu", root);
  for (const auto& folder : groups.unified) {
    std::ifstream file(folder + "/cpu.max");
    double quota = 0, period = 0;
    if (file >> quota >> period) take_quota(least, quota, period);
  }
  for (const auto& folder : groups.first_kind)
    take_quota(least, number_in(folder + "/cpu.cfs_quota_us"), number_in(folder + "/cpu.cfs_period_us"));
  return least;
}

}  // namespace burnish
