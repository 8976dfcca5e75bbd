// Update rules beside the packages they come from (tests/golden/make_optim.py), over every kind of trained value, and resumed.
#include "optim/rules.h"

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "io/safetensors.h"
#include "optim/averaged.h"
#include "optim/optimizer.h"
#include "tests/device.h"
#include "tests/places.h"
#include "tests/scalar_reads.h"

namespace burnish::rules_test {
using namespace burnish::optim;
using test::device;
using test::on_device;
using test::tolerance;

namespace {

constexpr size_t kNumParameters = 5;
constexpr int kNumSteps = 20;

struct Case {
  std::string name;  ///< in the golden file
  std::string optimizer, args;
  double weight_decay = 0.1;
  double lr = 0;  ///< 0: rising to 0.01
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case> kCases = {
    {"lion", "lion", ""},
    {"adafactor", "adafactor", ""},
    {"adafactor_scaled", "adafactor", "beta1=0.9, scale_parameter=True", 0},
    {"adafactor_relative", "adafactor", "relative_step=true,scale_parameter=true,warmup_init=true", 0.1, 1},
    {"came", "came", ""},
    {"prodigy", "prodigy", "d0=1e-4", 0.1, 1},
    {"prodigy_sliced", "prodigy",
     "betas=0.8,0.99,d0=1e-4,use_bias_correction=True,safeguard_warmup=True,d_coef=100,growth_rate=1.5,slice_p=3", 0, 0.5},
    {"adamw_schedulefree", "adamw_schedulefree", ""},
    {"prodigy_schedulefree", "prodigy_schedulefree", "d0=1e-4", 0.1, 1},
    {"muon", "muon", ""},
    {"ademamix", "ademamix", ""},
    {"ademamix_rising", "ademamix", "betas=0.8,0.99,beta3=0.999,alpha=3,t_alpha=15,t_beta3=12"},
    {"muon_original", "muon", "adjust_lr_fn=original,nesterov=false"},
};

std::shared_ptr<io::SafetensorsFile> golden(const std::string& name) {
  return io::SafetensorsFile::open(std::string(test::kCheckout) + "/tests/golden/" + name + ".safetensors");
}

double relative(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor there = expected.to(actual.device());
  return ((actual - there).norm() / there.norm()).item<double>();
}

OptimizerOptions options_of(const Case& c, Rounding rounding = Rounding::nearest) {
  return {.name = c.optimizer, .weight_decay = c.weight_decay, .rounding = rounding, .seed = 3, .args = c.args};
}

/// Prodigy starts at a fraction of the numbers, so that fp32 can tell how far it has come.
ParameterList start(const std::string& optimizer, at::ScalarType dtype = at::kFloat) {
  const double scale = optimizer.starts_with("prodigy") ? std::exp2(-10) : 1;
  const auto file = golden("optim");
  ParameterList list;
  for (size_t i = 0; i < kNumParameters; ++i) {
    const at::Tensor value = (file->tensor("start." + std::to_string(i)) * scale).to(device(), dtype);
    list.push_back({"p" + std::to_string(i), value.set_requires_grad(true)});
  }
  return list;
}

void take_step(const Case& c, Optimizer& optimizer, int step) {
  const auto file = golden("optim");
  for (size_t i = 0; i < kNumParameters; ++i) {
    const std::string name = fmt::format("grad.{}.{}", step, i);
    const at::Tensor& value = optimizer.parameters()[i].value;
    if (file->tensors().contains(name)) value.mutable_grad() = file->tensor(name).to(device(), value.scalar_type(), false, true);
  }
  optimizer.step(c.lr > 0 ? c.lr : 0.01 * (step + 1) / kNumSteps);
  optimizer.zero_grad();
}

StateList copy_of(const StateList& list) {
  StateList copy;
  for (const auto& [name, tensor] : list) copy.emplace_back(name, tensor.clone());
  return copy;
}

void expect_equal(const StateList& a, const StateList& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].first == b[i].first && at::equal(a[i].second, b[i].second)) << a[i].first;
}

}  // namespace

class Rule : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Rule, testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

