#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace burnish::memory {

/// The GPU that is taken where a run may choose; nothing where this build or machine has none.
std::optional<c10::Device> gpu();

/// The most bytes that tensors ever took of it; 0 where nothing was put there.
int64_t most_gpu_bytes();

}  // namespace burnish::memory
