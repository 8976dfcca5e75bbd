#pragma once
#include <cstdint>

namespace burnish {

/// Has libtorch compute with `wanted` threads; 0 takes those that the machine has, shared out among `processes` of ours that run on it.
void set_threads(int64_t wanted, int64_t processes);

}  // namespace burnish
