#include "nn/module.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "nn/linear.h"

namespace burnish::module_test {

namespace {
struct Pair : nn::Module {
  Pair() : first(3, 4, at::TensorOptions()), second(4, 2, at::TensorOptions().device(at::kMeta), false) {
    own("first", first);
    own("inner.second", second);
  }
  nn::Linear first, second;
};
}  // namespace

TEST(Module, ParametersCarryDottedPaths) {
  Pair pair;
  std::vector<std::string> names;
  for (auto& [name, slot] : pair.parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"first.bias", "first.weight", "inner.second.weight"}));
  EXPECT_EQ(pair.num_bytes(), (12 + 4 + 8) * 4);
}

TEST(Linear, DeltaDecidesTheOutput) {
  struct Doubler : nn::Delta {
    at::Tensor forward(const nn::LinearMap& base, const at::Tensor& x) override { return base.base(x) * 2; }
  };
  nn::Linear linear(3, 4, at::TensorOptions());
  linear.weight.normal_();
  linear.bias.normal_();
  auto x = at::randn({2, 5, 3});
  auto plain = linear.forward(x);
  EXPECT_TRUE(plain.allclose(at::linear(x, linear.weight, linear.bias)));
  linear.delta = std::make_shared<Doubler>();
  EXPECT_TRUE(linear.forward(x).allclose(plain * 2));
}

}  // namespace burnish::module_test
