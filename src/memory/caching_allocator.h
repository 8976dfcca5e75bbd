#pragma once
#include <array>
#include <compare>
#include <limits>
#include <vector>

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

  /// The number of a block of at least `num_bytes`, more than 0: its own until it is free.
  size_t take(int64_t num_bytes);
  /// std::logic_error for a number that is not taken.
  void free(size_t number);
  /// Gives segments that are free as a whole back to the driver.
  void release();

  /// The bytes of all segments now.
  int64_t reserved() const { return reserved_; }
  /// The bytes of the blocks in use, as they are rounded.
  int64_t allocated() const { return allocated_; }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  struct Block {
    int64_t address = 0, num_bytes = 0;
    size_t before = kNone, after = kNone;  ///< neighbours in its segment
    bool is_small = false, is_free = false;

    bool is_segment() const { return before == kNone && after == kNone; }
  };
  /// A free block: the smallest comes first, of equal ones the one with the lowest address.
  struct FreeBlock {
    int64_t num_bytes = 0, address = 0;
    size_t number = 0;
    auto operator<=>(const FreeBlock&) const = default;
  };
  /// Holds the free blocks of a pool in order; they are few.
  struct Pool {
    std::vector<FreeBlock> free;
    int64_t num_segments = 0;  ///< of `free`, how many are segments as a whole
  };

  Pool& pool_of(const Block& block) { return pools_[block.is_small ? 0 : 1]; }
  void set_free(size_t number);
  void set_used(size_t number);
  size_t add(const Block& block);
  void remove(size_t number);
  size_t find(int64_t num_bytes, bool is_small);
  size_t reserve(int64_t num_bytes, bool is_small);
  void split(size_t number, int64_t num_bytes);
  size_t merge(size_t first, size_t second);

  int64_t limit_;
  int64_t reserved_ = 0, allocated_ = 0, next_address_ = 0;
  std::vector<Block> blocks_;
  std::vector<size_t> unused_;  ///< numbers of blocks that are no more
  std::array<Pool, 2> pools_;   ///< of small blocks and of large ones
};

/// The most that the caching allocator keeps from `begin` to before `end` when it is asked for these blocks from the first on. Segments
/// that are free as a whole at `begin` are not counted: they are given back before memory runs out. Recordings have segments of their own,
/// all of them the same, which they keep; before they begin, other segments that are free are given back.
int64_t most_reserved(const Allocations& allocations, int64_t begin, int64_t end, int64_t limit = std::numeric_limits<int64_t>::max());

}  // namespace burnish::memory
