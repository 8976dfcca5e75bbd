#include "memory/caching_allocator.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

namespace burnish::memory {

namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kRounding = 512;           // of every block
constexpr int64_t kMostSmall = kMiB;         // larger blocks are of the pool of large ones
constexpr int64_t kSmallSegment = 2 * kMiB;  // that small blocks are cut from
constexpr int64_t kLargeSegment = 20 * kMiB;
constexpr int64_t kOwnSegment = 10 * kMiB;  // a block of so much has a segment of its own size
constexpr int64_t kSegmentRounding = 2 * kMiB;
constexpr int64_t kGap = kSegmentRounding;  // between segments, which are never merged

int64_t rounded(int64_t num_bytes, int64_t to) { return (num_bytes + to - 1) / to * to; }

int64_t segment_size(int64_t num_bytes, bool is_small) {
  if (is_small) return kSmallSegment;
  return num_bytes < kOwnSegment ? kLargeSegment : rounded(num_bytes, kSegmentRounding);
}

}  // namespace

size_t CachingAllocator::take(int64_t num_bytes) {
  auto size = rounded(num_bytes, kRounding);
  bool is_small = size <= kMostSmall;
  auto number = find(size, is_small);
  if (number == kNone) number = reserve(segment_size(size, is_small), is_small);
  split(number, size);
  allocated_ += blocks_[number].num_bytes;
  return number;
}

size_t CachingAllocator::add(const Block& block) {
  if (unused_.empty()) blocks_.emplace_back();
  const auto number = unused_.empty() ? blocks_.size() - 1 : unused_.back();
  if (!unused_.empty()) unused_.pop_back();
  blocks_[number] = block;
  return number;
}

void CachingAllocator::remove(size_t number) {
  blocks_[number].is_free = true;  // it is not taken
  unused_.push_back(number);
}

void CachingAllocator::set_free(size_t number) {
  auto& block = blocks_[number];
  block.is_free = true;
  auto& [free, num_segments] = pool_of(block);
  const FreeBlock entry{block.num_bytes, block.address, number};
  free.insert(std::ranges::lower_bound(free, entry), entry);
  num_segments += block.is_segment();
}

void CachingAllocator::set_used(size_t number) {
  auto& block = blocks_[number];
  block.is_free = false;
  auto& [free, num_segments] = pool_of(block);
  free.erase(std::ranges::lower_bound(free, FreeBlock{block.num_bytes, block.address, number}));
  num_segments -= block.is_segment();
}

/// The smallest free block that is large enough.
size_t CachingAllocator::find(int64_t num_bytes, bool is_small) {
  const auto& free = pools_[is_small ? 0 : 1].free;
  const auto found = std::ranges::lower_bound(free, num_bytes, {}, &FreeBlock::num_bytes);
  if (found == free.end()) return kNone;
  const auto number = found->number;
  set_used(number);
  return number;
}

size_t CachingAllocator::reserve(int64_t num_bytes, bool is_small) {
  if (reserved_ > limit_ - num_bytes) release();
  auto address = next_address_;
  next_address_ += num_bytes + kGap;
  reserved_ += num_bytes;
  return add({.address = address, .num_bytes = num_bytes, .is_small = is_small});
}

/// Cuts off what a block has too much, where that is worth it.
void CachingAllocator::split(size_t number, int64_t num_bytes) {
  const auto whole = blocks_[number];
  auto rest = whole.num_bytes - num_bytes;
  if (whole.is_small ? rest < kRounding : rest <= kMostSmall) return;
  const auto remaining =
      add({.address = whole.address + num_bytes, .num_bytes = rest, .before = number, .after = whole.after, .is_small = whole.is_small});
  if (whole.after != kNone) blocks_[whole.after].before = remaining;
  blocks_[number].num_bytes = num_bytes;
  blocks_[number].after = remaining;
  set_free(remaining);
}

void CachingAllocator::free(size_t number) {
  if (number >= blocks_.size() || blocks_[number].is_free) throw std::logic_error("a block is freed that was not taken");
  allocated_ -= blocks_[number].num_bytes;
  if (const auto after = blocks_[number].after; after != kNone && blocks_[after].is_free) number = merge(number, after);
  if (const auto before = blocks_[number].before; before != kNone && blocks_[before].is_free) number = merge(before, number);
  set_free(number);
}

/// Makes one block of two neighbours of which either may be free; what it makes is counted as used.
size_t CachingAllocator::merge(size_t first, size_t second) {
  for (auto number : {first, second}) {
    if (blocks_[number].is_free) set_used(number);
  }
  blocks_[first].num_bytes += blocks_[second].num_bytes;
  blocks_[first].after = blocks_[second].after;
  if (blocks_[second].after != kNone) blocks_[blocks_[second].after].before = first;
  remove(second);
  return first;
}

void CachingAllocator::release() {
  for (auto& [free, num_segments] : pools_) {
    if (num_segments == 0) continue;
    num_segments = 0;
    std::erase_if(free, [&](const auto& entry) {
      if (!blocks_[entry.number].is_segment()) return false;
      reserved_ -= entry.num_bytes;
      remove(entry.number);
      return true;
    });
  }
}

int64_t most_reserved(const Allocations& allocations, int64_t begin, int64_t end, int64_t limit) {
  constexpr size_t kNothing = std::numeric_limits<size_t>::max();
  std::vector<size_t> events(static_cast<size_t>(end), kNothing);  // by time: which block is taken or freed
  for (size_t i = 0; i < allocations.size(); ++i) {
    if (allocations[i].num_bytes == 0) continue;
    for (auto time : {allocations[i].taken, allocations[i].freed}) {
      if (time < end) events[static_cast<size_t>(time)] = i;
    }
  }
  CachingAllocator allocator(limit), recordings;
  std::vector<size_t> taken(allocations.size());  // their numbers
  int64_t most = 0;
  for (int64_t time = 0; time < end; ++time) {
    if (time == begin) {
      allocator.release();
      most = allocator.reserved() + recordings.reserved();
    }
    const auto number = events[static_cast<size_t>(time)];
    if (number == kNothing) continue;
    const auto& block = allocations[number];
    if (block.is_recorded && recordings.reserved() == 0) allocator.release();
    auto& from = block.is_recorded ? recordings : allocator;
    if (time == block.taken) taken[number] = from.take(block.num_bytes);
    else from.free(taken[number]);
    if (time >= begin) most = std::max(most, allocator.reserved() + recordings.reserved());
  }
  return most;
}

}  // namespace burnish::memory
