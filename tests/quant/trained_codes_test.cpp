// Every update rule over a weight that is kept in FP8 codes, beside a bias that is not.
#include "quant/trained_codes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/linear.h"
#include "optim/averaged.h"
#include "optim/optimizer.h"
#include "quant/store.h"
#include "tests/device.h"
#include "tests/scalar_reads.h"

using namespace burnish;

namespace {

struct Trained {
  std::unique_ptr<nn::Linear> layer;
  std::unique_ptr<optim::Optimizer> optimizer;
};

/// A layer [80, 64] (more than 4096 elements, so that 8-bit averages are used) whose weight lives in codes.
Trained trained(const std::string& name) {
  at::manual_seed(5);
  auto start = test::on_device(at::randn({80, 64}) * 0.1);
  auto layer = std::make_unique<nn::Linear>(64, 80, at::TensorOptions().device(at::kMeta), true);
  quant::Store store({.format = {}, .high_precision = {}, .trained = {""}, .gradient_dtype = at::kFloat});
  layer->set_source(store.store("weight", {.numbers = start}, test::device()));
  layer->weight.set_requires_grad(true);
  layer->bias = at::zeros({80}, test::device()).set_requires_grad(true);
  auto codes = quant::trained_codes(*layer).at("weight");
  optim::ParameterList list{{"w", layer->weight, 1, codes}, {"b", layer->bias}};
  auto optimizer = optim::make_optimizer({.name = name, .rounding = optim::Rounding::stochastic, .seed = 2}, list);
  return {std::move(layer), std::move(optimizer)};
}

void take_step(Trained& trained, uint64_t step) {
  at::manual_seed(100 + step);
  trained.layer->weight.mutable_grad() = test::on_device(at::randn({80, 64}) + 1);
  trained.layer->bias.mutable_grad() = test::on_device(at::randn({80}) + 1);
  trained.optimizer->step(1e-2);
  trained.optimizer->zero_grad();
}

optim::StateList copy_of(const optim::StateList& list) {
  optim::StateList copy;
  for (const auto& [name, tensor] : list) copy.emplace_back(name, tensor.clone());
  return copy;
}

void expect_equal(const optim::StateList& a, const optim::StateList& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].first == b[i].first && at::equal(a[i].second, b[i].second)) << a[i].first;
}

}  // namespace

class CodesUnder : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Rule, CodesUnder,
                         testing::Values("adamw", "adamw8bit", "adafactor", "lion", "prodigy", "prodigy_schedulefree", "adamw_schedulefree",
                                         "came", "muon"),
                         [](const auto& info) { return info.param; });

TEST_P(CodesUnder, StepsReadNoScalar) {
  auto layer = trained(GetParam());
  const test::ScalarReads reads;
  for (uint64_t step = 0; step < 2; ++step) take_step(layer, step);
  EXPECT_EQ(reads.count(), 0);
}

TEST_P(CodesUnder, TrainsAndResumesBitForBit) {
  auto whole = trained(GetParam()), resumed = trained(GetParam());
  auto start = copy_of(optim::values(whole.optimizer->parameters()));
  for (uint64_t step = 0; step < 4; ++step) take_step(whole, step);
  EXPECT_FALSE(at::equal(optim::values(whole.optimizer->parameters())[0].second, start[0].second)) << "no code moved";
  resumed.optimizer->load_state(copy_of(whole.optimizer->state()));
  optim::load_into("values", optim::values(resumed.optimizer->parameters()), copy_of(optim::values(whole.optimizer->parameters())));
  for (uint64_t step = 4; step < 6; ++step) {
    take_step(whole, step);
    take_step(resumed, step);
  }
  auto values = copy_of(optim::values(whole.optimizer->parameters()));
  expect_equal(values, optim::values(resumed.optimizer->parameters()));
  expect_equal(whole.optimizer->state(), resumed.optimizer->state());
  { const optim::Averaged averaged(*whole.optimizer, nullptr); }  // puts every code and scale back
  expect_equal(values, optim::values(whole.optimizer->parameters()));
}
