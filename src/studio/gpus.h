#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace burnish::studio {

/// Holds what a GPU is at now.
struct Gpu {
  std::string name;
  double busy = 0;  ///< share of the last moments in which it computed
  int64_t used_bytes = 0, total_bytes = 0;
  int64_t degrees = 0;                      ///< Celsius; 0 where it does not say
  double watts = 0;                         ///< 0 where it does not say
  std::map<int64_t, int64_t> used_by = {};  ///< bytes by process
};

/// The GPUs of this machine by NVML, the library of NVIDIA's driver, which is opened where there is one.
class Gpus {
 public:
  /// `library`: NVML, as the system finds it.
  explicit Gpus(const std::string& library = "libnvidia-ml.so.1");
  ~Gpus();
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  /// None where there is no such library, or it does not answer.
  std::vector<Gpu> look() const;

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;  ///< null where there is none
};

}  // namespace burnish::studio
