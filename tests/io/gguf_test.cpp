#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "io/checkpoint_files.h"
#include "io/gguf_file.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using testing::HasSubstr;

namespace {

std::string bytes_of_file() { return test::content(test::golden_path("coded/blocks.gguf")); }

/// Where a text stands in a file's header.
size_t place_of(const std::string& bytes, const std::string& text) {
  auto place = bytes.find(text);
  EXPECT_NE(place, std::string::npos) << text;
  return place;
}

template <class T>
std::string with(std::string bytes, size_t place, T value) {
  std::memcpy(bytes.data() + place, &value, sizeof(value));
  return bytes;
}

std::string refusal(const std::string& bytes) {
  return test::error_of([&] { io::GgufHeader::parse(bytes, "file.gguf"); });
}

}  // namespace

TEST(Gguf, NumbersAndBytesAreViewsOfTheFile) {
  auto source = test::golden("coded/blocks.gguf");
  EXPECT_EQ(source.metadata().at("general.architecture"), "flux");
  EXPECT_EQ(source.metadata().at("comfy.gguf.orig_shape.conv.weight"), "32,16,3,3");
  EXPECT_EQ(source.info("half.weight").dtype, at::kHalf);
  EXPECT_EQ(source.tensor("half.weight").sizes(), at::IntArrayRef({3, 5}));
  EXPECT_EQ(source.tensor("norm.bias").scalar_type(), at::kFloat);
  EXPECT_EQ(source.info("q4_k.weight").kind(), CodeKind::q4_k);
  EXPECT_EQ(source.tensor("q4_k.weight").sizes(), at::IntArrayRef({3, 288}));
  EXPECT_FALSE(source.info("bf16.weight").codes.has_value());
  source.release("q4_k.weight");
}

TEST(Gguf, DamageIsADataErrorThatSaysIt) {
  const auto bytes = bytes_of_file();
  EXPECT_EQ(io::GgufHeader::parse(bytes, "file.gguf").tensors.size(), 16u);
  EXPECT_THAT(refusal(with(bytes, 0, 'X')), HasSubstr("does not begin as a GGUF file"));
  EXPECT_THAT(refusal(with(bytes, 4, uint32_t{1})), HasSubstr("version 1"));
  EXPECT_THAT(refusal(with(bytes, 8, uint64_t{1} << 60)), HasSubstr("more than the file has bytes"));
  EXPECT_THAT(refusal(bytes.substr(0, bytes.size() - 64)), HasSubstr("reaches beyond the file's"));
  // Behind a name stand the number of sides, the sides, the type and the place.
  const auto tensor = place_of(bytes, "q4_k.weight") + 11;
  EXPECT_THAT(refusal(with(bytes, tensor, uint32_t{9})), HasSubstr("'q4_k.weight' has 9 sides"));
  EXPECT_THAT(refusal(with(bytes, tensor + 4, uint64_t{0})), HasSubstr("'q4_k.weight' has a side of 0"));
  EXPECT_THAT(refusal(with(bytes, tensor + 4, ~uint64_t{0})), HasSubstr("'q4_k.weight' has a side of"));
  EXPECT_THAT(refusal(with(bytes, tensor + 4, uint64_t{511})), HasSubstr("no whole blocks of Q4_K"));
  EXPECT_THAT(refusal(with(bytes, tensor + 20, uint32_t{18})), HasSubstr("is in IQ3_XXS, which is not read here"));
  EXPECT_THAT(refusal(with(bytes, tensor + 20, uint32_t{777})), HasSubstr("GGUF's type 777"));
  EXPECT_THAT(refusal(with(bytes, tensor + 24, uint64_t{1} << 40)), HasSubstr("reaches beyond the file's"));
  EXPECT_THAT(refusal(with(bytes, tensor + 24, uint64_t{8})), HasSubstr("does not begin at a multiple of 32"));
  EXPECT_THAT(refusal(with(bytes, tensor + 24, uint64_t{0})), HasSubstr("overlap"));
  EXPECT_THAT(refusal(with(bytes, place_of(bytes, "general.architecture") + 20, uint32_t{99})), HasSubstr("unknown type 99"));
}

/// A type that takes fewer bytes leaves bytes that are no tensor's.
TEST(Gguf, ATypeThatDoesNotFitItsBytesIsDamage) {
  const auto bytes = bytes_of_file();
  const auto type = place_of(bytes, "q4_k.weight") + 11 + 20;
  EXPECT_THAT(refusal(with(bytes, type, uint32_t{10})), HasSubstr("'q4_k.weight' has 504 bytes, and 864 lie up to the next one"));
  EXPECT_THAT(refusal(bytes + std::string(32, '\0')), HasSubstr("its type or its shape is damaged"));
}

TEST(Gguf, NoByteOfTheHeaderMakesItReadBeyondTheFile) {
  const auto bytes = bytes_of_file();
  for (size_t length = 0; length < 2000; length += 3) EXPECT_NE(refusal(bytes.substr(0, length)), "") << length;
  for (size_t place = 0; place < 2000; ++place) {
    for (unsigned char value : {0x00, 0x01, 0x7f, 0xff}) {
      const auto damaged = with(bytes, place, value);
      try {
        auto header = io::GgufHeader::parse(damaged, "file.gguf");
        for (const auto& [name, info] : header.tensors) EXPECT_LE(info.end, damaged.size()) << name << " " << place;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::data) << error.what();
      }
    }
  }
}
