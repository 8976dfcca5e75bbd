#include "memory/transfer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/device.h"

namespace burnish::transfer_test {

TEST(Transfer, WhatGoesToTheDeviceAndBackIsWhatItWas) {
  at::manual_seed(3);
  memory::Upload upload(test::device());
  for (int round = 0; round < 3; ++round) {  // memory of earlier rounds is used again
    auto numbers = at::randn({5}), codes = at::randint(256, {7}).to(at::kByte);
    auto there = upload.begin(numbers), codes_there = upload.begin(codes);
    upload.wait();
    EXPECT_EQ(there.device().type(), test::device().type());
    const memory::Numbers back({there * 2, codes_there.to(at::kFloat), there.sum()});
    auto expected = at::cat({numbers.to(at::kDouble) * 2, codes.to(at::kDouble), (there.sum()).cpu().to(at::kDouble).view({1})});
    auto read = back.read();
    EXPECT_TRUE(back.are_there());
    EXPECT_TRUE(at::equal(at::tensor(read, at::kDouble), expected));
  }
}

TEST(Transfer, NumbersAreThoseOfTheTimeTheyWereAskedFor) {
  auto number = at::ones({}, test::device());
  const memory::Numbers one({number});
  number.fill_(2);
  EXPECT_THAT(one.read(), testing::ElementsAre(1));
}

}  // namespace burnish::transfer_test
