#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "io/safetensors.h"
#include "optim/optimizer.h"
#include "optim/rounding.h"
#include "tests/places.h"

namespace burnish::adamw_test {
using namespace burnish::optim;

namespace {

constexpr int kNumParameters = 5, kNumSteps = 20;

std::shared_ptr<io::SafetensorsFile> golden() {
  return io::SafetensorsFile::open(std::string(test::kCheckout) + "/tests/golden/optim.safetensors");
}

double relative(const at::Tensor& actual, const at::Tensor& expected) {
  return ((actual - expected).norm() / expected.norm()).item<double>();
}

ParameterList start(io::SafetensorsFile& file, at::ScalarType dtype = at::kFloat) {
  ParameterList list;
  for (int i = 0; i < kNumParameters; ++i) {
    at::Tensor value = file.tensor("start." + std::to_string(i)).to(dtype, false, true);
    list.push_back({"p" + std::to_string(i), value.set_requires_grad(true)});
  }
  return list;
}

void golden_step(io::SafetensorsFile& file, Optimizer& optimizer, int step) {
  for (int i = 0; i < kNumParameters; ++i) {
    const std::string name = fmt::format("grad.{}.{}", step, i);
    const at::Tensor& value = optimizer.parameters()[i].value;
    if (file.tensors().contains(name)) value.mutable_grad() = file.tensor(name).to(value.scalar_type(), false, true);
  }
  optimizer.step(0.01 * (step + 1) / kNumSteps);
  optimizer.zero_grad();
}

using StateMap = std::map<std::string, at::Tensor>;

StateMap copy_of(const Optimizer& optimizer) {
  StateMap map;
  for (const auto& [name, tensor] : optimizer.state()) map[name] = tensor.clone();
  return map;
}

StateList list_of(const StateMap& map) { return {map.begin(), map.end()}; }

ParameterList copy_of(const ParameterList& list) {
  ParameterList copy;
  for (const auto& p : list) copy.push_back({p.name, p.value.detach().clone().set_requires_grad(true), p.lr_factor});
  return copy;
}

}  // namespace

TEST(AdamW, EqualsTorch) {
  const auto file = golden();
  for (const std::string decay : {"0.0", "0.1"}) {
    OptimizerOptions options;
    options.weight_decay = std::stod(decay);
    const auto optimizer = make_optimizer(options, start(*file));
    double worst = 0;
    for (int step = 0; step < kNumSteps; ++step) {
      golden_step(*file, *optimizer, step);
      for (int i = 0; i < kNumParameters; ++i) {
        const at::Tensor expected = file->tensor(fmt::format("{}.param.{}.{}", decay, i, step + 1));
        worst = std::max(worst, relative(optimizer->parameters()[i].value, expected));
      }
    }
    EXPECT_LE(worst, 1e-7) << decay;
  }
}

TEST(AdamW, ResumeEqualsUninterruptedBitForBit) {
  const auto file = golden();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    OptimizerOptions options;
    options.rounding = Rounding::stochastic;
    options.seed = 3;
    const auto whole = make_optimizer(options, start(*file, dtype));
    for (int step = 0; step < 7; ++step) golden_step(*file, *whole, step);
    const auto resumed = make_optimizer(options, copy_of(whole->parameters()));
    resumed->load_state(list_of(copy_of(*whole)));
    for (int step = 7; step < kNumSteps; ++step) {
      golden_step(*file, *whole, step);
      golden_step(*file, *resumed, step);
    }
    for (int i = 0; i < kNumParameters; ++i) EXPECT_TRUE(at::equal(whole->parameters()[i].value, resumed->parameters()[i].value)) << i;
    const StateMap states = copy_of(*resumed);
    for (const auto& [name, tensor] : whole->state()) EXPECT_TRUE(at::equal(tensor, states.at(name))) << name;
  }
}

TEST(AdamW, LowPrecisionIsTheFp32UpdateRoundedOnce) {
  // Longer than a batch of copies, beside small ones, and one that is not contiguous.
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(0);
  std::vector<at::Tensor> starts = {at::randn({700, 1000}, generator, at::TensorOptions()), at::randn({5}, generator, at::TensorOptions()),
                                    at::randn({8, 6}, generator, at::TensorOptions())};
  ParameterList low, exact;
  for (size_t i = 0; i < starts.size(); ++i) {
    at::Tensor value = starts[i].to(at::kBFloat16);
    if (i == 2) value = value.t().contiguous().t();
    low.push_back({std::to_string(i), value.set_requires_grad(true)});
    exact.push_back({std::to_string(i), value.detach().to(at::kFloat).contiguous().set_requires_grad(true)});
    const at::Tensor gradient = at::randn(starts[i].sizes(), generator, at::TensorOptions()).to(at::kBFloat16);
    low[i].value.mutable_grad() = gradient;
    exact[i].value.mutable_grad() = gradient.to(at::kFloat);
  }
  make_optimizer({}, low)->step(1e-3);
  make_optimizer({}, exact)->step(1e-3);
  for (size_t i = 0; i < low.size(); ++i) {
    const at::Tensor expected = exact[i].value.detach().to(at::kBFloat16);
    const double differing = (low[i].value != expected).sum().item<double>() / static_cast<double>(expected.numel());
    EXPECT_LE(differing, 1e-4) << i;  // a last bit of fp32 may tip a rounding
    EXPECT_FALSE(at::equal(low[i].value, starts[i].to(at::kBFloat16))) << i;
  }
}

