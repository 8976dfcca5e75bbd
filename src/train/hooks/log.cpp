#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/files.h"
#include "train/hooks/hooks.h"

namespace burnish::train {

namespace {

/// Drops the lines of steps that a resumed run will take again (those after its last save).
void cut_log(const std::filesystem::path& path, int64_t step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (entry.is_object() && entry.value("step", int64_t{0}) <= step) kept += line + "\n";
  }
  io::write_text_atomic(path, kept);
}

/// Highest resident memory of this process so far.
int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

/// Highest memory that tensors took on the GPU so far; 0 when the run does not use one.
int64_t peak_device_memory() {
  if (!at::hasCUDA()) return 0;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
  if (allocator == nullptr || !allocator->initialized()) return 0;
  return allocator->getDeviceStats(0).allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

class Log final : public Hook {
 public:
  explicit Log(const Training& training) : training_(training), path_(training.settings.output.folder / "log.jsonl") {}

  void before() override {
    auto again = training_.settings.given;
    again.max_steps = training_.course.num_steps();
    again.resume = false;  // the file starts the run anew
    config::Fields resolved;
    fields(resolved, again);
    io::write_text_atomic(training_.settings.output.folder / "config.toml", config::to_toml(resolved));
    cut_log(path_, training_.settings.output.resume ? training_.trainee.progress.step : 0);
  }

  void stepped(const StepReport& r) override {
    nlohmann::json line{{"step", r.step},
                        {"loss", r.loss},
                        {"grad_norm", r.grad_norm},
                        {"lr", r.learning_rate},
                        {"samples_per_second", static_cast<double>(r.num_samples) / r.seconds},
                        {"step_seconds", r.seconds},
                        {"data_seconds", r.data_seconds},
                        {"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
                        {"peak_memory_bytes", peak_memory()}};
    if (auto bytes = peak_device_memory(); bytes > 0) line["peak_device_memory_bytes"] = bytes;
    std::ofstream log(path_, std::ios::app);
    if (!(log << line.dump() << "\n" << std::flush)) {
      data_error("train", "cannot write {}: {}; the last saved state is intact, go on with --resume once there is room", path_.string(),
                 std::strerror(errno));
    }
  }

 private:
  const Training& training_;
  std::filesystem::path path_;
};

}  // namespace

std::unique_ptr<Hook> make_log(const Training& training) { return std::make_unique<Log>(training); }

}  // namespace burnish::train
