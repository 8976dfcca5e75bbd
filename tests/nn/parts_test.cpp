// Modulations of blocks: side by side in one tensor, and done with in backward block by block.
#include "nn/parts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace burnish::parts_test {
using testing::ElementsAre;

namespace {

constexpr int64_t kBlocks = 3, kWidth = 4;

/// Three blocks, each scaled by what a layer of its own makes of one condition.
struct Model {
  Model() {
    at::manual_seed(3);
    condition = at::randn({2, kWidth}).requires_grad_();
    for (int64_t i = 0; i < kBlocks; ++i) {
      modulations.push_back(at::randn({(i + 1) * kWidth, kWidth}).requires_grad_());
      weights.push_back(at::randn({kWidth, kWidth}).requires_grad_());
    }
  }
  at::Tensor modulate() const {
    auto shared = at::silu(condition);
    std::vector<std::function<at::Tensor()>> parts;
    for (const auto& weight : modulations) parts.emplace_back([&weight, shared] { return at::linear(shared, weight); });
    return nn::joined(parts);
  }
  at::Tensor plain() const {
    auto shared = at::silu(condition);
    std::vector<at::Tensor> parts;
    for (const auto& weight : modulations) parts.push_back(at::linear(shared, weight));
    return at::cat(parts, -1);
  }
  at::Tensor run(const at::Tensor& modulation) const {
    nn::Parts parts(modulation, {kWidth, 2 * kWidth, 3 * kWidth});
    auto x = at::ones({2, kWidth});
    for (const auto& weight : weights) {
      auto modulation_of = parts.next();
      x = at::tanh(at::linear(x, weight)) * modulation_of.narrow(1, 0, kWidth);
    }
    return x.square().sum();
  }
  std::vector<at::Tensor> leaves() const {
    std::vector<at::Tensor> all{condition};
    all.insert(all.end(), modulations.begin(), modulations.end());
    all.insert(all.end(), weights.begin(), weights.end());
    return all;
  }
  std::vector<at::Tensor> gradients(const at::Tensor& loss) const {
    torch::autograd::backward({loss}, {});
    std::vector<at::Tensor> all;
    for (auto leaf : leaves()) {
      all.push_back(leaf.grad().clone());
      leaf.mutable_grad() = at::Tensor();
    }
    return all;
  }
  at::Tensor condition;
  std::vector<at::Tensor> modulations, weights;
};

/// Writes down when a gradient is there.
class Note final : public torch::autograd::PostAccumulateGradHook {
 public:
  Note(std::vector<std::string>& notes, std::string name) : notes_(notes), name_(std::move(name)) {}
  void operator()(const torch::autograd::Variable& /*parameter*/) override { notes_.push_back(name_); }

 private:
  std::vector<std::string>& notes_;
  std::string name_;
};

std::vector<std::string> order_of(const Model& model, const at::Tensor& modulation) {
  std::vector<std::string> order;
  for (size_t i = 0; i < kBlocks; ++i) {
    auto number = std::to_string(i);
    torch::autograd::impl::set_post_acc_grad_hooks(model.modulations[i], std::make_unique<Note>(order, "modulation " + number));
    torch::autograd::impl::set_post_acc_grad_hooks(model.weights[i], std::make_unique<Note>(order, "block " + number));
  }
  torch::autograd::backward({model.run(modulation)}, {});
  return order;
}

}  // namespace

TEST(Parts, GiveTheBitsOfOneTensor) {
  Model model;
  EXPECT_TRUE(at::equal(model.modulate(), model.plain()));
  auto gradients = model.gradients(model.run(model.modulate())), expected = model.gradients(model.run(model.plain()));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(gradients[i], expected[i])) << i;
}

TEST(Parts, GradientsComeBlockByBlock) {
  Model model;
  EXPECT_THAT(order_of(model, model.modulate()),
              ElementsAre("block 2", "modulation 2", "block 1", "modulation 1", "block 0", "modulation 0"));
  EXPECT_THAT(order_of(model, model.plain()), ElementsAre("block 2", "block 1", "block 0", "modulation 2", "modulation 1", "modulation 0"))
      << "what they are for";
}

TEST(Parts, AsOneTensorTheyHaveTheSameGradients) {
  Model model;
  auto weights = at::randn({2, 6 * kWidth});
  auto gradients = model.gradients((model.modulate() * weights).sum() + 0 * model.run(model.modulate())),
       expected = model.gradients((model.plain() * weights).sum() + 0 * model.run(model.plain()));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::allclose(gradients[i], expected[i], 1e-6, 1e-6)) << i;
}

TEST(Parts, WithoutGradientsTheyAreTheirTensor) {
  Model model;
  at::NoGradGuard no_grad;
  auto whole = model.modulate();
  EXPECT_FALSE(whole.requires_grad());
  nn::Parts parts(whole, {kWidth, 5 * kWidth});
  EXPECT_TRUE(at::equal(parts.next(), whole.narrow(1, 0, kWidth)));
  EXPECT_TRUE(at::equal(parts.next(), whole.narrow(1, kWidth, 5 * kWidth)));
}

}  // namespace burnish::parts_test
