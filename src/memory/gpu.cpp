#include "memory/gpu.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "memory/host.h"

namespace burnish::memory {

std::optional<c10::Device> gpu() { return at::hasCUDA() ? std::optional(c10::Device(c10::kCUDA, 0)) : std::nullopt; }

std::optional<int64_t> room_on(c10::Device device) {
  if (device.is_cpu()) return size_of_host();
  if (!gpu()) return std::nullopt;
  const auto [free, all] = at::accelerator::getMemoryInfo(device.index());
  return static_cast<int64_t>(free);
}

int64_t most_gpu_bytes() {
  if (!gpu()) return 0;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
  if (allocator == nullptr || !allocator->initialized()) return 0;
  return allocator->getDeviceStats(0).allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

}  // namespace burnish::memory
