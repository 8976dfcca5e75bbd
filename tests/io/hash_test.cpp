#include "io/hash.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/scratch.h"

using namespace burnish;

// The values of RFC 3720, B.4, and the check value of the catalogue of CRC algorithms.
TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(io::crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(io::crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(io::crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(io::crc32c(""), 0u);
}

// What `git hash-object` prints.
TEST(GitBlobHash, IsGits) {
  test::Scratch scratch;
  EXPECT_EQ(io::git_blob_hash(scratch.write("hello", "hello")), "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0");
  EXPECT_EQ(io::git_blob_hash(scratch.write("empty", "")), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}