TEST(AdamW, StochasticRoundingKeepsUpdatesThatNearestLoses) {
  // One bf16 step at 1.0 is 2^-7; each update is -1e-4, far below it.
  const auto run = [](bool stochastic, uint64_t seed) {
    OptimizerOptions options;
    options.weight_decay = 0;
    options.rounding = stochastic ? Rounding::stochastic : Rounding::nearest;
    options.seed = seed;
    const at::Tensor value = at::full({20000}, 1.5, at::kBFloat16).set_requires_grad(true);
    const auto optimizer = make_optimizer(options, {{"p", value}});
    for (int step = 0; step < 50; ++step) {
      value.mutable_grad() = at::ones_like(value);
      optimizer->step(1e-4);
    }
    return value.detach();
  };
  EXPECT_TRUE((run(false, 0) == 1.5).all().item<bool>());
  EXPECT_NEAR(run(true, 0).to(at::kDouble).mean().item<double>(), 1.5 - 50e-4, 2e-4);
  EXPECT_TRUE(at::equal(run(true, 0), run(true, 0)));
  EXPECT_FALSE(at::equal(run(true, 0), run(true, 1)));
}

TEST(StochasticRounding, IsUnbiasedAndExactWhereNothingIsLost) {
  for (const float number : {1.001f, -3.14159f, 1e-20f, 65504.4f}) {
    at::Tensor from = at::full({400000}, number, at::kFloat);
    const at::Tensor to = at::empty({400000}, at::kBFloat16);
    round_stochastically(from, to, 42);
    const double mean = to.to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(mean / number, 1.0, 5e-5) << number;
    EXPECT_LE(std::get<0>(at::_unique(to)).numel(), 2);
  }
  const at::Tensor exact = at::tensor({0.0f, -1.5f, 128.0f, std::numeric_limits<float>::infinity()});
  at::Tensor from = exact.clone();
  const at::Tensor to = at::empty({4}, at::kBFloat16);
  round_stochastically(from, to, 1);
  EXPECT_TRUE(at::equal(to.to(at::kFloat), exact));
}

/// E4M3 numbers next to a magnitude up to 448, by the format's definition: 3 bits after the leading one, evenly spaced below 2^-6.
double e4m3_step(double size) { return std::exp2(std::max(-6.0, std::floor(std::log2(size))) - 3); }

TEST(E4m3Rounding, IsUnbiasedOnTheWholeGrid) {
  for (const bool tuned : {true, false}) {
    for (const double number : {1.03, -3.14159, 447.0, -431.9, 0.0170, 0.01, -0.0031, 0.0019, 4e-5, -1e-6}) {
      const int64_t n = 2000000;
      at::Tensor from = at::full({n / 2, 2}, number, at::kFloat);
      at::Tensor codes = at::empty({n / 2, 2}, at::kByte);
      if (!tuned) codes = at::empty({2, n / 2}, at::kByte).t();
      round_to_e4m3(from, codes, 42);
      const at::Tensor drawn = codes.contiguous().view(at::kFloat8_e4m3fn).to(at::kDouble);
      const double x = static_cast<double>(static_cast<float>(number)), step = e4m3_step(std::abs(x)), below = std::floor(x / step) * step;
      EXPECT_TRUE(((drawn == below) | (drawn == below + step)).all().item<bool>()) << number;
      // Five standard deviations of the mean of a draw that is one of two neighbours.
      const double share = (x - below) / step, deviation = step * std::sqrt(share * (1 - share) / static_cast<double>(n));
      EXPECT_NEAR(drawn.mean().item<double>(), x, 5 * deviation + 1e-12) << number << " tuned " << tuned;
    }
  }
}

