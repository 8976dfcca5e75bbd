#include "studio/gpus.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>

#include "base/library.h"
#include "base/text.h"

namespace burnish::studio {

namespace {

using Device = void*;

// These structs are as NVML's header has them (docs.nvidia.com/deploy/nvml-api).
struct Utilization {
  unsigned gpu = 0, memory = 0;
};
struct Memory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct Process {
  unsigned pid = 0;
  unsigned long long used = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
constexpr int kSuccess = 0;
constexpr int kGpuSensor = 0;
constexpr unsigned long long kNotKnown = ~0ULL;

}  // namespace

std::optional<std::string> free_gpu(std::optional<int64_t> wish, const std::vector<std::string>& taken) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> some;
  if (wish) some = {std::to_string(*wish)};
  else if (visible != nullptr) some = split_list(visible);
  if (some.empty()) {  // how many there are is not known
    for (size_t i = 0; i <= taken.size(); ++i) some.push_back(std::to_string(i));
  }
  const auto found = std::ranges::find_if(some, [&](const std::string& one) { return !contains(taken, one); });
  return found == some.end() ? std::nullopt : std::optional(*found);
}

std::vector<std::string> variables_of_gpu(const std::string& gpu) {
  return {"CUDA_VISIBLE_DEVICES=" + gpu, "CUDA_DEVICE_ORDER=PCI_BUS_ID"};  // CUDA by itself counts the fastest one first
}

struct Gpus::Nvml {
  Library library;
  int (*init)() = library.find("nvmlInit_v2");
  int (*shut_down)() = library.find("nvmlShutdown");
  int (*count)(unsigned*) = library.find("nvmlDeviceGetCount_v2");
  int (*device)(unsigned, Device*) = library.find("nvmlDeviceGetHandleByIndex_v2");
  int (*name)(Device, char*, unsigned) = library.find("nvmlDeviceGetName");
  int (*utilization)(Device, Utilization*) = library.find("nvmlDeviceGetUtilizationRates");
  int (*memory)(Device, Memory*) = library.find("nvmlDeviceGetMemoryInfo");
  int (*temperature)(Device, int, unsigned*) = library.find("nvmlDeviceGetTemperature");
  int (*power)(Device, unsigned*) = library.find("nvmlDeviceGetPowerUsage");
  int (*processes)(Device, unsigned*, Process*) = library.find("nvmlDeviceGetComputeRunningProcesses_v3");
};

Gpus::Gpus(const std::string& library) {
  try {
    std::unique_ptr<Nvml> nvml(new Nvml{Library(library)});
    if (nvml->library.is_open() && nvml->init() == kSuccess) nvml_ = std::move(nvml);
  } catch (const std::logic_error&) {  // a driver from before these functions
    return;
  }
}

Gpus::~Gpus() {
  if (nvml_) nvml_->shut_down();
}

std::vector<Gpu> Gpus::look() const {
  std::vector<Gpu> gpus;
  unsigned count = 0;
  if (!nvml_ || nvml_->count(&count) != kSuccess) return gpus;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (nvml_->device(i, &device) != kSuccess) continue;
    auto& gpu = gpus.emplace_back();
    gpu.index = i;
    std::array<char, 96> name{};
    if (nvml_->name(device, name.data(), name.size() - 1) == kSuccess) gpu.name = name.data();
    if (Utilization share; nvml_->utilization(device, &share) == kSuccess) gpu.busy = share.gpu / 100.0;
    if (Memory memory; nvml_->memory(device, &memory) == kSuccess) {
      gpu.used_bytes = static_cast<int64_t>(memory.used);
      gpu.total_bytes = static_cast<int64_t>(memory.total);
    }
    if (unsigned degrees = 0; nvml_->temperature(device, kGpuSensor, &degrees) == kSuccess) gpu.degrees = degrees;
    if (unsigned milliwatts = 0; nvml_->power(device, &milliwatts) == kSuccess) gpu.watts = milliwatts / 1000.0;
    std::array<Process, 64> processes{};
    unsigned num_processes = processes.size();
    if (nvml_->processes(device, &num_processes, processes.data()) != kSuccess) continue;
    for (unsigned p = 0; p < num_processes; ++p) {
      if (processes[p].used != kNotKnown) gpu.used_by[processes[p].pid] = static_cast<int64_t>(processes[p].used);
    }
  }
  return gpus;
}

}  // namespace burnish::studio
