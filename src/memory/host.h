#pragma once
#include <cstdint>
#include <optional>

namespace burnish::memory {

/// What this machine has of main memory, and what is set as a limit to it, in bytes; 0 or nothing where the system does not say.
struct HostMemory {
  int64_t total = 0, available = 0, swap = 0;
  std::optional<int64_t> group = {};          ///< the least of what its cgroup and those above it may take
  std::optional<int64_t> address_space = {};  ///< `ulimit -v`
};
HostMemory host_memory();

/// What this process takes now. Address space holds also what is mapped and never touched: libraries, files, the stacks of threads.
struct OwnMemory {
  int64_t resident = 0, address_space = 0;
  int64_t most_resident = 0;  ///< that it ever took
};
OwnMemory own_memory();

/// What this process may take in all, resident: the least of the machine's memory, its group's limit, and what is left of its address
/// space beside what is only mapped.
int64_t size_of_host();

}  // namespace burnish::memory
