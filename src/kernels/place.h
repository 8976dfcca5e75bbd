#pragma once
#include <ATen/core/Tensor.h>

// Tensors on the meta device have shapes and no numbers. In a dry run they stand for tensors of the device that the run is planned for, so
// that operators allocate and save what they would there; only the loops over numbers are left out.
namespace burnish::kernels {

/// The device that operators take a tensor's to be: its own, or the one that the meta device stands for.
c10::Device place_of(c10::Device device);

inline bool runs_on_cpu(c10::Device device) { return place_of(device).is_cpu(); }
inline bool runs_on_cpu(const at::Tensor& tensor) { return runs_on_cpu(tensor.device()); }

/// Has the meta device stand for another while it lives. Without one it stands for itself. A program has one at a time.
class StandIn {
 public:
  explicit StandIn(c10::Device device);
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
};

}  // namespace burnish::kernels