TEST_P(Rule, EqualsItsReferenceForTwentySteps) {
  const auto file = golden("optimizers");
  const auto optimizer = make_optimizer(options_of(GetParam()), start(GetParam().optimizer));
  const std::string& name = GetParam().name;
  for (int step = 0; step < kNumSteps; ++step) {
    take_step(GetParam(), *optimizer, step);
    if (!file->tensors().contains(fmt::format("{}.{}.0", name, step + 1))) continue;
    for (size_t i = 0; i < kNumParameters; ++i)
      EXPECT_LE(relative(optimizer->parameters()[i].value, file->tensor(fmt::format("{}.{}.{}", name, step + 1, i))), tolerance(1e-6))
          << step << " " << i;
  }
  if (file->tensors().contains(name + ".average.0")) {
    const Averaged averaged(*optimizer, nullptr);
    for (size_t i = 0; i < kNumParameters; ++i)
      EXPECT_LE(relative(optimizer->parameters()[i].value, file->tensor(fmt::format("{}.average.{}", name, i))), tolerance(1e-6)) << i;
  }
  if (file->tensors().contains(name + ".d")) {
    optimizer->begin(1);  // what was learned of the last step shows in the next
    const double correction = name == "prodigy_sliced" ? std::sqrt(1 - std::pow(0.99, 21)) / (1 - std::pow(0.8, 21)) : 1;
    EXPECT_NEAR(optimizer->learned_rate().item<double>() / correction / file->tensor(name + ".d")[0].item<double>(), 1, tolerance(1e-6));
  }
}

TEST_P(Rule, ResumesBitForBitInEveryPrecision) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic, Rounding::remainder}) {
      const auto whole = make_optimizer(options_of(GetParam(), rounding), start(GetParam().optimizer, dtype));
      for (int step = 0; step < 3; ++step) take_step(GetParam(), *whole, step);
      const auto resumed = make_optimizer(options_of(GetParam(), rounding), start(GetParam().optimizer, dtype));
      resumed->load_state(copy_of(whole->state()));
      load_into("values", values(resumed->parameters()), copy_of(values(whole->parameters())));
      for (int step = 3; step < 6; ++step) {
        take_step(GetParam(), *whole, step);
        take_step(GetParam(), *resumed, step);
      }
      expect_equal(values(whole->parameters()), values(resumed->parameters()));
      expect_equal(whole->state(), resumed->state());
      if (dtype == at::kFloat) break;  // rounding is for bf16
    }
  }
}

TEST_P(Rule, UpdatesBf16AsFp32RoundedOnce) {
  const auto low = make_optimizer(options_of(GetParam(), Rounding::remainder), start(GetParam().optimizer, at::kBFloat16));
  ParameterList list = start(GetParam().optimizer, at::kBFloat16);
  for (NamedParameter& parameter : list) parameter.value = parameter.value.detach().to(at::kFloat).set_requires_grad(true);
  const auto exact = make_optimizer(options_of(GetParam()), list);
  for (int step = 0; step < 4; ++step) {
    take_step(GetParam(), *low, step);
    for (size_t i = 0; i < kNumParameters; ++i) exact->parameters()[i].value.mutable_grad() = at::Tensor();
    const auto file = golden("optim");
    for (size_t i = 0; i < kNumParameters; ++i) {
      const std::string name = fmt::format("grad.{}.{}", step, i);
      if (file->tensors().contains(name))
        exact->parameters()[i].value.mutable_grad() = on_device(file->tensor(name)).to(at::kBFloat16).to(at::kFloat);
    }
    exact->step(GetParam().lr > 0 ? GetParam().lr : 0.01 * (step + 1) / kNumSteps);
  }
  for (size_t i = 0; i < kNumParameters; ++i)
    EXPECT_LE(relative(exact_value(low->parameters()[i]), exact->parameters()[i].value), tolerance(1e-6)) << i;
}

