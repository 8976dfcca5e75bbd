// Id-for-id equality with transformers on 2,000 strings, with the real vocabularies of CLIP-L and T5.
#include "tokenizers/tokenizer.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "io/safetensors.h"

using namespace burnish;
namespace fs = std::filesystem;

namespace {

const fs::path kGolden = fs::path(BURNISH_SOURCE_DIR) / "tests/golden/tokenizers";

void expect_golden(const tokenizers::Tokenizer& tokenizer, const std::string& name, int64_t padded_length) {
  auto texts = io::read_json(kGolden / "strings.json").get<std::vector<std::string>>();
  ASSERT_EQ(texts.size(), 2000u);
  auto file = io::SafetensorsFile::open(kGolden / "ids.safetensors");
  auto ids = file->tensor(name + ".ids"), ends = file->tensor(name + ".ends"), sums = file->tensor(name + ".padded_sum"),
       last = file->tensor(name + ".last");
  const auto* flat = ids.const_data_ptr<int32_t>();
  int64_t begin = 0, wrong = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    auto end = ends.const_data_ptr<int32_t>()[i];
    std::vector<int64_t> expected(flat + begin, flat + end);
    begin = end;
    auto found = tokenizer.encode(texts[i]);
    if (found != expected && ++wrong <= 5) {
      auto first = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first - expected.begin();
      auto window = [&](const std::vector<int64_t>& v) {
        auto from = std::min(first, std::ssize(v)), to = std::min(first + 12, std::ssize(v));
        return testing::PrintToString(std::vector<int64_t>(v.begin() + from, v.begin() + to));
      };
      ADD_FAILURE() << name << " string " << i << " from token " << first << ": expected " << window(expected) << ", found "
                    << window(found) << "\n"
                    << texts[i];
      continue;
    }
    auto padded = tokenizer.encode_padded(texts[i], padded_length);
    ASSERT_EQ(std::ssize(padded.ids), padded_length);
    int64_t sum = 0;
    for (size_t k = 0; k < padded.ids.size(); ++k) sum += padded.ids[k] * static_cast<int64_t>(k + 1);
    if (found == expected) {
      EXPECT_EQ(sum, sums.const_data_ptr<int64_t>()[i]) << name << " string " << i;
      EXPECT_EQ(padded.ids.back(), last.const_data_ptr<int32_t>()[i]);
      EXPECT_EQ(padded.truncated, std::ssize(expected) > padded_length);
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace

TEST(Tokenizer, ClipPadsWithTheTokenAskedFor) {
  auto plain = tokenizers::load_clip(kGolden / "clip")->encode_padded("a cat", 8);
  auto padded = tokenizers::load_clip(kGolden / "clip", "!")->encode_padded("a cat", 8);
  EXPECT_EQ(plain.ids.back(), 49407);
  EXPECT_EQ(padded.ids.back(), 0);
  EXPECT_EQ(padded.ids[3], 49407);  // the end token stays
  EXPECT_EQ(padded.num_tokens, plain.num_tokens);
  EXPECT_THROW(tokenizers::load_clip(kGolden / "clip", "no such token"), Error);
}

TEST(Tokenizer, ClipEqualsTransformers) { expect_golden(*tokenizers::load_clip(kGolden / "clip"), "clip", 77); }

TEST(Tokenizer, T5EqualsTransformers) { expect_golden(*tokenizers::load_t5(kGolden / "t5"), "t5", 512); }

TEST(Tokenizer, LengthLimitsAreRead) {
  EXPECT_EQ(tokenizers::load_clip(kGolden / "clip")->model_max_length(), 77);
  EXPECT_EQ(tokenizers::load_t5(kGolden / "t5")->model_max_length(), 512);
}

TEST(Tokenizer, MissingFilesAreNamed) {
  EXPECT_THROW(tokenizers::load_clip("/nowhere"), Error);
  EXPECT_THROW(tokenizers::load_t5("/nowhere"), Error);
}
