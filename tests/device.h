#pragma once
#include <c10/core/Device.h>

#include <cstdlib>

namespace burnish::test {

/// Where tests of numbers compute: what BURNISH_TEST_DEVICE names ("cuda"), else the CPU.
inline c10::Device device() {
  const char* name = std::getenv("BURNISH_TEST_DEVICE");
  return c10::Device(name == nullptr ? "cpu" : name);
}

}  // namespace burnish::test
