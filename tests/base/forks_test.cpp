#include "base/forks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/scratch.h"

using namespace burnish;

namespace {

std::vector<std::string> texts(int64_t count, int64_t at_once, const std::function<std::string(int64_t)>& text) {
  std::vector<std::string> all;
  in_forks(count, at_once, text, [&](int64_t i, const std::string& one) {
    EXPECT_EQ(i, std::ssize(all)) << "in order";
    all.push_back(one);
  });
  return all;
}

}  // namespace

TEST(Forks, TextsComeInOrder) {
  for (int64_t at_once : {0, 1, 3, 9}) {
    EXPECT_EQ(texts(5, at_once, [](int64_t i) { return std::to_string(i * i); }), (std::vector<std::string>{"0", "1", "4", "9", "16"}));
  }
  EXPECT_TRUE(texts(0, 2, [](int64_t) { return "none"; }).empty());
}

TEST(Forks, LongTextsArriveWhole) {
  const auto all = texts(2, 2, [](int64_t i) { return std::string(static_cast<size_t>(300'000 + i), 'a'); });
  EXPECT_EQ(all.at(0).size(), 300'000u);
  EXPECT_EQ(all.at(1).size(), 300'001u);
}

TEST(Forks, OneThatEndsEarlyHasNoText) {
  const auto all = texts(3, 2, [](int64_t i) -> std::string {
    if (i == 0) throw std::runtime_error("no");
    if (i == 1) std::abort();
    return "there";
  });
  EXPECT_EQ(all, (std::vector<std::string>{"", "", "there"}));
}

TEST(Forks, OneThatTakesLongHoldsUpNoOther) {
  test::Scratch scratch;
  const auto sign = scratch / "sign";
  const auto all = texts(3, 2, [&](int64_t i) -> std::string {
    if (i == 2) std::ofstream(sign) << "here";
    for (int waits = 0; i == 0 && waits < 1000 && !std::filesystem::exists(sign); ++waits)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return std::filesystem::exists(sign) ? "seen" : "not seen";
  });
  EXPECT_EQ(all.at(0), "seen") << "the third starts when the second has ended, while the first still runs";
}
