#include "memory/gpu.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace burnish::memory {

std::optional<c10::Device> gpu() { return at::hasCUDA() ? std::optional(c10::Device(c10::kCUDA, 0)) : std::nullopt; }

int64_t most_gpu_bytes() {
  if (!gpu()) return 0;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
  if (allocator == nullptr || !allocator->initialized()) return 0;
  return allocator->getDeviceStats(0).allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

}  // namespace burnish::memory
