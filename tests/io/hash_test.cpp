#include "io/hash.h"

#include <gtest/gtest.h>

#include <string>

using namespace burnish;

// The values of RFC 3720, B.4, and the check value of the catalogue of CRC algorithms.
TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(io::crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(io::crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(io::crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(io::crc32c(""), 0u);
}
