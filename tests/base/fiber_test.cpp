#include "base/fiber.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

using burnish::Fiber;

TEST(Fiber, TakesTurnsWithOthersWhereItPauses) {
  std::string said;
  auto count_from = [&](char first) {
    return [&said, first] {
      for (char i = 0; i < 3; ++i) {
        said += static_cast<char>(first + i);
        if (i < 2) Fiber::pause();
      }
    };
  };
  Fiber letters(count_from('a')), digits(count_from('1'));
  EXPECT_FALSE(letters.go_on());
  EXPECT_FALSE(digits.go_on());
  EXPECT_FALSE(letters.go_on());
  EXPECT_TRUE(letters.go_on());
  EXPECT_FALSE(digits.go_on());
  EXPECT_TRUE(digits.go_on());
  EXPECT_EQ(said, "a1bc23");
  EXPECT_THROW(digits.go_on(), std::logic_error);
}

TEST(Fiber, ThrowsWhatItsWorkThrowsWhereItWasToldToGoOn) {
  Fiber fiber([] {
    Fiber::pause();
    throw std::runtime_error("no more");
  });
  EXPECT_FALSE(fiber.go_on());
  EXPECT_THROW(fiber.go_on(), std::runtime_error);
  EXPECT_THROW(fiber.go_on(), std::logic_error) << "it has ended";
}

TEST(Fiber, LetsGoOfWhatItsWorkHoldsWhenItIsGivenUp) {
  auto held = std::make_shared<int>(1);
  {
    Fiber begun([held] {
      const auto own = held;
      Fiber::pause();
      FAIL() << "nobody told it to go on";
    });
    EXPECT_FALSE(begun.go_on());
    Fiber never([held] { FAIL(); });
    EXPECT_EQ(held.use_count(), 4);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Fiber, MayHaveAnotherGoOn) {
  std::vector<int> said;
  Fiber outer([&] {
    Fiber inner([&] {
      said.push_back(1);
      Fiber::pause();
      said.push_back(3);
    });
    inner.go_on();
    said.push_back(2);
    Fiber::pause();
    inner.go_on();
  });
  EXPECT_FALSE(outer.go_on());
  EXPECT_TRUE(outer.go_on());
  EXPECT_EQ(said, (std::vector<int>{1, 2, 3}));
  EXPECT_THROW(Fiber::pause(), std::logic_error);
}

TEST(Fiber, HasAStackForDeepCalls) {
  struct Deep {
    static int sum(int n) {
      volatile char room[1024] = {};
      return n == 0 ? room[0] : sum(n - 1) + 1;
    }
  };
  int depth = 0;
  Fiber fiber([&] { depth = Deep::sum(2000); });
  EXPECT_TRUE(fiber.go_on());
  EXPECT_EQ(depth, 2000);
}
