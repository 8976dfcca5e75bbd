#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "nn/layers.h"

namespace burnish::embedding_test {

/// Rows behind the table's are read as its own are, and take the gradient of their ids alone.
TEST(Embedding, HasRowsBehindItsTable) {
  nn::Embedding table(3, 2, at::TensorOptions().dtype(at::kBFloat16));
  table.weight.copy_(at::arange(6).view({3, 2}));
  table.added = {at::full({1, 2}, 10.), at::full({2, 2}, 20.)};
  for (auto& rows : table.added) rows.set_requires_grad(true);
  const auto ids = at::tensor({1, 3, 5, 5}, at::kLong);
  auto found = table.forward(ids);
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(found.to(at::kFloat), at::tensor({2., 3., 10., 10., 20., 20., 20., 20.}, at::kFloat).view({4, 2})));
  found.sum().backward();
  EXPECT_FALSE(table.weight.grad().defined());
  EXPECT_TRUE(at::equal(table.added[0].grad(), at::ones({1, 2})));
  EXPECT_TRUE(at::equal(table.added[1].grad(), at::tensor({0., 0., 2., 2.}, at::kFloat).view({2, 2})));
}

}  // namespace burnish::embedding_test
