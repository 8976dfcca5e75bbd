// A library that answers as NVML does, of a machine with two GPUs of which the second is lost, unless BURNISH_MADE_UP_GPUS is set.
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {
constexpr int kLost = 15;
int g_device = 0;
}  // namespace

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  return *device = &g_device, index == 0 || std::getenv("BURNISH_MADE_UP_GPUS") != nullptr ? 0 : kLost;
}
int nvmlDeviceGetName(void*, char* name, unsigned size) { return std::strncpy(name, "Made-up 9000", size), 0; }
int nvmlDeviceGetUtilizationRates(void*, unsigned* shares) { return shares[0] = 75, shares[1] = 12, 0; }
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  const unsigned long long gib = 1ULL << 30;
  return total_free_used[0] = 24 * gib, total_free_used[1] = 18 * gib, total_free_used[2] = 6 * gib, 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* degrees) { return *degrees = 61, 0; }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return *milliwatts = 250500, 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* infos) {
  // An entry: 4 bytes of the process, 4 of padding, 8 of memory, 4 and 4 of instances.
  auto* bytes = static_cast<char*>(infos);
  const uint32_t processes[] = {41, 42};
  const uint64_t used[] = {1000, ~uint64_t{0}};
  for (unsigned i = 0; i < 2; ++i) {
    std::memcpy(bytes + 24 * i, &processes[i], sizeof processes[i]);
    std::memcpy(bytes + 24 * i + 8, &used[i], sizeof used[i]);
  }
  return *count = 2, 0;
}
}
