#include "app/machine.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/vfs.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "app/version.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/text.h"
#include "io/files.h"
#include "memory/host.h"

namespace burnish::app {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

#if defined(__x86_64__)
constexpr bool kIsX86 = true;
#else
constexpr bool kIsX86 = false;
#endif

/// A file of /proc or /sys, whose size is not known beforehand; "" when it cannot be read.
std::string read_text(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Returns what stands behind "name :" in lines of such a file; "" where no line begins so.
std::string field(const std::string& text, std::string_view name) {
  for (const auto& line : split_list(text, '\n')) {
    auto colon = line.find(':');
    if (colon != line.npos && trim(std::string_view(line).substr(0, colon)) == name) return std::string(trim(line.substr(colon + 1)));
  }
  return "";
}

Json describe_torch() {
  Json torch{
      {"version", TORCH_VERSION}, {"CUDA", at::hasCUDA() ? "built in, and there is a GPU for it" : "none"}, {"oneDNN", at::hasMKLDNN()}};
  return torch;
}

Json describe_processor() {
  auto info = read_text("/proc/cpuinfo");
  auto flags = split_list(field(info, kIsX86 ? "flags" : "Features"), ' ');
  Json known = Json::array();
  for (const char* name : {"avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "asimddp",
                           "i8mm", "bf16", "sve", "sve2"}) {
    if (std::ranges::count(flags, name)) known.push_back(name);
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  bool has_set = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  Json processor{{"name", kIsX86 ? field(info, "model name") : "aarch64, part " + field(info, "CPU part")},
                 {"hardware threads", std::thread::hardware_concurrency()},
                 {"instruction sets", known},
                 {"kernels of libtorch", at::get_cpu_capability()}};
  if (has_set) processor["allowed to this process"] = CPU_COUNT(&allowed);
  if (auto quota = cpu_quota()) processor["limit of its group"] = *quota;
  return processor;
}

Json describe_memory() {
  auto host = memory::host_memory();
  Json memory{{"total_bytes", host.total}, {"available_bytes", host.available}, {"swap_bytes", host.swap}};
  if (host.group) memory["limit of its group_bytes"] = *host.group;
  if (host.address_space) memory["address space (ulimit -v)_bytes"] = *host.address_space;
  return memory;
}

/// Free and total bytes of each GPU that libtorch uses; none where the driver does not say.
std::vector<std::pair<size_t, size_t>> gpu_memory() {
  std::vector<std::pair<size_t, size_t>> memory;
  if (!at::hasCUDA()) return memory;
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
    for (int i = 0; i < at::detail::getCUDAHooks().getNumGPUs(); ++i)
      memory.push_back(at::accelerator::getMemoryInfo(static_cast<c10::DeviceIndex>(i)));
  } catch (const c10::Error&) {  // a driver that does not fit, or a GPU that is taken: what else there is to say is still said
  }
  return memory;
}

Json describe_gpus() {
  Json names = Json::array();
  for (const auto& file : io::glob("/proc/driver/nvidia/gpus", "*/information")) names.push_back(field(read_text(file), "Model"));
  Json gpu{{"NVIDIA", names}, {"usable here", at::hasCUDA() ? at::detail::getCUDAHooks().getNumGPUs() : 0}};
  for (const auto& [free, total] : gpu_memory()) {
    gpu["free_bytes"].push_back(free);
    gpu["total_bytes"].push_back(total);
  }
  auto driver = split_list(read_text("/proc/driver/nvidia/version"), '\n');
  if (!driver.empty()) gpu["driver"] = driver[0];
  return gpu;
}

Json describe_use() {
  bool cuda = at::hasCUDA();
  return {{"device", cuda ? "cuda:0" : "cpu"}, {"dtype", "bf16"}, {"threads", at::get_num_threads()}};
}

/// The type of the file system that holds a path, by the longest mount point above it (proc(5), mountinfo).
std::string file_system(const fs::path& path) {
  std::string longest, type = "unknown";
  std::stringstream mounts(read_text("/proc/self/mounts"));
  for (std::string line; std::getline(mounts, line);) {
    auto words = split_list(line, ' ');
    if (words.size() < 3) continue;
    auto relative = path.lexically_relative(words[1]);
    bool below = !relative.empty() && *relative.begin() != "..";
    if (below && words[1].size() >= longest.size()) longest = words[1], type = words[2];
  }
  return type;
}

}  // namespace

Json describe_machine() {
  return {{"burnish", {{"version", version_text()}}},
          {"torch", describe_torch()},
          {"processor", describe_processor()},
          {"memory", describe_memory()},
          {"gpu", describe_gpus()},
          {"used", describe_use()}};
}

Json describe_place(const fs::path& folder) {
  auto path = fs::absolute(folder).lexically_normal(), there = path;
  while (!io::is_there(there) && there.has_relative_path()) there = there.parent_path();
  std::error_code failed;
  auto real = fs::canonical(there, failed);
  auto space = fs::space(there, failed);
  Json place{{"folder", path.string()}, {"is there", there == path}, {"file system", file_system(failed ? there : real)}};
  if (!failed) place["free_bytes"] = static_cast<double>(space.available);
  place["can be written"] = access(there.c_str(), W_OK) == 0;
  return place;
}

Json advice(const Json& report) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  Json sentences = Json::array();
  auto add = [&](const std::string& sentence) { sentences.push_back(sentence); };
  const auto& gpu = report.at("gpu");
  if (!gpu.at("NVIDIA").empty() && gpu.at("usable here") == 0)
    add("there is an NVIDIA GPU and this build does not use it: build with ./dev build --cuda, and see that the driver fits");
  const auto& sets = report.at("processor").at("instruction sets");
  if (kIsX86 && std::ranges::count(sets, "avx2") == 0) add("the processor has no AVX2: runs on it will be slow");
  std::set<double> said;  // places on one file system have the same room
  for (const auto& [name, place] : report.at("files").items()) {
    auto folder = place.at("folder").get<std::string>(), type = place.at("file system").get<std::string>();
    if (!place.at("can be written").get<bool>()) add(fmt::format("{} cannot be written ({})", folder, name));
    auto free = place.value("free_bytes", 100 * kGiB);
    if (free < 10 * kGiB && said.insert(free).second)
      add(fmt::format("{} has less than 10 GiB left ({}); published models take 7 to 35 GiB", folder, name));
    if (type.starts_with("nfs") || type == "cifs" || type == "9p" || type == "fuse.sshfs")
      add(fmt::format("{} lies on a network ({}, {}): weights are read from it at its speed", folder, name, type));
    if (type == "tmpfs")
      add(fmt::format("{} lies in memory ({}): what is in it counts as memory and is gone after a restart", folder, name));
  }
  return sentences;
}

}  // namespace burnish::app