namespace {

/// Two steps over bf16 values, clipped by their norm, without a scalar that the host reads.
void expect_no_reads(const OptimizerOptions& options) {
  const auto optimizer = make_optimizer(options, start(options.name, at::kBFloat16));
  const Case c{"", options.name, options.args};
  const test::ScalarReads reads;
  for (int step = 0; step < 2; ++step) {
    take_step(c, *optimizer, step);  // makes gradients and drops them again
    for (const NamedParameter& p : optimizer->parameters()) p.value.mutable_grad() = at::ones_like(p.value);
    clip_gradients(optimizer->parameters(), gradient_norm(optimizer->parameters()), 0.5);
    optimizer->step(0.01);
  }
  EXPECT_EQ(reads.count(), 0) << options.name << " " << static_cast<int>(options.rounding);
}

}  // namespace

TEST(ScalarReads, AreCounted) {
  const at::Tensor two = at::full({}, 2.0, device());
  const test::ScalarReads reads;
  EXPECT_EQ(two.item<double>() + two.sum().item<double>(), 4);
  EXPECT_EQ(reads.count(), 2);
}

TEST_P(Rule, StepsReadNoScalar) {
  for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic, Rounding::remainder})
    expect_no_reads(options_of(GetParam(), rounding));
}

TEST(AdamWOf, EveryKindReadsNoScalar) {
  for (const char* name : {"adamw", "adamw8bit", "ademamix8bit"}) {
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic, Rounding::remainder})
      expect_no_reads({.name = name, .rounding = rounding});
  }
}

TEST_P(Rule, RunsOnTheMetaDevice) {
  // Matrices: for vectors some rules leave the work to AdamW's fused operator, which has no meta implementation of its own.
  ParameterList list;
  for (const char* name : {"a", "b"})
    list.push_back({name, at::empty({9, 5}, at::TensorOptions(at::kBFloat16).device(at::kMeta)).set_requires_grad(true)});
  for (NamedParameter& parameter : list) parameter.value.mutable_grad() = at::empty_like(parameter.value);
  const auto optimizer = make_optimizer(options_of(GetParam(), Rounding::nearest), list);
  optimizer->step(1);
  optimizer->step(1);
  EXPECT_TRUE(optimizer->parameters()[0].value.is_meta());
}

class In8Bits : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, In8Bits, testing::Values("adamw8bit", "ademamix8bit"), [](const auto& test) { return test.param; });

TEST_P(In8Bits, EqualsBitsandbytes) {
  const auto file = golden("optimizers");
  const auto& name = GetParam();
  const int64_t n = 70 * 61;
  const at::Tensor i = at::arange(n, at::TensorOptions(at::kDouble).device(device()));
  const at::Tensor value = (((i * 29).fmod(101) - 50) / 64).to(at::kFloat).view({70, 61}).set_requires_grad(true);
  const auto optimizer = make_optimizer({.name = name, .weight_decay = 0.1}, {{"p", value}});
  for (int step = 0; step < kNumSteps; ++step) {
    const at::Tensor size = at::exp2(-i.div(256, "floor").fmod(8));
    value.mutable_grad() = (((i * 7919 + step * 104729).fmod(65521) - 32760) / 32768 * size).to(at::kFloat).view({70, 61});
    optimizer->step(0.01 * (step + 1) / kNumSteps);
  }
  EXPECT_LE(relative(value.view(-1), file->tensor(name + ".value")), tolerance(1e-6));
  const StateList state = optimizer->state();
  ASSERT_EQ(state.size(), name == "adamw8bit" ? 5u : 7u);
  for (size_t k = 0; k + 1 < state.size(); ++k) {
    const at::Tensor expected = on_device(file->tensor(name + state[k].first.substr(1)));
    if (state[k].second.scalar_type() == at::kByte) {
      EXPECT_LE((state[k].second.view(-1) != expected).sum().item<int64_t>(), 4) << state[k].first;  // ties
    } else {
      EXPECT_LE(relative(state[k].second, expected), tolerance(1e-6)) << state[k].first;
    }
  }
}

