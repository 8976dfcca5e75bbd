#pragma once
#include <ATen/core/Tensor.h>

#include <cstdlib>

namespace burnish::test {

/// Where tests of numbers compute, and programs that they start: what BURNISH_TEST_DEVICE names ("cuda"), else the CPU, whatever the
/// machine has. Asked before anything looks for a GPU.
inline c10::Device device() {
  static const c10::Device chosen = [] {
    const char* name = std::getenv("BURNISH_TEST_DEVICE");
    const c10::Device device(name == nullptr ? "cpu" : name);
    if (device.is_cpu()) setenv("CUDA_VISIBLE_DEVICES", "", 1);
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1);  // cuDNN would round the fp32 of convolutions to 10 bits
    return device;
  }();
  return chosen;
}

inline at::Tensor on_device(const at::Tensor& tensor) { return tensor.to(device()); }

/// How far results in `dtype` may lie from expected ones, where CPUs keep `on_cpu`: other devices add up in another order, which moves fp32
/// by several of its roundings; those of 16 bits are large beside that.
inline double tolerance(double on_cpu, at::ScalarType dtype = at::kFloat) {
  if (device().is_cpu()) return on_cpu;
  return on_cpu * (dtype == at::kFloat ? 10 : 1.5);
}

}  // namespace burnish::test
