// Attention in bf16 as this CPU computes it, against plain products and a softmax in fp64: values and all gradients.
#include "kernels/attention/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "kernels/attention/cpu.h"
#include "kernels/linear/linear.h"
#include "tests/relative_error.h"

using namespace burnish;
using test::relative_error;

namespace {

using Tensors = std::vector<at::Tensor>;

// bf16 has 8 digits: weights are rounded to them once, and results. ATen adds gradients up in bf16.
constexpr double kOnceRounded = 6e-3, kOfAten = 2e-2;

struct Case {
  std::string name;
  int64_t heads, queries, keys, head_dim;
  std::string bias = "none";  ///< or of "keys", of which some are masked
  bool tokens_first = true;   ///< heads of a token side by side
  double size = 1;            ///< of scores
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Bf16Attention : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto& c = GetParam();
    at::manual_seed(7);
    operands_ = {heads(c.queries) * c.size, heads(c.keys), heads(c.keys)};
    dy_ = heads(c.queries);
    if (c.bias == "keys") {
      bias_ = at::randn({2, 1, 1, c.keys}).to(at::kBFloat16);
      bias_.narrow(3, c.keys / 2, c.keys / 3).fill_(-std::numeric_limits<float>::infinity());
    }
  }
  static at::Tensor heads(int64_t tokens) {
    const auto& c = GetParam();
    auto x = c.tokens_first ? at::randn({2, tokens, c.heads, c.head_dim}).transpose(1, 2) : at::randn({2, c.heads, tokens, c.head_dim});
    return x.to(at::kBFloat16);
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(GetParam().head_dim)); }

  /// The result and the gradients of q, k and v.
  Tensors of(const std::function<at::Tensor(const Tensors&)>& attention, at::ScalarType dtype) const {
    Tensors leaves;
    for (const auto& x : operands_) leaves.push_back(x.to(dtype).detach().set_requires_grad(true));
    auto y = attention(leaves);
    auto all = torch::autograd::grad({y}, leaves, {dy_.to(dtype)});
    all.insert(all.begin(), y.detach());
    return all;
  }
  Tensors found() const {
    return of([&](const Tensors& x) { return kernels::attention(x[0], x[1], x[2], bias_, /*causal=*/false, scale()); }, at::kBFloat16);
  }
  Tensors exact() const {
    return of(
        [&](const Tensors& x) {
          auto scores = at::matmul(x[0], x[1].transpose(2, 3)) * scale();
          if (bias_.defined()) scores = scores + bias_;
          return at::matmul(at::softmax(scores, -1), x[2]);
        },
        at::kDouble);
  }

  Tensors operands_;
  at::Tensor dy_, bias_;
};

at::Tensor small(int64_t head_dim = 64) { return at::ones({1, 2, 8, head_dim}, at::kBFloat16); }

/// Whether our own computes a call of these.
bool fits(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias = {}, bool causal = false) {
  return kernels::attention_fits_cpu({q, k, k, bias, causal, 0.1});
}

}  // namespace

TEST_P(Bf16Attention, IsThatOfFp64) {
  const auto ours = found(), expected = exact();
  const auto bound = fits(operands_[0], operands_[1], bias_) ? kOnceRounded : kOfAten;
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_LE(relative_error(ours[i], expected[i]), bound) << "yqkv"[i];
}

TEST_P(Bf16Attention, IsTheSameForAnyNumberOfThreads) {
  if (!fits(operands_[0], operands_[1], bias_)) GTEST_SKIP() << "computed by ATen here";
  const auto threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = found();
  at::set_num_threads(3);
  const auto three = found();
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << "yqkv"[i];
}

INSTANTIATE_TEST_SUITE_P(Of, Bf16Attention,
                         testing::Values(Case{"tiles", 2, 512, 512, 64}, Case{"odd_ends", 3, 300, 577, 80},
                                         Case{"one_query", 4, 1, 501, 128}, Case{"two_keys", 2, 40, 2, 32}, Case{"text", 2, 280, 77, 40},
                                         Case{"masked_keys", 2, 270, 333, 128, "keys"}, Case{"heads_first", 2, 190, 190, 64, "none", false},
                                         Case{"sharp", 2, 260, 300, 64, "none", true, 20}),
                         [](const auto& info) { return info.param.name; });

TEST(Bf16AttentionOfCpus, LeavesWhatItDoesNotTakeToAten) {
  if (!fits(small(), small())) GTEST_SKIP() << "this CPU multiplies bf16 in another way or not at all";
  const auto bias_of_pairs = at::zeros({1, 1, 8, 8}, at::kBFloat16), bias_of_keys = at::zeros({1, 1, 1, 8}, at::kBFloat16);
  EXPECT_TRUE(fits(small(), small(), bias_of_keys));
  EXPECT_FALSE(fits(small(), small(), bias_of_pairs));
  EXPECT_FALSE(fits(small(), small(), bias_of_keys.clone().set_requires_grad(true)));
  EXPECT_FALSE(fits(small(), small(), {}, /*causal=*/true));
  EXPECT_FALSE(fits(small(7), small(7)));
  EXPECT_FALSE(fits(small().to(at::kFloat), small().to(at::kFloat)));
  EXPECT_FALSE(fits(small(), small().narrow(1, 0, 1)));
  EXPECT_FALSE(fits(small().transpose(2, 3), small().transpose(2, 3)));
}

TEST(Bf16AttentionOfCpus, OfAllMaskedKeysIsNothing) {
  if (!fits(small(), small())) GTEST_SKIP() << "computed by ATen here";
  auto x = small().set_requires_grad(true);
  const auto masked = at::full({1, 1, 1, 8}, -std::numeric_limits<float>::infinity(), at::kBFloat16);
  auto y = kernels::attention(x, x, x, masked, false, 0.1);
  EXPECT_TRUE(y.equal(at::zeros_like(y)));
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].equal(at::zeros_like(x)));
}
