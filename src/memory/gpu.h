#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace burnish::memory {

/// The GPU that is taken where a run may choose; nothing where this build or machine has none.
std::optional<c10::Device> gpu();

/// Returns the bytes that a device has: of a GPU those that are free now, nothing where it is not in this machine; of a CPU those that this
/// process may take (memory/host.h).
std::optional<int64_t> room_on(c10::Device device);

/// Tells whether a device is a GPU in this machine that computes in the host's memory and has none of its own.
bool is_unified(c10::Device device);

/// The most bytes that tensors ever took of it; 0 where nothing was put there.
int64_t most_gpu_bytes();

}  // namespace burnish::memory
