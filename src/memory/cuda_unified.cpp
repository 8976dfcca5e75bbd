#include <ATen/cuda/CUDAContext.h>

#include "memory/gpu.h"

namespace burnish::memory {

bool is_unified(c10::Device device) {
  return device.is_cuda() && at::hasCUDA() && at::cuda::getDeviceProperties(device.index())->integrated != 0;
}

}  // namespace burnish::memory
