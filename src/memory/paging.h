#pragma once
#include <functional>
#include <map>
#include <memory>

#include "memory/host_store.h"
#include "nn/block.h"

namespace burnish::memory {

/// Which of `num_blocks` blocks wait in host memory when `num_paged` of them are to: at equal distances, so that blocks that stay leave
/// time to bring the next one (musubi-tuner, docs/block_swap.md, block_swap_h2d_only). Rising numbers.
std::vector<int64_t> paged_blocks(int64_t num_blocks, int64_t num_paged);

/// Keeps the weights of blocks in host memory, and on the device those of the block at work and of the one that comes next, in forward and
/// in backward: there are two places for weights on the device, each as large as the largest block. Weights that wait are never written
/// back, so they must not train. A tensor of a block that is not on the device has no numbers; autograd may go on holding it.
///
/// Blocks are run in the order in which they are named. Nothing else may read their weights but through LinearMap::source.
class Pager : public std::enable_shared_from_this<Pager> {
 public:
  Pager(std::shared_ptr<HostStore> store, c10::Device device);
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  /// The block's weights wait in host memory from here on: those that are on the device. May be called again when more have come.
  void take(nn::Block& block);
  /// Makes the places on the device, once all weights are taken and before one is read.
  void make_places();
  /// Runs blocks that were taken by `block.body`, their weights on the device when it reads them.
  std::shared_ptr<nn::BlockRunner> runner();

  int64_t num_waiting_bytes() const;
  /// Of the places on the device.
  int64_t num_device_bytes() const;

 private:
  struct Page;
  struct Place;
  class Runner;
  struct BringBack;
  enum class Direction { forward, backward };

  void take(Page& page, const at::Tensor& tensor);
  void fetch(Page& page);
  void bring(size_t number);
  void bring(size_t number, Direction direction);

  std::shared_ptr<HostStore> store_;
  c10::Device device_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::map<const nn::Block*, size_t> numbers_;
  std::vector<Place> places_;
  size_t at_work_ = 0;
};

}  // namespace burnish::memory
