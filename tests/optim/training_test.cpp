#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "io/safetensors.h"
#include "optim/averaged.h"
#include "optim/gradients.h"
#include "optim/lr_schedule.h"
#include "tests/device.h"
#include "tests/places.h"

namespace burnish::training_test {
using namespace burnish::optim;

namespace {

ParameterList with_gradients(io::SafetensorsFile& file) {
  ParameterList list;
  for (int i = 0; i < 5; ++i) {
    at::Tensor value = test::on_device(file.tensor("start." + std::to_string(i))).clone().set_requires_grad(true);
    value.mutable_grad() = test::on_device(file.tensor("grad.0." + std::to_string(i))).clone();
    list.push_back({std::to_string(i), value});
  }
  list.push_back({"without", at::ones({3}).set_requires_grad(true)});
  return list;
}

double norm_of(const ParameterList& list) { return gradient_norm(list).item<double>(); }

/// The meta device stays what it is.
ParameterList one(at::Tensor gradient) {
  if (!gradient.is_meta()) gradient = test::on_device(gradient);
  at::Tensor value = at::zeros_like(gradient).set_requires_grad(true);
  value.mutable_grad() = gradient;
  return {{"p", value}};
}

ScheduleOptions schedule(const std::string& name, int64_t warmup, int64_t max_steps, double ratio = 0) {
  return {name, warmup, max_steps, ratio};
}

}  // namespace

TEST(Gradients, ClippingEqualsTorch) {
  const auto file = io::SafetensorsFile::open(std::string(test::kCheckout) + "/tests/golden/optim.safetensors");
  const double expected = file->tensor("clip.norm").item<float>();
  for (const std::string max_norm : {"0.5", "1000.0"}) {
    const ParameterList list = with_gradients(*file);
    const at::Tensor norm = gradient_norm(list);
    EXPECT_NEAR(norm.item<double>() / expected, 1.0, test::tolerance(1e-6));
    clip_gradients(list, norm, std::stod(max_norm));
    for (int i = 0; i < 5; ++i) {
      const at::Tensor clipped = test::on_device(file->tensor("clip." + max_norm + "." + std::to_string(i)));
      EXPECT_TRUE(at::allclose(list[i].value.grad(), clipped, test::tolerance(1e-6), 1e-9)) << max_norm << " " << i;
    }
    EXPECT_FALSE(list[5].value.grad().defined());
  }
}

TEST(Gradients, NormIsAccurateInEveryDtypeAndSize) {
  EXPECT_NEAR(norm_of(one(at::full({3000001}, 0.1))) / (static_cast<double>(0.1f) * std::sqrt(3000001.0)), 1, test::tolerance(1e-5));
  EXPECT_NEAR(norm_of(one(at::full({100000}, 0.5, at::kBFloat16))) / (0.5 * std::sqrt(100000.0)), 1, 1e-6);
  EXPECT_NEAR(norm_of(one(at::full({10, 4}, 2.0).t())), 2 * std::sqrt(40.0), 1e-5);
  EXPECT_EQ(norm_of({}), 0.0);
  const ParameterList scaled = one(at::full({4}, 2.0, at::kBFloat16));
  scale_gradients(scaled, 0.25);
  EXPECT_EQ(norm_of(scaled), 1.0);
}

TEST(Gradients, NonFiniteNormIsReturnedAndNothingIsScaled) {
  const ParameterList list = one(at::tensor({1.0f, std::numeric_limits<float>::quiet_NaN(), 3.0f}));
  EXPECT_TRUE(std::isnan(norm_of(list)));
  clip_gradients(list, gradient_norm(list), 0.1);
  EXPECT_EQ(list[0].value.grad()[2].item<float>(), 3.0f);
  const ParameterList unclipped = one(at::full({4}, 5.0));
  clip_gradients(unclipped, gradient_norm(unclipped), 0);
  EXPECT_EQ(norm_of(unclipped), 10.0);
}

TEST(Gradients, NormAndClippingRunWithoutNumbers) {
  const ParameterList list = one(at::empty({30, 4}, at::TensorOptions().device(at::kMeta)));
  const at::Tensor norm = gradient_norm(list);
  EXPECT_TRUE(norm.is_meta() && norm.dim() == 0 && norm.scalar_type() == at::kDouble);
  clip_gradients(list, norm, 1.0);  // must not ask for a number
}

TEST(LrSchedule, WarmsUpThenFollowsItsCurve) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    const auto options = schedule(name, 4, 24, 0.1);
    EXPECT_DOUBLE_EQ(lr_factor(options, 0), 0.25) << name;
    EXPECT_DOUBLE_EQ(lr_factor(options, 3), 1.0) << name;
    EXPECT_DOUBLE_EQ(lr_factor(options, 4), 1.0) << name;
    for (int64_t step = 4; step < 40; ++step) EXPECT_LE(lr_factor(options, step + 1), lr_factor(options, step)) << name << step;
  }
  EXPECT_DOUBLE_EQ(lr_factor(schedule("constant", 0, 0), 1000), 1.0);
  EXPECT_DOUBLE_EQ(lr_factor(schedule("linear", 4, 24, 0.1), 14), 0.55);
  EXPECT_DOUBLE_EQ(lr_factor(schedule("cosine", 4, 24, 0.1), 14), 0.55);
  EXPECT_DOUBLE_EQ(lr_factor(schedule("cosine", 4, 24, 0.0), 9), 0.5 + std::sqrt(0.5) / 2);
  EXPECT_DOUBLE_EQ(lr_factor(schedule("linear", 0, 10), 9), 0.1);
  EXPECT_NEAR(lr_factor(schedule("linear", 4, 24, 0.1), 24), 0.1, 1e-15);
  EXPECT_NEAR(lr_factor(schedule("cosine", 4, 24, 0.1), 99), 0.1, 1e-15);
}

