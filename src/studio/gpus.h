#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace burnish::studio {

/// Holds what a GPU is at now.
struct Gpu {
  int64_t index = 0;  ///< by which a run is told to take it
  std::string name;
  double busy = 0;  ///< share of the last moments in which it computed
  int64_t used_bytes = 0, total_bytes = 0;
  int64_t degrees = 0;                      ///< Celsius; 0 where it does not say
  double watts = 0;                         ///< 0 where it does not say
  std::map<int64_t, int64_t> used_by = {};  ///< bytes by process
};

/// Returns the GPU that a program may have which is to have `wish`, or else any that this process lets programs see: its index as NVML
/// counts, or what CUDA_VISIBLE_DEVICES calls it. Nothing where those that others have taken leave none.
std::optional<std::string> free_gpu(std::optional<int64_t> wish, const std::vector<std::string>& taken);

/// Makes the variables with which a program sees that GPU alone.
std::vector<std::string> variables_of_gpu(const std::string& gpu);

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
