#include "data/read_ahead.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

using burnish::data::ReadAhead;

TEST(ReadAhead, IsOrderedAndBounded) {
  for (int64_t threads : {0, 1, 3}) {
    std::atomic<int64_t> begun = 0, taken = 0, furthest = 0;
    ReadAhead<int64_t> values(100, threads, [&](int64_t i) {
      ++begun;
      furthest = std::max<int64_t>(furthest, begun - taken);
      std::this_thread::sleep_for(std::chrono::microseconds(i % 3 * 300));  // so that later ones are done first
      return i * i;
    });
    for (int64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(values.next(), i * i);
      ++taken;
    }
    EXPECT_EQ(begun, 100);
    EXPECT_LE(furthest, 2 * threads + 1) << threads;
  }
}

TEST(ReadAhead, WorksWhileNobodyWaits) {
  std::atomic<int64_t> made = 0;
  ReadAhead<int64_t> values(10, 2, [&](int64_t i) {
    ++made;
    return i;
  });
  for (int i = 0; i < 20000 && made < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(made, 4) << "two values a thread, before the first is asked for, and no more";
  EXPECT_EQ(values.next(), 0);
}

/// As a training step finds its pictures: whatever it takes to make one, the next is there before the step that comes before it is over.
TEST(ReadAhead, AStepNeverWaitsForWhatWasMadeMeanwhile) {
  constexpr int64_t kSteps = 10;
  constexpr auto kMaking = std::chrono::milliseconds(40);  // far above what a loaded machine lets a thread wait for
  std::atomic<int64_t> made = 0;
  ReadAhead<int64_t> values(kSteps, 1, [&](int64_t i) {
    std::this_thread::sleep_for(kMaking);
    ++made;
    return i;
  });
  auto waited = std::chrono::steady_clock::duration::zero();
  for (int64_t i = 0; i < kSteps; ++i) {
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(values.next(), i);
    if (i > 0) waited += std::chrono::steady_clock::now() - start;
    // A step that lasts for as long as the next value takes.
    for (int poll = 0; poll < 20000 && made < std::min(i + 2, kSteps); ++poll) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_GE(made, std::min(i + 2, kSteps)) << "nobody made the value of the next step during step " << i;
  }
  EXPECT_LT(waited, kMaking * (kSteps - 1) / 2) << "half of what making them takes";
}

TEST(ReadAhead, ThrowsInTheTurnOfWhatThrew) {
  for (int64_t threads : {0, 2}) {
    ReadAhead<int64_t> values(5, threads, [](int64_t i) {
      if (i == 2) throw std::runtime_error("the third");
      return i;
    });
    EXPECT_EQ(values.next(), 0);
    EXPECT_EQ(values.next(), 1);
    EXPECT_THROW(values.next(), std::runtime_error);
  }
}

TEST(ReadAhead, EndsBeforeAllIsTaken) {
  std::atomic<int64_t> made = 0;
  {
    ReadAhead<int64_t> values(1000, 3, [&](int64_t i) {
      ++made;
      return i;
    });
    EXPECT_EQ(values.next(), 0);
  }
  EXPECT_LE(made, 7);
}
