#pragma once
#include "memory/copy_queue.h"

namespace burnish::memory {

/// Host memory where tensors of a device wait until they are needed again. Beside a GPU it is pinned, and copies go on a stream of their
/// own while the device computes; beside the CPU it is a second place in the same memory, and a copy is there when it was asked for. For
/// the meta device it counts what it would hold, and holds nothing. Copies are the same bits.
class HostStore {
 public:
  explicit HostStore(c10::Device device) : HostStore(device, copy_queue_of(device)) {}
  /// Makes a store whose copies go over a copy_queue of the caller's.
  HostStore(c10::Device device, std::shared_ptr<CopyQueue> copy_queue);
  ~HostStore();
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  /// A tensor of the device and its copy in host memory.
  using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
  /// The moment at which a copy has come to the device. Null: it has.
  using Arrival = std::shared_ptr<CopyQueue::Arrival>;

  /// Memory for a tensor like this one, which may lie anywhere; its numbers are not set.
  at::Tensor room_for(const at::Tensor& tensor) const;
  /// Takes room for so many bytes.
  at::Tensor room(int64_t num_bytes) const;
  /// A copy of the tensor, with its strides. The tensor's memory may be given up at once.
  at::Tensor put(const at::Tensor& tensor);
  /// Copies to host tensors that `put` made.
  void update(const Copies& copies);
  /// Begins to copy to the device, from anywhere, after all that it was told to compute before. The tensors may be read after `wait`.
  Arrival fetch(const Copies& copies);
  void wait(const Arrival& arrival) {
    if (arrival) arrival->wait();
  }
  /// Waits until host tensors can be read by the host.
  void synchronize() const;

  /// The bytes that the store holds now, and the most that it has held.
  int64_t num_bytes() const;
  int64_t peak() const;

 private:
  class Memory;
  Arrival copy(const CopyQueue::Copies& copies) const;

  std::shared_ptr<Memory> memory_;
  std::shared_ptr<CopyQueue> copy_queue_;  ///< null where copies are made at once
};

}  // namespace burnish::memory
