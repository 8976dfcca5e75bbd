// What every update rule gets from Optimizer: stores, rounding, versions, parts of a step, states.
#include "optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/random_key.h"

namespace burnish::optimizer_test {
using namespace burnish::optim;

namespace {

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  at::manual_seed(seed);
  return at::randn(shape);
}

/// Subtracts the gradient through raw memory, so that nothing but Optimizer can tell that something was written.
class Subtract final : public UpdateRule {
 public:
  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    return {{"seen", zeros_for(parameter)},
            {"blocks", zeros_for(parameter, {(parameter.value.numel() + 3) / 4}), 4},
            {"calls", zeros_for(parameter, {1}), 0}};
  }
  int64_t granule(int64_t) const override { return 4; }
  void apply(const Batch& batch) override {
    for (size_t i = 0; i < batch.values.size(); ++i) {
      auto* value = batch.values[i].mutable_data_ptr<float>();
      for (int64_t k = 0; k < batch.values[i].numel(); ++k) value[k] -= static_cast<float>(batch.lr) * batch.gradients[i][k].item<float>();
      batch.slots[i][0].copy_(batch.gradients[i]);
      batch.slots[i][1].add_(1);
      batch.slots[i][2].add_(1);
    }
  }
};

std::unique_ptr<Optimizer> subtracting(ParameterList list, Rounding rounding = Rounding::nearest) {
  complete(list, rounding);
  std::vector<RulePtr> rules(list.size(), std::make_shared<Subtract>());
  return std::make_unique<Optimizer>(std::move(list), rules, 0);
}

}  // namespace

TEST(Optimizer, MarksAllThatARuleWrote) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic, Rounding::remainder}) {
      const at::Tensor value = at::ones({5, 3}, dtype).set_requires_grad(true), still = at::ones({4}, dtype).set_requires_grad(true);
      const auto optimizer = subtracting({{"p", value}, {"still", still}}, rounding);
      value.mutable_grad() = at::full({5, 3}, 0.5, dtype);
      const auto version = value._version(), still_version = still._version();
      optimizer->step(1);
      EXPECT_TRUE((value == 0.5).all().item<bool>());
      EXPECT_GT(value._version(), version);
      EXPECT_EQ(still._version(), still_version);  // it had no gradient
    }
  }
}

TEST(Optimizer, CutsSlotsAsItCutsValues) {
  const at::Tensor value = random({700, 503}, 1).to(at::kBFloat16).set_requires_grad(true);  // longer than a batch, no multiple of 4
  const auto optimizer = subtracting({{"p", value}});
  value.mutable_grad() = random({700, 503}, 2).to(at::kBFloat16);
  optimizer->step(0);
  const StateList state = optimizer->state();
  ASSERT_EQ(state.size(), 4u);
  EXPECT_EQ(state[0].first, "p.seen");
  EXPECT_TRUE(at::equal(state[0].second, value.grad().to(at::kFloat)));
  EXPECT_TRUE((state[1].second == 1).all().item<bool>());
  EXPECT_EQ(state[2].second.item<float>(), 2);
  EXPECT_EQ(state[3].second.item<int64_t>(), 1);
}

TEST(Optimizer, InPartsEqualsOneStep) {
  const auto run = [](bool in_parts) {
    const at::Tensor a = random({50, 4}, 1).to(at::kBFloat16).set_requires_grad(true), b = random({9}, 2).set_requires_grad(true);
    const auto optimizer = make_optimizer({.rounding = Rounding::stochastic, .seed = 5}, {{"a", a}, {"b", b, 0.5}});
    for (uint64_t step = 0; step < 4; ++step) {
      a.mutable_grad() = random({50, 4}, 10 + step).to(at::kBFloat16);
      b.mutable_grad() = random({9}, 20 + step);
      if (!in_parts) {
        optimizer->step(1e-2);
        continue;
      }
      optimizer->begin(1e-2);
      optimizer->update(1);
      optimizer->update(1);  // has been updated
      if (step % 2 == 0) optimizer->update(0);
      b.mutable_grad() = at::Tensor();
      optimizer->finish();
    }
    return std::pair(a.detach(), b.detach());
  };
  EXPECT_TRUE(at::equal(run(false).first, run(true).first));
  EXPECT_TRUE(at::equal(run(false).second, run(true).second));
}

TEST(Optimizer, AdamWIsTheFusedOperatorBitForBit) {
  const at::Tensor start = random({600, 500}, 3);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor value = start.to(dtype, false, true).set_requires_grad(true), expected = start.to(dtype, false, true);
    const auto optimizer =
        make_optimizer({.weight_decay = 0.1, .rounding = Rounding::stochastic, .seed = 7}, {{"first", at::ones({2})}, {"p", value}});
    const at::Tensor exp_avg = at::zeros({600, 500}), exp_avg_sq = at::zeros({600, 500});
    const int64_t part = dtype == at::kFloat ? start.numel() : int64_t{1} << 18;
    for (int64_t step = 1; step <= 3; ++step) {
      const at::Tensor gradient = random({600, 500}, 10 + static_cast<uint64_t>(step)).to(dtype);
      value.mutable_grad() = gradient;
      optimizer->step(1e-3);
      CounterRandom keys(RandomKey{7, static_cast<uint64_t>(step), 1, Purpose::rounding}.value());
      for (int64_t begin = 0; begin < start.numel(); begin += part) {
        const auto cut = [&](const at::Tensor& t) { return t.view({-1}).narrow(0, begin, std::min(part, start.numel() - begin)); };
        at::Tensor exact = cut(expected).to(at::kFloat), count = at::full({}, static_cast<float>(step));
        at::_fused_adamw_({exact}, {cut(gradient).to(at::kFloat)}, {cut(exp_avg)}, {cut(exp_avg_sq)}, {}, {count}, 1e-3, 0.9, 0.999, 0.1,
                          1e-8, false, false);
        if (dtype == at::kBFloat16) round_stochastically(exact, cut(expected), keys.next());
      }
    }
    EXPECT_TRUE(at::equal(value.detach(), expected)) << dtype;
    EXPECT_TRUE(at::equal(optimizer->state()[3].second, exp_avg));
    EXPECT_EQ(optimizer->state()[4].first, "p.exp_avg_sq");
    EXPECT_TRUE(at::equal(optimizer->state()[4].second, exp_avg_sq));
  }
}

TEST(Optimizer, GroupsHaveTheirOwnRateAndDecay) {
  const at::Tensor a = at::ones({3}).set_requires_grad(true), b = at::ones({3}).set_requires_grad(true);
  NamedParameter fast{"b", b, 2};
  fast.weight_decay = 0;
  const auto optimizer = make_optimizer({.weight_decay = 0.5}, {{"a", a}, fast});
  a.mutable_grad() = at::ones({3});
  b.mutable_grad() = at::ones({3});
  optimizer->step(0.1);
  EXPECT_NEAR(a[0].item<double>(), 1 - 0.1 * 0.5 - 0.1, 1e-6);
  EXPECT_NEAR(b[0].item<double>(), 1 - 0.2, 1e-6);
}

}  // namespace burnish::optimizer_test
