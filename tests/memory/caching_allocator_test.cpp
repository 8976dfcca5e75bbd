// Sequences whose outcome follows from the rules that libtorch documents of its allocator.
#include "memory/caching_allocator.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace burnish::caching_allocator_test {
using namespace burnish::memory;

namespace {
constexpr int64_t kMiB = 1 << 20;
}

TEST(CachingAllocator, CutsSmallBlocksFromSegmentsOfTwoMebibytes) {
  CachingAllocator allocator;
  auto first = allocator.take(1);
  EXPECT_EQ(allocator.allocated(), 512) << "blocks are rounded up to 512 bytes";
  EXPECT_NE(allocator.take(513), first);
  EXPECT_EQ(allocator.allocated(), 512 + 1024);
  EXPECT_EQ(allocator.reserved(), 2 * kMiB);
  allocator.take(kMiB);
  EXPECT_EQ(allocator.reserved(), 2 * kMiB);
  allocator.take(kMiB);  // what is left of the segment is less
  EXPECT_EQ(allocator.reserved(), 4 * kMiB);
}

TEST(CachingAllocator, CutsLargeBlocksFromSegmentsOfTwentyMebibytes) {
  CachingAllocator allocator;
  allocator.take(kMiB + 1);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  allocator.take(9 * kMiB);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  allocator.take(512);
  EXPECT_EQ(allocator.reserved(), 22 * kMiB) << "small blocks have segments of their own";
}

TEST(CachingAllocator, RoundsSegmentsOfTheLargestBlocksToTwoMebibytes) {
  CachingAllocator allocator;
  allocator.take(10 * kMiB);
  EXPECT_EQ(allocator.reserved(), 10 * kMiB);
  allocator.take(100 * kMiB + 1);
  EXPECT_EQ(allocator.reserved(), 112 * kMiB);
  EXPECT_EQ(allocator.allocated(), 110 * kMiB + 512) << "what is left is more than a mebibyte, and is cut off";
  allocator.take(31 * kMiB);
  EXPECT_EQ(allocator.allocated(), 142 * kMiB + 512) << "of 32 MiB a mebibyte is left, and stays";
}

TEST(CachingAllocator, LeavesNoLargeRestOfAMebibyteOrLess) {
  CachingAllocator allocator;
  auto block = allocator.take(12 * kMiB);
  allocator.free(block);
  EXPECT_EQ(allocator.take(11 * kMiB), block);
  EXPECT_EQ(allocator.allocated(), 12 * kMiB) << "a rest of a mebibyte stays with the block";
  allocator.free(block);
  allocator.take(11 * kMiB - 512);
  EXPECT_EQ(allocator.allocated(), 11 * kMiB - 512);
}

TEST(CachingAllocator, TakesTheSmallestFreeBlockThatIsLargeEnough) {
  CachingAllocator allocator;
  auto large = allocator.take(40 * kMiB), medium = allocator.take(20 * kMiB), small = allocator.take(12 * kMiB);
  for (auto block : {large, medium, small}) allocator.free(block);
  EXPECT_EQ(allocator.take(18 * kMiB), medium);
  EXPECT_EQ(allocator.take(12 * kMiB), small);
  EXPECT_EQ(allocator.take(12 * kMiB), large);
  EXPECT_EQ(allocator.reserved(), 72 * kMiB);
}

TEST(CachingAllocator, JoinsFreeNeighboursOfOneSegment) {
  CachingAllocator allocator;
  auto first = allocator.take(6 * kMiB), second = allocator.take(6 * kMiB), third = allocator.take(6 * kMiB);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  allocator.free(first);
  allocator.free(third);
  EXPECT_NE(allocator.take(9 * kMiB), first) << "the holes are too small";
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
  allocator.free(second);
  EXPECT_EQ(allocator.take(20 * kMiB), first) << "now they are one";
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
  EXPECT_THROW(allocator.free(second), std::logic_error);
}

TEST(CachingAllocator, GivesBackWhatIsFreeBeforeItTakesMoreThanThereIs) {
  CachingAllocator allocator(100 * kMiB);
  auto block = allocator.take(60 * kMiB);
  auto kept = allocator.take(512);
  allocator.free(block);
  allocator.take(70 * kMiB);
  EXPECT_EQ(allocator.reserved(), 72 * kMiB);
  allocator.take(40 * kMiB);
  EXPECT_EQ(allocator.reserved(), 112 * kMiB) << "what is missing is counted";
  allocator.free(kept);
  allocator.release();
  EXPECT_EQ(allocator.reserved(), 110 * kMiB);
}

TEST(CachingAllocator, TellsTheMostOfAStretchOfTime) {
  // 30 MiB while loading, of which a block of 18 MiB is taken again; then one that fits nowhere.
  Allocations blocks{{.num_bytes = 30 * kMiB, .taken = 0, .freed = 1},
                     {.num_bytes = 18 * kMiB, .taken = 2, .freed = 5},
                     {.num_bytes = 16 * kMiB, .taken = 3},
                     {.num_bytes = 0, .taken = 4}};
  EXPECT_EQ(most_reserved(blocks, 0, 2), 30 * kMiB);
  EXPECT_EQ(most_reserved(blocks, 2, 3), 18 * kMiB) << "what is free as it begins is not counted";
  EXPECT_EQ(most_reserved(blocks, 3, 6), 46 * kMiB);
  EXPECT_EQ(most_reserved(blocks, 3, 6, 40 * kMiB), 46 * kMiB) << "a segment in use is not given back";
}

TEST(CachingAllocator, RecordingsKeepSegmentsOfTheirOwn) {
  // A step as usual, which leaves 30 MiB free; the same recorded, and what the update takes after it.
  Allocations blocks{{.num_bytes = 30 * kMiB, .taken = 0, .freed = 1},
                     {.num_bytes = 30 * kMiB, .taken = 2, .freed = 3, .is_recorded = true},
                     {.num_bytes = 20 * kMiB, .taken = 4, .freed = 5},
                     {.num_bytes = 28 * kMiB, .taken = 6, .freed = 7, .is_recorded = true}};
  EXPECT_EQ(most_reserved(blocks, 0, 2), 30 * kMiB);
  EXPECT_EQ(most_reserved(blocks, 0, 4), 30 * kMiB) << "what was free is given back before a recording";
  EXPECT_EQ(most_reserved(blocks, 0, 6), 50 * kMiB) << "a recording's memory is nobody else's";
  EXPECT_EQ(most_reserved(blocks, 0, 8), 50 * kMiB) << "all recordings have the same";
  blocks[1].is_recorded = blocks[3].is_recorded = false;
  EXPECT_EQ(most_reserved(blocks, 0, 8), 30 * kMiB);
}

}  // namespace burnish::caching_allocator_test
