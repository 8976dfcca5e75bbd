// What operators multiply is counted by their shapes, whichever kernel computes them.
#include "memory/multiplications.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/attention/attention.h"

namespace burnish::multiplications_test {

TEST(Multiplications, OfAttentionAreTwoProductsForwardAndFiveBackward) {
  constexpr int64_t kHeads = 2, kQueries = 48, kKeys = 80, kWidth = 32;
  const double product = kHeads * kQueries * kKeys * kWidth;
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    auto heads = [&](int64_t tokens) { return at::randn({1, kHeads, tokens, kWidth}).to(dtype).set_requires_grad(true); };
    const auto q = heads(kQueries), k = heads(kKeys), v = heads(kKeys);
    const memory::Multiplications counter;
    const auto y = kernels::attention(q, k, v, {}, /*causal=*/false, 0.1);
    EXPECT_EQ(counter.so_far(), 2 * product) << dtype;
    torch::autograd::grad({y}, {q, k, v}, {at::ones_like(y)});
    EXPECT_EQ(counter.so_far(), 7 * product) << dtype;
  }
}

}  // namespace burnish::multiplications_test