TEST(E4m3Rounding, KeepsEveryE4m3NumberAndDrawsByKey) {
  const at::Tensor all = at::arange(256, at::kByte), numbers = all.view(at::kFloat8_e4m3fn).to(at::kFloat);
  for (uint64_t key = 0; key < 50; ++key) {
    const at::Tensor codes = at::empty({256}, at::kByte);
    round_to_e4m3(numbers, codes, key);
    EXPECT_TRUE(at::equal(codes, all));  // NaN included
  }
  const at::Tensor beyond = at::tensor({449.0f, -1e30f, std::numeric_limits<float>::infinity()}), codes = at::empty({3}, at::kByte);
  round_to_e4m3(beyond, codes, 1);
  EXPECT_TRUE((codes.bitwise_and(0x7F) == 0x7F).all().item<bool>());
  const auto draw = [](uint64_t key) {
    const at::Tensor drawn = at::empty({1000}, at::kByte);
    round_to_e4m3(at::full({1000}, 1.06f), drawn, key);
    return drawn;
  };
  EXPECT_TRUE(at::equal(draw(7), draw(7)));
  EXPECT_FALSE(at::equal(draw(7), draw(8)));
}

/// Gradients of a run, the same for every optimizer that is compared.
at::Tensor gradient_of(int step) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(step));
  return at::randn({700, 500}, generator, at::TensorOptions()).to(at::kBFloat16);
}

TEST(Remainder, MakesBf16WeightsAnExactFp32Master) {
  OptimizerOptions options;
  const at::Tensor start = gradient_of(1000) * 0.1;  // bf16 numbers
  const at::Tensor exact = start.to(at::kFloat).set_requires_grad(true), low = start.clone().set_requires_grad(true);
  options.rounding = Rounding::remainder;
  auto master = make_optimizer(options, {{"p", exact}}), split = make_optimizer(options, {{"p", low}});
  EXPECT_EQ(values(split->parameters()).size(), 2u);
  EXPECT_EQ(values(master->parameters()).size(), 1u);  // fp32 has no remainder
  for (int step = 0; step < 12; ++step) {
    if (step == 6) {  // a resumed run: the saved tensors are all there is
      StateList state, value;
      for (const auto& [name, tensor] : split->state()) state.emplace_back(name, tensor.clone());
      for (const auto& [name, tensor] : values(split->parameters())) value.emplace_back(name, tensor.clone());
      split = make_optimizer(options, {{"p", low}});
      split->load_state(state);
      load_into("value", values(split->parameters()), value);
    }
    const at::Tensor gradient = gradient_of(step);
    exact.mutable_grad() = gradient.to(at::kFloat);
    low.mutable_grad() = gradient;
    master->step(1e-6);
    split->step(1e-6);
    // The whole tensor in one call and in parts may differ in the last bit of fp32 where vectors end.
    const at::Tensor joined = exact_value(split->parameters()[0]);
    EXPECT_LE((joined - exact.detach()).abs().max().item<double>(), 1e-7);
    EXPECT_LE(((joined - low.detach().to(at::kFloat)).abs() - joined.abs() / 256).max().item<double>(), 0);
  }
  EXPECT_GT((exact_value(split->parameters()[0]) - start.to(at::kFloat)).abs().mean().item<double>(), 2e-6);
}

TEST(Remainder, SplitsAndJoinsEveryBit) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  for (const bool transposed : {false, true}) {
    at::Tensor exact = (at::randn({301, 77}, generator, at::TensorOptions()) * 10).exp();
    exact.view(at::kInt).narrow(0, 0, 2).copy_(at::tensor({0x3F808000, 0x3F818000}, at::kInt).unsqueeze(1));  // ties
    exact = exact.contiguous();
    at::Tensor rounded = at::empty({301, 77}, at::kBFloat16), remainder = at::empty({301, 77}, at::kShort), back = at::empty({301, 77});
    if (transposed) rounded = at::empty({77, 301}, at::kBFloat16).t();
    split_remainder(exact, rounded, remainder);
    join_remainder(rounded, remainder, back);
    EXPECT_TRUE(at::equal(back, exact));
    EXPECT_LE(((rounded.to(at::kFloat) - exact).abs() / exact).max().item<double>(), 1.0 / 256);
  }
}

TEST(Optimizer, RefusesStatesAndNamesThatDoNotFit) {
  const auto file = golden();
  const auto optimizer = make_optimizer({}, start(*file));
  StateMap saved = copy_of(*optimizer);
  saved.erase("p0.exp_avg");
  saved["p1.exp_avg_sq"] = at::zeros({2});
  saved["q.exp_avg"] = at::zeros({2});
  saved["p3.step"] = at::full({}, 9, at::kLong);
  try {
    optimizer->load_state(list_of(saved));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::data);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("1 missing (p0.exp_avg)"), testing::HasSubstr("1 unexpected (q.exp_avg)"),
                                             testing::HasSubstr("p1.exp_avg_sq is [2] instead of [5, 3]")));
  }
  EXPECT_EQ(copy_of(*optimizer).at("p3.step").item<int64_t>(), 0);
  OptimizerOptions options;
  options.name = "adam";
  try {
    make_optimizer(options, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::config);
    EXPECT_THAT(error.what(), testing::HasSubstr("adamw"));
  }
}

}  // namespace burnish::adamw_test
