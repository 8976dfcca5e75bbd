#pragma once
#include <memory>

#include "memory/host_store.h"
#include "nn/block.h"

namespace burnish::memory {

/// Inputs of a block until backward asks for them.
class Checkpoint;

/// Keeps the inputs of blocks in host memory from forward to backward. One that several blocks share is kept once, and one whose memory on
/// the device is still there when backward asks is taken from there. While a block is at work in backward, the inputs of the one before it
/// are on their way.
class Checkpoints {
 public:
  explicit Checkpoints(std::shared_ptr<HostStore> store);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Tensors whose elements do not lie side by side are held as they are: they are parts of others. None may be written to after.
  std::shared_ptr<Checkpoint> keep(const nn::Tensors& inputs);
  /// Gives back what was kept, once.
  nn::Tensors take(Checkpoint& checkpoint);

 private:
  struct Entry;
  friend class Checkpoint;
  std::shared_ptr<Entry> entry_of(const at::Tensor& tensor);
  void begin_fetch(Entry& entry);

  std::shared_ptr<HostStore> store_;
  std::weak_ptr<Checkpoint> last_;
  std::vector<std::weak_ptr<Entry>> entries_;
};

}  // namespace burnish::memory
