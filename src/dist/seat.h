#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace burnish::dist {

/// The name of a start that is none of several.
inline constexpr const char* kFirstAttempt = "run/0";

/// Says where this process stands among those that were started together, and where they meet.
struct Seat {
  int64_t rank = 0, size = 1;              ///< among all
  int64_t local_rank = 0, local_size = 1;  ///< among those on this machine
  std::string launcher;                    ///< that started them, in words; "" for a process alone
  std::string host;                        ///< of the store where they meet
  int64_t port = 0;
  bool launcher_serves = false;         ///< the store is the launcher's; otherwise that of rank 0
  std::string attempt = kFirstAttempt;  ///< tells this start from those before it, which the launcher's store may outlive
};

/// A variable of the environment; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> of_process(const std::string& name);

/// The seat by what launchers set: torchrun and `burnish launch` (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), Kubernetes'
/// PyTorchJob (the same without LOCAL_RANK), SLURM (SLURM_PROCID, ... of a step), Open MPI (OMPI_COMM_WORLD_*), MPICH and Intel MPI
/// (PMI_*, MPI_LOCAL*). The first that is there counts. A config Error for numbers that contradict each other, and where nothing says
/// where the processes meet.
Seat find_seat(const Environment& environment);

/// The first machine of a list as SLURM writes it: "a[001-3,7],b" is a001.
std::string first_host(const std::string& nodes);

}  // namespace burnish::dist
