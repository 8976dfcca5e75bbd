#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace burnish::memory {

/// The main memory of this machine, and what is set as a limit to it, in bytes; 0 or nothing where the system does not say.
struct HostMemory {
  int64_t total = 0, available = 0, swap = 0;
  std::optional<int64_t> group = {};          ///< the least of what its cgroup and those above it may take
  std::optional<int64_t> address_space = {};  ///< `ulimit -v`
};
HostMemory host_memory();

/// The least of what this process' cgroups may take, in bytes, by the files that a system has below `root` (base/cgroup.h); nothing where
/// none says.
std::optional<int64_t> limit_of_group(const std::string& root = "");

/// The memory that this process takes now. Its address space counts also what is mapped and never touched: libraries, stacks.
struct OwnMemory {
  int64_t resident = 0, address_space = 0;
  int64_t most_resident = 0;  ///< the most that was ever resident
};
OwnMemory own_memory();

/// Returns what this process may take in all, resident: the least of the machine's memory, its group's limit, and what is left of its
/// address space beside what is only mapped.
int64_t size_of_host();

}  // namespace burnish::memory
