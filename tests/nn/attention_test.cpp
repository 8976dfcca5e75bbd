// Every attention that models ask for is computed by tiles: no matrix of all pairs of tokens is ever whole.
#include "nn/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/allocations.h"

namespace burnish::attention_test {

namespace {

constexpr int64_t kTokens = 1536;

struct Case {
  std::string name;
  int64_t heads = 1, head_dim = 64, keys = kTokens;
  std::string bias = "none";  ///< or "mask" [1, 1, 1, keys], "of pairs" [1, heads, tokens, keys]
  bool causal = false, channels_last = true;
  c10::ScalarType dtype = at::kFloat;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class TiledAttention : public testing::TestWithParam<Case> {
 protected:
  static at::Tensor heads(int64_t tokens) {
    const auto& c = GetParam();
    auto options = at::TensorOptions().dtype(c.dtype);
    auto x = c.channels_last ? at::randn({1, c.heads, tokens, c.head_dim}, options)
                             : at::randn({1, c.heads, c.head_dim, tokens}, options).transpose(2, 3);
    return x.set_requires_grad(true);
  }
  static at::Tensor bias() {
    if (GetParam().bias == "none") return {};
    std::vector<int64_t> sizes{1, 1, 1, GetParam().keys};
    if (GetParam().bias == "of pairs") sizes = {1, GetParam().heads, kTokens, GetParam().keys};
    return at::randn(sizes, at::TensorOptions().dtype(GetParam().dtype));
  }
};

}  // namespace

TEST_P(TiledAttention, HoldsNoMatrixOfAllPairs) {
  const auto& c = GetParam();
  auto q = heads(kTokens), k = heads(c.keys), v = heads(c.keys), pairs = bias();
  auto dy = at::randn({1, c.heads, kTokens, c.head_dim}, q.options());
  const auto of_pairs = c.heads * kTokens * c.keys * c10::elementSize(c.dtype);
  const auto of_heads = c.heads * kTokens * c.head_dim * int64_t{4};
  ASSERT_GT(static_cast<int64_t>(of_pairs), of_heads) << "the case shows nothing";
  test::Allocations counter;
  auto y = nn::attention(q, k, v, pairs, c.causal);
  torch::autograd::grad({y}, {q, k, v}, {dy});
  EXPECT_LT(counter.largest(), static_cast<int64_t>(of_pairs));
}

/// And a bias that trains is what that is seen by.
TEST(TrainedBias, IsWhereTheMatrixIsWhole) {
  auto q = at::randn({1, 2, 256, 8}), bias = at::randn({1, 1, 256, 256}).set_requires_grad(true);
  test::Allocations counter;
  auto y = nn::attention(q, q, q, bias);
  EXPECT_GE(counter.largest(), 2 * 256 * 256 * 4);
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {bias})[0].defined());
}

INSTANTIATE_TEST_SUITE_P(
    Of, TiledAttention,
    testing::Values(
        Case{.name = "flux", .heads = 2, .head_dim = 128}, Case{.name = "flux_bf16", .heads = 2, .head_dim = 128, .dtype = at::kBFloat16},
        Case{.name = "masked_texts", .heads = 2, .head_dim = 128, .bias = "mask"},
        Case{.name = "masked_texts_bf16", .heads = 2, .head_dim = 128, .bias = "mask", .dtype = at::kBFloat16},
        Case{.name = "sdxl", .heads = 2, .head_dim = 64}, Case{.name = "sdxl_text", .heads = 2, .head_dim = 64, .keys = 77},
        Case{.name = "sd15_40", .heads = 2, .head_dim = 40}, Case{.name = "sd15_160_fp16", .heads = 2, .head_dim = 160, .dtype = at::kHalf},
        Case{.name = "t5", .heads = 2, .bias = "of pairs"}, Case{.name = "clip_or_qwen", .heads = 2, .causal = true},
        Case{.name = "autoencoder", .head_dim = 512}, Case{.name = "causal_autoencoder", .head_dim = 384, .channels_last = false}),
    [](const auto& info) { return info.param.name; });

}  // namespace burnish::attention_test
