#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace burnish::memory {

/// A recording of what a device was told to compute, to be told again as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Computes it once more: it reads what the tensors that it read hold by now, and writes the results that it had.
  virtual void replay() = 0;
};

/// Records what a device is told to compute.
class Recorder {
 public:
  using Tensors = std::vector<at::Tensor>;
  virtual ~Recorder() = default;
  /// Records what `work` has the device compute, and gives its results, in which there are no numbers before the first replay. What the
  /// host does in it, it does once. Throws what `work` throws, and a c10::Error where it waits for the device.
  virtual std::unique_ptr<Recording> record(const std::function<Tensors()>& work, Tensors& results) = 0;
};

/// Tells whether a device, or the one that the meta device stands for, records.
bool records_on(c10::Device device);

/// CUDA graphs for a GPU, whose recordings have one pool of memory: no two of them compute at once, and results stay as long as somebody
/// holds them. Null for other devices.
std::unique_ptr<Recorder> recorder_of(c10::Device device);

}  // namespace burnish::memory
