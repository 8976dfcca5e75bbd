#pragma once
#include <cstdint>

namespace burnish {

/// Returns how many threads this process can keep busy: the processors that it may run on, or as many as the quota of its container gives
/// it.
int64_t usable_cores();

/// Starts the threads that loops are shared out among, and has libtorch compute with fewer where the system does not let this process have
/// so many (ulimit -u, ulimit -v): OpenMP's library would end the program where a loop comes to need them.
void start_threads();

/// Has libtorch compute with `wanted` threads, and starts them; 0 takes usable_cores(), shared out among `processes` of ours that run on
/// the machine. Where there are several, how they wait for each other follows from what else the machine does (base/core_watch.h).
void set_threads(int64_t wanted, int64_t processes);

}  // namespace burnish
