#include "io/safetensors_header.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, uint64_t begin, uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

std::string refusal(const std::string& json, uint64_t data_bytes) {
  return error_of([&] { io::parse_header(json, data_bytes, "some.safetensors"); });
}

std::string nested(size_t depth) { return R"({"a":)" + std::string(depth, '[') + std::string(depth, ']') + "}"; }

}  // namespace

TEST(SafetensorsHeader, GivesDtypesShapesAndPlaces) {
  auto header = io::parse_header("{" + entry("b", "BF16", "[2,3]", 4, 16) + "," + entry("a", "F32", "[]", 0, 4) + "," +
                                     entry("none", "F32", "[0,7]", 16, 16) + R"(,"__metadata__":{"format":"pt"}}   )",
                                 16, "f");
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors.at("b").dtype, c10::kBFloat16);
  EXPECT_EQ(header.tensors.at("b").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.tensors.at("b").begin, 4u);
  EXPECT_TRUE(header.tensors.at("a").shape.empty());
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, OffsetsMustTileTheData) {
  auto two = [](uint64_t a0, uint64_t a1, uint64_t b0, uint64_t b1) {
    return "{" + entry("a", "U8", fmt::format("[{}]", a1 - a0), a0, a1) + "," + entry("b", "U8", fmt::format("[{}]", b1 - b0), b0, b1) +
           "}";
  };
  EXPECT_NO_THROW(io::parse_header(two(0, 4, 4, 8), 8, "f"));
  EXPECT_THAT(refusal(two(0, 4, 3, 8), 8), HasSubstr("tensor 'b' overlaps"));
  EXPECT_THAT(refusal(two(0, 4, 0, 8), 8), HasSubstr("overlaps"));
  EXPECT_THAT(refusal(two(0, 4, 5, 8), 8), HasSubstr("1 unused bytes before tensor 'b'"));
  EXPECT_THAT(refusal(two(1, 4, 4, 8), 8), HasSubstr("1 unused bytes before tensor 'a'"));
  EXPECT_THAT(refusal(two(0, 4, 4, 8), 9), HasSubstr("the tensors end at byte 8 but the file holds 9"));
  EXPECT_THAT(refusal(two(0, 4, 4, 8), 7), AllOf(HasSubstr("tensor 'b' lies at bytes 4 to 8"), HasSubstr("holds 7")));
}

TEST(SafetensorsHeader, OffsetsMustBeAPairOfCounts) {
  for (const char* offsets : {"[4,0]", "[0]", "[0,4,8]", "[-4,0]", "[0,4.0]", "[0,1e99]", "\"0-4\"", "null", "[0,18446744073709551615]"}) {
    auto text = refusal(fmt::format(R"({{"a":{{"dtype":"F32","shape":[1],"data_offsets":{}}}}})", offsets), 4);
    EXPECT_THAT(text, HasSubstr("some.safetensors")) << offsets;
  }
}

TEST(SafetensorsHeader, BytesMustMatchShapeAndDtype) {
  EXPECT_THAT(refusal("{" + entry("a", "F32", "[2,2]", 0, 8) + "}", 8), HasSubstr("needs 16 bytes for its shape and dtype but has 8"));
  EXPECT_THAT(refusal("{" + entry("a", "F32", "[0]", 0, 4) + "}", 4), HasSubstr("needs 0 bytes"));
}

TEST(SafetensorsHeader, UnknownDtype) {
  EXPECT_THAT(refusal("{" + entry("a", "F31", "[1]", 0, 4) + "}", 4), AllOf(HasSubstr("'a'"), HasSubstr("unknown dtype \"F31\"")));
  EXPECT_THAT(refusal("{" + entry("a", std::string(5000, 'F'), "[1]", 0, 4) + "}", 4), HasSubstr("unknown dtype"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4), HasSubstr("has no dtype"));
  EXPECT_THAT(refusal(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), HasSubstr("has no dtype"));
}

TEST(SafetensorsHeader, HugeDimensionsDoNotWrapAround) {
  // 2^32 * 2^32 elements is 0 in 64 bits.
  EXPECT_THAT(refusal("{" + entry("a", "F32", "[4294967296,4294967296]", 0, 0) + "}", 0), HasSubstr("more than 2^60 bytes"));
  EXPECT_THAT(refusal("{" + entry("a", "U8", "[18446744073709551615]", 0, 0) + "}", 0), HasSubstr("impossible shape"));
  // Empty, but its strides would overflow.
  EXPECT_THAT(refusal("{" + entry("a", "U8", "[0,281474976710656,281474976710656]", 0, 0) + "}", 0), HasSubstr("more than 2^60 bytes"));
  EXPECT_THAT(refusal("{" + entry("a", "U8", "[-1]", 0, 0) + "}", 0), HasSubstr("impossible shape [-1]"));
  EXPECT_THAT(refusal("{" + entry("a", "U8", "[1.5]", 0, 1) + "}", 1), HasSubstr("impossible shape [1.5]"));
}

TEST(SafetensorsHeader, TooManyDimensions) {
  std::string ones = "[1";
  for (int i = 0; i < 5000; ++i) ones += ",1";
  EXPECT_THAT(refusal("{" + entry("a", "U8", ones + "]", 0, 1) + "}", 1), HasSubstr("impossible shape (an array of 5001)"));
}

TEST(SafetensorsHeader, DuplicateNames) {
  auto a = entry("a", "U8", "[4]", 0, 4);
  EXPECT_THAT(refusal("{" + a + "," + a + "}", 4), HasSubstr("names 'a' twice"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 4), HasSubstr("names 'dtype' twice"));
  EXPECT_NO_THROW(io::parse_header("{" + a + "," + entry("b", "U8", "[0]", 4, 4) + "}", 4, "f")) << "inner names recur";
}

TEST(SafetensorsHeader, DeepNesting) {
  EXPECT_THAT(refusal(nested(9), 0), HasSubstr("nests deeper"));
  EXPECT_THAT(refusal(nested(1'000'000), 0), HasSubstr("nests deeper"));
  // What is nested too deep must not hide a duplicate behind it.
  EXPECT_THAT(refusal(R"({"a":1,"b":{"c":{"d":{"e":{"f":{"g":{"h":{"i":{"j":1}}}}}}}},"a":1})", 0), HasSubstr("nests deeper"));
}

TEST(SafetensorsHeader, NotJson) {
  for (const auto& text : {std::string(), std::string("{"), std::string(R"({"a":)"), std::string("\x80\x02}q", 4), std::string(64, '\0'),
                           std::string("{\"a\xff\":1}"), std::string("{\"a\xc3\":1}"), std::string(R"({"a":1} trailing)")})
    EXPECT_THAT(refusal(text, 0), HasSubstr("not JSON")) << text;
  EXPECT_THAT(refusal("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("null", 0), HasSubstr("not a JSON object"));
}

TEST(SafetensorsHeader, MetadataIsTexts) {
  EXPECT_THAT(refusal(R"({"__metadata__":{"rank":16}})", 0), HasSubstr("the metadata 'rank' is not a string"));
  EXPECT_THAT(refusal(R"({"__metadata__":[]})", 0), HasSubstr("__metadata__ is not an object"));
  EXPECT_THAT(refusal(R"({"a":5})", 0), HasSubstr("the header's entry 'a' is not an object"));
}
