#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

namespace burnish::memory {

/// A way between a device and host memory on which copies go one after the other, beside what is computed.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;

  /// A tensor that is written, and the one that it becomes a copy of; one of them at least is on the device.
  using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;

  class Arrival {
   public:
    virtual ~Arrival() = default;
    /// Lets what is computed from here on find the copies made.
    virtual void wait() const = 0;
  };

  /// Begins to copy, after all that was told to be computed before. The tensors' memory may be given up at once.
  virtual std::shared_ptr<Arrival> go(const Copies& copies) = 0;
  /// Waits until all copies are made.
  virtual void synchronize() = 0;
};

/// A stream of its own, for a device that has streams; null for others, whose copies are made at once.
std::shared_ptr<CopyQueue> copy_queue_of(c10::Device device);

}  // namespace burnish::memory