TEST(LrSchedule, FollowsTransformers) {
  const auto file = io::SafetensorsFile::open(std::string(test::kCheckout) + "/tests/golden/optimizers.safetensors");
  struct Case {
    const char* golden;
    ScheduleOptions options;
  };
  for (const auto& [name, options] :
       std::vector<Case>{{"linear", {.name = "linear", .warmup_steps = 6, .max_steps = 30}},
                         {"cosine", {.name = "cosine", .warmup_steps = 6, .max_steps = 30}},
                         {"cosine_with_restarts", {.name = "cosine_with_restarts", .warmup_steps = 6, .max_steps = 30, .num_cycles = 3}},
                         {"polynomial", {.name = "polynomial", .warmup_steps = 6, .max_steps = 30, .min_lr_ratio = 0.1, .power = 2.5}},
                         {"inverse_sqrt", {.name = "inverse_sqrt", .warmup_steps = 6}},
                         {"inverse_sqrt_at_once", {.name = "inverse_sqrt"}},
                         {"warmup_stable_decay",
                          {.name = "warmup_stable_decay", .warmup_steps = 6, .max_steps = 30, .min_lr_ratio = 0.1, .decay_steps = 8}}}) {
    check(options);
    const at::Tensor expected = file->tensor(std::string("schedule.") + name);
    for (int64_t step = options.warmup_steps; step < 30; ++step)
      EXPECT_NEAR(lr_factor(options, step), expected[step].item<double>(), 1e-14) << name << " " << step;
  }
}

TEST(LrSchedule, RexStableDecayAndNames) {
  const ScheduleOptions rex{.name = "rex", .warmup_steps = 2, .max_steps = 12, .min_lr_ratio = 0.2};
  EXPECT_DOUBLE_EQ(lr_factor(rex, 2), 1.0);
  EXPECT_DOUBLE_EQ(lr_factor(rex, 7), 0.2 + 0.8 * 0.5 / 0.55);
  EXPECT_DOUBLE_EQ(lr_factor(rex, 12), 0.2);
  const ScheduleOptions stable{.name = "warmup_stable_decay", .max_steps = 100};  // decays over the last tenth
  EXPECT_DOUBLE_EQ(lr_factor(stable, 90), 1.0);
  EXPECT_DOUBLE_EQ(lr_factor(stable, 95), 0.5);
  EXPECT_DOUBLE_EQ(lr_factor(schedule("constant_with_warmup", 4, 24), 1), 0.5);
  EXPECT_DOUBLE_EQ(lr_factor(schedule("cosine_with_min_lr", 4, 24, 0.1), 14), 0.55);
}

TEST(LrSchedule, RefusesWhatMakesNoSense) {
  const auto message = [](const ScheduleOptions& options) -> std::string {
    try {
      check(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::config);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(schedule("cosin", 0, 10)), testing::HasSubstr("did you mean \"cosine\"?"));
  EXPECT_THAT(message(schedule("linear", 10, 10)), testing::HasSubstr("warm-up"));
  EXPECT_THAT(message(schedule("linear", -1, 10)), testing::HasSubstr("negative"));
  EXPECT_THAT(message(schedule("linear", 0, 10, 1.5)), testing::HasSubstr("[0, 1]"));
  EXPECT_THAT(message(schedule("constant", 6, 5)), testing::HasSubstr("lr_warmup_steps"));
  EXPECT_THAT(message(schedule("constant", 0, 10, 0.1)), testing::HasSubstr("lr_scheduler_min_lr_ratio"));
  EXPECT_THAT(message({.name = "cosine", .num_cycles = 2}), testing::HasSubstr("cosine_with_restarts"));
  EXPECT_THAT(message({.name = "cosine", .power = 2}), testing::HasSubstr("polynomial"));
  EXPECT_THAT(message({.name = "warmup_stable_decay", .warmup_steps = 5, .max_steps = 10, .decay_steps = 6}),
              testing::HasSubstr("lower lr_decay_steps"));
  EXPECT_EQ(message(schedule("constant", 5, 5)), "no error");
  EXPECT_EQ(message(schedule("constant", 5, 0)), "no error");
}

TEST(Ema, FollowsSwapsAndResumes) {
  at::Tensor value = at::full({3}, 1.0, at::kBFloat16).set_requires_grad(true);
  const auto optimizer = make_optimizer({}, {{"p", value}});
  Ema ema(optimizer->parameters());
  value.detach().fill_(3.0);
  ema.update(0.75);
  value.detach().fill_(5.0);
  ema.update(0.75);
  EXPECT_EQ(ema.state()[0].first, "p.ema");
  EXPECT_TRUE(at::allclose(ema.state()[0].second, at::full({3}, 2.375f)));
  const auto version = value._version();
  {
    const Averaged averaged(*optimizer, &ema);
    EXPECT_TRUE((value == at::full({3}, 2.375, at::kBFloat16)).all().item<bool>());
    EXPECT_GT(value._version(), version);
  }
  EXPECT_TRUE((value == 5.0).all().item<bool>());
  {
    const Averaged nothing(*optimizer, nullptr);
    EXPECT_TRUE((value == 5.0).all().item<bool>());
  }

  Ema resumed({{"p", value}});
  resumed.load_state({{"p.ema", ema.state()[0].second.clone()}});
  EXPECT_TRUE(at::equal(resumed.state()[0].second, ema.state()[0].second));
  EXPECT_THROW(resumed.load_state({}), Error);
  EXPECT_EQ(ema.state()[0].second.scalar_type(), at::kFloat);
}

}  // namespace burnish::training_test