TEST(AdamW8bit, MapsAreBitsandbytes) {
  const auto file = golden("optimizers");
  for (const bool is_signed : {true, false}) {
    const at::Tensor expected = file->tensor(is_signed ? "map.signed" : "map.unsigned");
    EXPECT_TRUE(at::allclose(at::tensor(dynamic_map(is_signed)), expected, 2e-7, 0));
  }
}

TEST(Cautious, LeavesOutWhatGoesAgainstTheGradient) {
  // Lion's second step: where its average and the gradient disagree, the sign of their mix is the average's.
  const std::vector<float> first{1, 1, -1, -1, 1, 2, 1, 1}, second{1, -1, 1, -1, -1, -2, 1, 0};
  const double lr = 0.1, decay = 0.5, beta1 = 0.9, beta2 = 0.5;
  const at::Tensor value = at::full({2, 4}, 2.0, device()).set_requires_grad(true);
  const auto optimizer = make_optimizer({.name = "lion", .weight_decay = decay, .args = "betas=0.9,0.5", .cautious = true}, {{"p", value}});
  std::vector<double> expected(8, 2.0);
  std::vector<double> average(8, 0.0);
  for (const auto* gradients : {&first, &second}) {
    value.mutable_grad() = at::tensor(*gradients).view({2, 4}).to(device());
    optimizer->step(lr);
    std::vector<double> updates;
    double num_left = 0;
    for (size_t i = 0; i < 8; ++i) {
      const double mixed = beta1 * average[i] + (1 - beta1) * (*gradients)[i], update = (mixed > 0) - (mixed < 0);
      average[i] = beta2 * average[i] + (1 - beta2) * (*gradients)[i];
      const bool agrees = update * (*gradients)[i] > 0;
      updates.push_back(agrees ? update : 0);
      num_left += agrees;
    }
    for (size_t i = 0; i < 8; ++i) expected[i] = expected[i] * (1 - lr * decay) - lr * updates[i] * 8 / num_left;
  }
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(value.detach().view(-1)[i].item<double>() / expected[static_cast<size_t>(i)], 1, tolerance(1e-6)) << i;
}

TEST(Cautious, KeepsWhatItsRuleKeepsInEveryPrecisionAndResumes) {
  for (const char* name : {"adamw", "adamw8bit", "ademamix", "adafactor", "came", "lion", "muon"}) {
    OptimizerOptions options{.name = name, .rounding = Rounding::stochastic, .seed = 3, .cautious = true};
    const Case c{"", name, ""};
    const auto whole = make_optimizer(options, start(name, at::kBFloat16)),
               plain = make_optimizer({.name = name}, start(name, at::kBFloat16));
    for (int step = 0; step < 3; ++step) take_step(c, *whole, step);
    ASSERT_EQ(whole->state().size(), plain->state().size()) << name;
    const auto resumed = make_optimizer(options, start(name, at::kBFloat16));
    resumed->load_state(copy_of(whole->state()));
    load_into("values", values(resumed->parameters()), copy_of(values(whole->parameters())));
    take_step(c, *whole, 3);
    take_step(c, *resumed, 3);
    expect_equal(values(whole->parameters()), values(resumed->parameters()));
  }
}

TEST(AdamW8bit, KeepsSmallParametersInFp32AndResumes) {
  const auto make = [] {
    ParameterList list{{"small", at::ones({4095}, device()).set_requires_grad(true)},
                       {"large", at::ones({300, 1000}, at::TensorOptions(at::kBFloat16).device(device())).set_requires_grad(true)}};
    return make_optimizer({.name = "adamw8bit", .rounding = Rounding::stochastic}, list);
  };
  const auto step = [](Optimizer& optimizer, uint64_t seed) {
    at::manual_seed(seed);
    for (const NamedParameter& p : optimizer.parameters())
      p.value.mutable_grad() = at::randn(p.value.sizes()).to(device(), p.value.scalar_type());
    optimizer.step(1e-2);
  };
  const auto whole = make(), resumed = make();
  EXPECT_EQ(whole->state()[0].first, "small.exp_avg");
  EXPECT_EQ(whole->state()[0].second.scalar_type(), at::kFloat);
  EXPECT_EQ(whole->state()[3].second.scalar_type(), at::kByte);
  step(*whole, 1);
  resumed->load_state(copy_of(whole->state()));
  load_into("values", values(resumed->parameters()), copy_of(values(whole->parameters())));
  step(*whole, 2);
  step(*resumed, 2);
  expect_equal(values(whole->parameters()), values(resumed->parameters()));
  expect_equal(whole->state(), resumed->state());
}

