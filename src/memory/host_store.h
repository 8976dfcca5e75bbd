#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

namespace burnish::memory {

/// Host memory where tensors of a device wait until they are needed again. Beside a GPU it is pinned, and copies go on a stream of their
/// own while the device computes; beside the CPU it is a second place in the same memory, and a copy is there when it was asked for. For
/// the meta device it counts what it would hold, and holds nothing. Copies are the same bits.
class HostStore {
 public:
  explicit HostStore(c10::Device device);
  ~HostStore();
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  /// A tensor of the device and its copy in host memory.
  using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
  /// When a copy has come to the device. Empty: it has.
  class Arrival;

  /// A copy of the tensor, with its strides. The tensor's memory may be given up at once.
  at::Tensor put(const at::Tensor& tensor);
  /// Copies to host tensors that `put` made.
  void update(const Copies& copies);
  /// Begins to copy to the device, after all that it was told to compute before. The tensors may be read after `wait`.
  std::shared_ptr<Arrival> fetch(const Copies& copies);
  void wait(const std::shared_ptr<Arrival>& arrival);
  /// Waits until host tensors can be read by the host.
  void synchronize() const;

  /// Bytes that it holds now, and the most that it has held.
  int64_t num_bytes() const;
  int64_t peak() const;

 private:
  class Memory;
  struct Lane;
  at::Tensor make(const at::Tensor& like) const;

  c10::Device device_;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<Lane> lane_;  ///< null where copies are made at once
};

}  // namespace burnish::memory
