#include "memory/host.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/cgroup.h"

namespace burnish::memory {

namespace {

/// The number in a file's first line; nothing for "max", or where it is not there.
std::optional<int64_t> first_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// A limit of the first kind of cgroups that stands for none is a number as large as a page count can be.
constexpr int64_t kNoLimit = int64_t{1} << 60;

/// Keeps the lesser, where the file has a limit.
void take_limit(std::optional<int64_t>& limit, const std::string& path) {
  auto number = first_number(path);
  if (number && *number > 0 && *number < kNoLimit) limit = std::min(limit.value_or(*number), *number);
}

}  // namespace

std::optional<int64_t> limit_of_group(const std::string& root) {
  std::optional<int64_t> limit;
  auto groups = cgroups_of("memory", root);
  for (const auto& folder : groups.unified) take_limit(limit, folder + "/memory.max");
  for (const auto& folder : groups.first_kind) take_limit(limit, folder + "/memory.limit_in_bytes");
  return limit;
}

HostMemory host_memory() {
  HostMemory memory{.group = limit_of_group()};
  std::ifstream file("/proc/meminfo");
  int64_t kibibytes = 0;
  for (std::string name, rest; file >> name >> kibibytes; std::getline(file, rest)) {
    if (name == "MemTotal:") memory.total = kibibytes * 1024;
    if (name == "MemAvailable:") memory.available = kibibytes * 1024;
    if (name == "SwapTotal:") memory.swap = kibibytes * 1024;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) memory.address_space = static_cast<int64_t>(limit.rlim_cur);
  return memory;
}

OwnMemory own_memory() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  int64_t page = sysconf(_SC_PAGE_SIZE);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return {.resident = resident * page, .address_space = size * page, .most_resident = used.ru_maxrss * 1024};
}

int64_t size_of_host() {
  auto memory = host_memory();
  auto size = memory.total;
  if (memory.group) size = std::min(size, *memory.group);
  if (!memory.address_space) return size;
  auto own = own_memory();
  return std::min(size, std::max<int64_t>(0, *memory.address_space - (own.address_space - own.resident)));
}

}  // namespace burnish::memory
