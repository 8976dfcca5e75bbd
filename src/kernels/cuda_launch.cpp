#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/log.h"
#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int kWithoutGpu = 80;                 // of a GPU that a run is planned for where there is none
constexpr int kSharedWithoutAsking = 48 << 10;  // bytes; a kernel that has more says so first

void check(cudaError_t error, const Binary& kernel, const char* doing) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // which would otherwise be told to the next who asks
  throw std::runtime_error(fmt::format("{} the kernel {} (for compute capability {}) failed: {}; please report it", doing, kernel.name,
                                       kernel.capability, cudaGetErrorString(error)));
}

int asked_capability(int index) {
  int major = 0, minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) != cudaSuccess)
    return 0;
  return 10 * major + minor;
}

/// Kernels by name for the GPUs of this machine; what is loaded stays until the program ends.
class Loaded {
 public:
  const Binary* find(std::string_view name, int index) {
    std::lock_guard lock(mutex_);
    auto known = found_.find(std::pair(index, std::string(name)));
    if (known != found_.end()) return known->second;
    return found_[{index, std::string(name)}] = choose(binaries(), name, capability_of(index));
  }

  cudaKernel_t kernel(const Binary& binary, int index) {
    std::lock_guard lock(mutex_);
    auto [place, is_new] = kernels_.try_emplace({index, &binary});
    if (is_new) {
      cudaLibrary_t library{};
      check(cudaLibraryLoadData(&library, binary.image, nullptr, nullptr, 0, nullptr, nullptr, 0), binary, "loading");
      check(cudaLibraryGetKernel(&place->second, library, binary.symbol), binary, "finding");
      if (binary.shared_bytes > kSharedWithoutAsking)
        check(cudaFuncSetAttribute(reinterpret_cast<const void*>(place->second), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   binary.shared_bytes),
              binary, "giving shared memory to");
    }
    return place->second;
  }

 private:
  int capability_of(int index) {
    auto [place, is_new] = capabilities_.try_emplace(index, 0);
    if (!is_new) return place->second;
    place->second = c10::cuda::device_count() == 0 ? kWithoutGpu : asked_capability(index);
    if (!runs_any(binaries(), place->second))
      warn("this program has no kernels for GPUs of compute capability {}.{}: operators are computed by ATen, which takes longer",
           place->second / 10, place->second % 10);
    return place->second;
  }

  std::mutex mutex_;
  std::map<int, int> capabilities_;
  std::map<std::pair<int, std::string>, const Binary*> found_;
  std::map<std::pair<int, const Binary*>, cudaKernel_t> kernels_;
};

Loaded& loaded() {
  static Loaded all;
  return all;
}

const at::Tensor& first_tensor(const Binary& kernel, const std::vector<Argument>& arguments) {
  for (const auto& argument : arguments) {
    if (const auto* tensor = std::get_if<at::Tensor>(&argument.value); tensor != nullptr && tensor->defined()) return *tensor;
  }
  throw std::logic_error(fmt::format("kernel {}: no argument is a tensor", kernel.name));
}

}  // namespace

const Binary* find_kernel(std::string_view name, c10::Device device) {
  auto place = place_of(device);
  if (!place.is_cuda()) return nullptr;
  const bool is_here = c10::cuda::device_count() > 0;
  return loaded().find(name, place.has_index() || !is_here ? std::max<int>(place.index(), 0) : c10::cuda::current_device());
}

void launch(const Binary& kernel, std::array<int64_t, 3> grid, const std::vector<Argument>& arguments) {
  PackedArguments packed(kernel, arguments);
  auto device = first_tensor(kernel, arguments).device();
  if (device.is_meta() || grid[0] * grid[1] * grid[2] == 0) return;
  c10::cuda::CUDAGuard guard(device);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]), static_cast<unsigned>(grid[2]));
  config.blockDim = dim3(32U * static_cast<unsigned>(kernel.num_warps));
  config.dynamicSmemBytes = static_cast<size_t>(kernel.shared_bytes);
  config.stream = c10::cuda::getCurrentCUDAStream(device.index()).stream();
  auto function = loaded().kernel(kernel, device.index());
  check(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(function), packed.places()), kernel, "launching");
}

}  // namespace burnish::kernels
