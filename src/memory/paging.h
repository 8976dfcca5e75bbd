#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "memory/host_store.h"
#include "memory/weight_group.h"
#include "nn/block.h"

namespace burnish::memory {

/// Chooses which of `num_blocks` blocks wait in host memory when `num_paged` of them are to: at equal distances, so that blocks that stay
/// leave time to bring the next one (musubi-tuner, docs/block_swap.md, block_swap_h2d_only). Rising numbers.
std::vector<int64_t> paged_blocks(int64_t num_blocks, int64_t num_paged);

/// A weight of a block in a mapped file, by its name in the block; undefined where no file has it.
using InFile = std::function<at::Tensor(const std::string& name)>;

class Division;  // memory/division.h
struct Page;     // memory/page.h
struct PageMemory;

/// Keeps the weights of blocks in host memory, in files or divided among processes, and on the device those of the block at work and of the
/// one that comes next, in forward and in backward: there are `num_places` for weights on the device, each as large as the largest block;
/// with more than two, more blocks come ahead. Weights that were changed there are written back when they leave. A tensor of a block that
/// is not on the device has no numbers; autograd may go on holding it.
///
/// Divided among processes, a frozen weight waits in even parts with all of them, where tensors lie that travel. One that trains stays on
/// the device of its owner, who reads and writes it as if nobody else did; the others have it while its block is at work, as it was when it
/// came.
///
/// Blocks are run in the order in which they are named. Nothing else may read their weights but through LinearMap::source, or after
/// `bring`.
class Pager : public std::enable_shared_from_this<Pager> {
 public:
  /// Makes a pager. With `group` all weights are divided among them, and every process runs the same blocks in one order.
  Pager(std::shared_ptr<HostStore> store, c10::Device device, size_t num_places = 2, std::shared_ptr<WeightGroup> group = nullptr);
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  /// Has the block's weights that are on the device wait in host memory from here on. May be called again when more have come. A weight
  /// whose very bytes `in_file` finds waits in that file, and is never written; for the meta device it finds every matrix. `owner_of` is
  /// for `group`.
  void take(nn::Block& block, const InFile& in_file = {}, const OwnerOf& owner_of = {});
  /// Has a block that holds the very weights of one that was taken, and nothing else, run as that one: they come once for both. Returns
  /// whether that one was taken. To be called after `make_places`.
  bool share(nn::Block& block, const nn::Block& taken);
  /// Makes the places on the device, once all weights are taken and before one is read.
  void make_places();
  /// Runs blocks that were taken by `block.body`, their weights on the device when it reads them.
  std::shared_ptr<nn::BlockRunner> runner();

  /// The number of the block that a tensor's numbers wait with; nothing for a tensor that stays on the device.
  std::optional<size_t> block_of(const at::Tensor& tensor) const;
  /// Has the weights of that block on the device until others are brought.
  void bring(size_t number);
  /// Is told that weights of that block were written to on the device.
  void mark_changed(size_t number);
  /// Is told that owners wrote to their weights: what the others have of them is not used again.
  void expire();
  /// Returns a tensor of that block as it lies in host memory, for as long as the block is not brought again: what is written there is what
  /// comes. Returns the tensor itself on the meta device.
  at::Tensor in_host(size_t number, const at::Tensor& tensor);

  /// Counts the bytes of all that waits, what this process owns included, and of what waits in files.
  int64_t num_waiting_bytes() const;
  int64_t num_file_bytes() const;
  /// Counts the bytes of the places on the device.
  int64_t num_device_bytes() const;

 private:
  class Runner;
  struct BringBack;
  enum class Direction { forward, backward };

  void take(Page& page, const at::Tensor& tensor, const std::string& name, const InFile& in_file, const OwnerOf& owner_of);
  void fetch(size_t number);
  void leave(Page& page);
  bool is_wanted(const Page& page) const;
  void bring(size_t number, Direction direction);

  std::shared_ptr<HostStore> store_;
  std::unique_ptr<Division> division_;  ///< null where this process has all
  std::shared_ptr<CopyQueue> files_;    ///< null where nothing waits in one
  c10::Device device_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::map<const nn::Block*, size_t> numbers_;
  std::vector<PageMemory> places_;
  size_t num_places_;
  size_t first_ = 0, last_ = 0;  ///< the numbers of the block at work and of those that come next
};

}  // namespace burnish::memory