TEST(ScheduleFree, AveragesTakeTheParametersPlaceAndLeaveThemBitForBit) {
  const Case c{"", "adamw_schedulefree", ""};
  const auto optimizer = make_optimizer(options_of(c, Rounding::remainder), start(c.optimizer, at::kBFloat16));
  for (int step = 0; step < 3; ++step) take_step(c, *optimizer, step);
  const StateList before = copy_of(values(optimizer->parameters()));
  {
    const Averaged averaged(*optimizer, nullptr);
    EXPECT_FALSE(at::equal(values(optimizer->parameters())[1].second, before[1].second));  // the remainder at least
  }
  expect_equal(values(optimizer->parameters()), before);
}

TEST(Prodigy, NeedsAllGradientsAtOnce) {
  const auto optimizer = make_optimizer({.name = "prodigy"}, start("prodigy"));
  EXPECT_TRUE(optimizer->needs_all_gradients());
  EXPECT_THROW(optimizer->update(0), std::logic_error);
  EXPECT_FALSE(make_optimizer({.name = "prodigy_schedulefree"}, start("prodigy"))->needs_all_gradients());
}

TEST(OptimizerOptions, RefuseWhatMakesNoSense) {
  const auto message = [](const std::string& name, const std::string& args, const ScheduleOptions& schedule = {}) -> std::string {
    try {
      check({.name = name, .args = args}, schedule, 1.0);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::config);
      return error.what();
    }
    return "no error";
  };
  using testing::HasSubstr;
  EXPECT_THAT(message("lionn", ""), HasSubstr("did you mean \"lion\"?"));
  EXPECT_THAT(message("lion", "beta=0.9"), testing::AllOf(HasSubstr("lion has no 'beta'"), HasSubstr("it takes betas, beta1, beta2")));
  EXPECT_THAT(message("adamw", "beta1=1"), HasSubstr("[0, 1)"));
  EXPECT_THAT(message("adamw", "beta1=fast"), HasSubstr("must be a number, found 'fast'"));
  EXPECT_THAT(message("adamw", "beta1"), HasSubstr("key=value"));
  EXPECT_THAT(message("adamw", "eps=1e-8,eps=1e-7"), HasSubstr("twice"));
  EXPECT_THAT(message("adamw", "betas=0.9"), HasSubstr("two numbers"));
  EXPECT_THAT(message("muon", "adjust_lr_fn=best"), HasSubstr("match_rms_adamw, original"));
  EXPECT_THAT(message("muon", "ns_steps=2.5"), HasSubstr("whole number"));
  EXPECT_THAT(message("adafactor", "warmup_init=true"), HasSubstr("relative_step"));
  EXPECT_THAT(message("adafactor", "relative_step=true", {.name = "cosine"}), HasSubstr("lr_scheduler"));
  EXPECT_THAT(message("adamw_schedulefree", "", {.name = "cosine"}), HasSubstr("constant"));
  EXPECT_THAT(message("adamw_schedulefree", "beta1=0"), HasSubstr("above 0"));
  EXPECT_EQ(message("adamw_schedulefree", "betas=(0.9, 0.95)", {.name = "constant_with_warmup", .warmup_steps = 5}), "no error");
  EXPECT_THAT(message("ademamix", "beta1=0,t_beta3=10"), HasSubstr("beta1, which must be above 0"));
  for (const char* name : {"prodigy", "adamw_schedulefree"}) EXPECT_THROW(check({.name = name, .cautious = true}), Error) << name;
  EXPECT_NO_THROW(check({.name = "came", .cautious = true}));
  EXPECT_EQ(message("prodigy", "d_coef=2,growth_rate=1.02", {.name = "cosine"}), "no error");
}

}  // namespace burnish::rules_test
