#include "memory/caching_allocator.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>
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

int64_t CachingAllocator::take(int64_t num_bytes) {
  auto size = rounded(num_bytes, kRounding);
  bool is_small = size <= kMostSmall;
  auto block = find(size, is_small);
  if (block == blocks_.end()) block = reserve(segment_size(size, is_small), is_small);
  split(block, size);
  block->second.is_free = false;
  allocated_ += block->second.num_bytes;
  return block->first;
}

/// The smallest free block that is large enough.
CachingAllocator::Blocks::iterator CachingAllocator::find(int64_t num_bytes, bool is_small) {
  auto& free = free_[is_small ? 0 : 1];
  auto found = free.lower_bound({num_bytes, -1});
  if (found == free.end()) return blocks_.end();
  auto block = blocks_.find(found->second);
  free.erase(found);
  idle_.erase(block->first);
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::reserve(int64_t num_bytes, bool is_small) {
  if (reserved_ > limit_ - num_bytes) release();
  auto address = next_address_;
  next_address_ += num_bytes + kGap;
  reserved_ += num_bytes;
  return blocks_.emplace(address, Block{num_bytes, address, is_small, true}).first;
}

/// Cuts off what a block has too much, where that is worth it.
void CachingAllocator::split(Blocks::iterator block, int64_t num_bytes) {
  auto rest = block->second.num_bytes - num_bytes;
  if (block->second.is_small ? rest < kRounding : rest <= kMostSmall) return;
  auto remaining = block->second;
  remaining.num_bytes = rest;
  block->second.num_bytes = num_bytes;
  auto address = block->first + num_bytes;
  blocks_.emplace(address, remaining);
  free_of(remaining).insert({rest, address});
}

void CachingAllocator::free(int64_t address) {
  auto block = blocks_.find(address);
  if (block == blocks_.end() || block->second.is_free) throw std::logic_error("a block is freed that was not taken");
  allocated_ -= block->second.num_bytes;
  block->second.is_free = true;
  auto is_mergeable = [&](Blocks::iterator other) { return other->second.is_free && other->second.segment == block->second.segment; };
  auto drop = [&](Blocks::iterator other) { free_of(other->second).erase({other->second.num_bytes, other->first}); };
  if (auto next = std::next(block); next != blocks_.end() && is_mergeable(next)) {
    drop(next);
    merge(block, next);
  }
  if (block != blocks_.begin() && is_mergeable(std::prev(block))) {
    drop(std::prev(block));
    block = merge(std::prev(block), block);
  }
  free_of(block->second).insert({block->second.num_bytes, block->first});
  auto next = std::next(block);
  bool ends_segment = next == blocks_.end() || next->second.segment != block->second.segment;
  if (ends_segment && block->first == block->second.segment) idle_.insert(block->first);
}

CachingAllocator::Blocks::iterator CachingAllocator::merge(Blocks::iterator first, Blocks::iterator second) {
  first->second.num_bytes += second->second.num_bytes;
  blocks_.erase(second);
  return first;
}

void CachingAllocator::release() {
  for (auto address : idle_) {
    auto block = blocks_.find(address);
    free_of(block->second).erase({block->second.num_bytes, address});
    reserved_ -= block->second.num_bytes;
    blocks_.erase(block);
  }
  idle_.clear();
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
  std::vector<int64_t> addresses(allocations.size());
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
    if (time == block.taken) addresses[number] = from.take(block.num_bytes);
    else from.free(addresses[number]);
    if (time >= begin) most = std::max(most, allocator.reserved() + recordings.reserved());
  }
  return most;
}

}  // namespace burnish::memory
