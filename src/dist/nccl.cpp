#define USE_C10D_NCCL
#include "dist/nccl.h"

#include <fmt/core.h>

#include <cstdlib>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace burnish::dist {

namespace {

/// A process that is gone is noticed and named by dist/watch.h, which ends the others. c10d's own threads would end them first, without a
/// sentence, and take a long save of another for a failure; torchrun asks them to.
void leave_failures_to_the_watch() {
  static std::once_flag once;
  std::call_once(once, [] {
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", 1);
    setenv("TORCH_NCCL_ENABLE_MONITORING", "0", 1);
    setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", 1);
  });
}

}  // namespace

std::string nccl_name(c10::Device device) {
  std::string name;
  for (auto byte : at::cuda::getDeviceProperties(device.index())->uuid.bytes) name += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return name;
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size,
                                            std::chrono::milliseconds limit) {
  leave_failures_to_the_watch();
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = limit;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(rank), static_cast<int>(size), options);
}

}  // namespace burnish::dist
