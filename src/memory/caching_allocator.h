#pragma once
#include <array>
#include <limits>
#include <map>
#include <set>

#include "memory/profile.h"

namespace burnish::memory {

/// A model of libtorch's caching allocator and of what it keeps of a GPU's memory, told by the sizes that it is asked for: it asks the
/// driver for segments, cuts blocks from them, and keeps what is freed (the rules are those of c10/cuda/CUDACachingAllocator.cpp as they
/// are without PYTORCH_CUDA_ALLOC_CONF, for one stream).
class CachingAllocator {
 public:
  /// `limit`: bytes that the driver has. Where they are not enough, segments that are free as a whole are given back first, and what is
  /// still missing is counted beyond the limit.
  explicit CachingAllocator(int64_t limit = std::numeric_limits<int64_t>::max()) : limit_(limit) {}

  /// The address of a block of at least `num_bytes`, more than 0.
  int64_t take(int64_t num_bytes);
  /// std::logic_error for an address that was not taken.
  void free(int64_t address);
  /// Gives segments that are free as a whole back to the driver.
  void release();

  /// The bytes of all segments now.
  int64_t reserved() const { return reserved_; }
  /// The bytes of the blocks in use, as they are rounded.
  int64_t allocated() const { return allocated_; }

 private:
  struct Block {
    int64_t num_bytes = 0;
    int64_t segment = 0;  ///< where the segment begins
    bool is_small = false, is_free = false;
  };
  using Blocks = std::map<int64_t, Block>;  ///< blocks by address
  /// Free blocks of a pool, the smallest first, of equal ones the one with the lowest address.
  using Free = std::set<std::pair<int64_t, int64_t>>;

  Free& free_of(const Block& block) { return free_[block.is_small ? 0 : 1]; }
  Blocks::iterator find(int64_t num_bytes, bool is_small);
  Blocks::iterator reserve(int64_t num_bytes, bool is_small);
  void split(Blocks::iterator block, int64_t num_bytes);
  Blocks::iterator merge(Blocks::iterator first, Blocks::iterator second);

  int64_t limit_;
  int64_t reserved_ = 0, allocated_ = 0, next_address_ = 0;
  Blocks blocks_;
  std::array<Free, 2> free_;  ///< free blocks, small ones and large ones
  std::set<int64_t> idle_;    ///< addresses of segments that are one free block
};

/// The most that the caching allocator keeps from `begin` to before `end` when it is asked for these blocks from the first on. Segments
/// that are free as a whole at `begin` are not counted: they are given back before memory runs out. Recordings have segments of their own,
/// all of them the same, which they keep; before they begin, other segments that are free are given back.
int64_t most_reserved(const Allocations& allocations, int64_t begin, int64_t end, int64_t limit = std::numeric_limits<int64_t>::max());

}  // namespace burnish::memory
