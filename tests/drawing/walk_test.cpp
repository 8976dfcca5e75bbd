// The walk from noise to latents beside the same steps written out, with a denoiser of one number.
#include "drawing/walk.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "diffusion/discrete_process.h"
#include "diffusion/flow_process.h"
#include "models/model/latent_space.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using drawing::Denoiser;
using drawing::walk;
using drawing::WalkOptions;
using testing::ElementsAre;

namespace {

const std::vector<int64_t> kShape{2, 3, 2, 4, 5};  // of a clip, as well as anything else

at::Tensor predicted(const at::Tensor& weight, const at::Tensor& noisy, const at::Tensor& time_B, const at::Tensor& text) {
  return at::tanh(weight * noisy * (1 + time_B.reshape({-1, 1, 1, 1, 1}) / 1000) + text);
}

/// weight, noisy, time and text -> prediction.
pipeline::Units denoise(const std::string& time_name, const at::Tensor& weight) {
  return {{"denoise", {"noisy", time_name, "text"}, {"prediction"}, {}, [=](pipeline::Scope& s) {
             s.write("prediction", predicted(weight, s.tensor("noisy"), s.tensor(time_name), s.tensor("text")));
           }}};
}

/// A flow with further latents whose noise is of other levels.
class WithTone final : public diffusion::FlowProcess {
 public:
  static constexpr double kShift = 0.25;
  WithTone() : FlowProcess(diffusion::FlowSamplerConfig{}) {}
  double shift_of(std::string_view stream) const override { return stream == "tone" ? kShift : 1; }
};

class Walks : public testing::Test {
 protected:
  static at::Tensor normal(uint64_t seed) {
    at::manual_seed(seed);
    return at::randn(kShape);
  }
  at::Tensor weight = at::full({}, 0.7), noise = normal(1), text = normal(2), other_text = normal(3);
  pipeline::Values conditions{{"text", text}};
  diffusion::FlowProcess flow{{}};
  diffusion::DiscreteProcess discrete{{}};
};

}  // namespace

TEST_F(Walks, EqualTheStepsWrittenOut) {
  diffusion::SamplerOptions options{.num_steps = 5, .num_image_tokens = 300};
  for (const diffusion::Process* process : {static_cast<diffusion::Process*>(&flow), static_cast<diffusion::Process*>(&discrete)}) {
    auto found = walk({*process, {{{}, denoise(process->time_name(), weight)}}}, noise, conditions, {.sampler = options});
    auto sampler = process->sampler(options);
    auto x = sampler->start(noise);
    for (int64_t i = 0; i < 5; ++i) {
      auto prediction = predicted(weight, sampler->model_input(x, i), at::full({2}, sampler->time(i)), text);
      x = sampler->update(x, prediction, i, nullptr);
    }
    EXPECT_TRUE(at::equal(found, x)) << process->time_name();
    EXPECT_GT(test::relative_error(found, noise), 0.1);
  }
}

/// Of every sampler, where the second stream's noise is of a level shifted over that of the first.
TEST_F(Walks, FurtherStreamsHaveLevelsOfTheirOwn) {
  const WithTone process;
  auto units = denoise("sigma", weight);
  units.push_back({"denoise_tone", {"tone_noisy", "noisy", "sigma"}, {"tone_prediction"}, {}, [](pipeline::Scope& s) {
                     s.write("tone_prediction", s.tensor("tone_noisy") * 0.3 + s.tensor("noisy").mean() * s.tensor("sigma").mean());
                   }});
  const auto tone = at::randn({2, 7});
  for (const std::string name : {"euler", "unipc", "lcm"}) {
    const double within = name == "unipc" ? 1e-3 : 1e-12;  // UniPC's times are whole thousandths
    WalkOptions walking{.sampler = {.name = name, .num_steps = 4}};
    walking.step_noise = [&](int64_t step, const std::string& stream) {
      return stream == "tone" ? at::full_like(tone, static_cast<double>(step)) : at::zeros(kShape);
    };
    Denoiser denoiser{process, {{{}, units}}, diffusion::guide, {}};
    denoiser.streams.emplace_back("tone");
    const auto found =
        std::get<at::Tensor>(walk(denoiser, pipeline::Values{{"latents", noise}, {"tone", tone}}, conditions, walking).at("tone"));
    auto sampler = process.sampler(walking.sampler);
    auto own = walking.sampler;
    for (int64_t i = 0; i < 4; ++i) own.times.push_back(process.level("tone", sampler->time(i)));
    own.times.push_back(0);
    auto of_tone = process.sampler(own);
    auto x = noise, y = tone;
    for (int64_t i = 0; i < 4; ++i) {
      const double time = sampler->time(i);
      EXPECT_NEAR(of_tone->time(i), WithTone::kShift * time / (1 + (WithTone::kShift - 1) * time), within) << name;
      const auto velocity = y * 0.3 + x.mean() * static_cast<float>(time);
      x = sampler->update(x, predicted(weight, x, at::full({2}, time), text), i, [&] { return at::zeros(kShape); });
      y = of_tone->update(y, velocity, i, [&] { return at::full_like(tone, static_cast<double>(i)); });
    }
    EXPECT_LE(test::relative_error(found, y), 1e-6) << name;
  }
}

TEST_F(Walks, AreGuidedAwayFromTheOtherConditions) {
  diffusion::SamplerOptions options{.num_steps = 3};
  WalkOptions walking{.sampler = options};
  walking.guidance = {{{"text", other_text}}, 4, 0.5};
  auto found = walk({flow, {{{}, denoise("sigma", weight)}}}, noise, conditions, walking);
  auto sampler = flow.sampler(options);
  auto x = noise;
  for (int64_t i = 0; i < 3; ++i) {
    auto time = at::full({2}, sampler->time(i));
    x = sampler->update(x, diffusion::guide(predicted(weight, x, time, text), predicted(weight, x, time, other_text), 4, 0.5), i, nullptr);
  }
  EXPECT_TRUE(at::equal(found, x));
}

TEST_F(Walks, TakeNoiseOnTheirWayStepByStep) {
  diffusion::SamplerOptions options{.name = "euler_a", .num_steps = 4};
  std::vector<int64_t> asked;
  WalkOptions walking{.sampler = options};
  walking.step_noise = [&](int64_t step, const std::string& stream) {
    EXPECT_EQ(stream, models::kLatents);
    asked.push_back(step);
    return normal(10 + static_cast<uint64_t>(step));
  };
  auto found = walk({discrete, {{{}, denoise("timestep", weight)}}}, noise, conditions, walking);
  EXPECT_THAT(asked, ElementsAre(0, 1, 2));  // nothing is added behind the last
  auto sampler = discrete.sampler(options);
  auto x = sampler->start(noise);
  for (int64_t i = 0; i < 4; ++i) {
    auto prediction = predicted(weight, sampler->model_input(x, i), at::full({2}, sampler->time(i)), text);
    x = sampler->update(x, prediction, i, [&] { return normal(10 + static_cast<uint64_t>(i)); });
  }
  EXPECT_TRUE(at::equal(found, x));
}

TEST_F(Walks, CarryGradientsThroughAllSteps) {
  weight.set_requires_grad(true);
  diffusion::SamplerOptions options{.num_steps = 4};
  auto gradient = [&](const at::Tensor& latents) {
    weight.mutable_grad().reset();
    torch::autograd::backward({latents.square().mean()}, {});
    return weight.grad().clone();
  };
  auto found = gradient(walk({flow, {{{}, denoise("sigma", weight)}}}, noise, conditions, {.sampler = options}));
  auto sampler = flow.sampler(options);
  auto steps = [&](int64_t first_with_gradient) {
    auto x = noise;
    for (int64_t i = 0; i < 4; ++i) {
      auto w = i < first_with_gradient ? weight.detach() : weight;
      x = sampler->update(x, predicted(w, x, at::full({2}, sampler->time(i)), text), i, nullptr);
    }
    return x;
  };
  EXPECT_TRUE(at::equal(found, gradient(steps(0))));
  EXPECT_GT(test::relative_error(found, gradient(steps(3))), 0.01);  // the last step alone has another
}

TEST_F(Walks, TakeEveryStreamWithASamplerOfItsOwn) {
  // Each stream's prediction looks at the other's noisy latents.
  auto mix = [](const at::Tensor& own, const at::Tensor& other, const at::Tensor& time) {
    return own * 0.5 + other.flatten(1).mean(1).view({-1, 1, 1, 1, 1}) - time.view({-1, 1, 1, 1, 1});
  };
  pipeline::Unit both{"denoise", {"noisy", "sound_noisy", "sigma"}, {"prediction", "sound_prediction"}, {}, [&](pipeline::Scope& s) {
                        s.write("prediction", mix(s.tensor("noisy"), s.tensor("sound_noisy"), s.tensor("sigma")));
                        s.write("sound_prediction", mix(s.tensor("sound_noisy"), s.tensor("noisy"), s.tensor("sigma")));
                      }};
  diffusion::SamplerOptions options{.num_steps = 3};
  auto other = normal(77).narrow(2, 0, 1);
  auto found = walk({flow, {{{}, {both}}}}, pipeline::Values{{"latents", noise}, {"sound", other}}, {}, {.sampler = options});
  auto sampler = flow.sampler(options), of_sound = flow.sampler(options);
  auto x = noise, y = other;
  for (int64_t i = 0; i < 3; ++i) {
    auto time = at::full({2}, sampler->time(i));
    auto of_x = mix(x, y, time), of_y = mix(y, x, time);
    x = sampler->update(x, of_x, i, nullptr);
    y = of_sound->update(y, of_y, i, nullptr);
  }
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(found.at("latents")), x));
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(found.at("sound")), y));
}

TEST_F(Walks, RecordNothingWhereGradientsAreOff) {
  weight.set_requires_grad(true);
  at::NoGradGuard no_grad;
  EXPECT_FALSE(walk({flow, {{{}, denoise("sigma", weight)}}}, noise, conditions, {.sampler = {.num_steps = 2}}).requires_grad());
}

TEST_F(Walks, EndWhereTheyAreToldTo) {
  std::vector<int64_t> asked;
  WalkOptions walking{.sampler = {.num_steps = 5}};
  walking.goes_on = [&](int64_t step) {
    asked.push_back(step);
    return step < 2;
  };
  EXPECT_FALSE(walk({flow, {{{}, denoise("sigma", weight)}}}, noise, conditions, walking).defined());
  EXPECT_THAT(asked, ElementsAre(0, 1, 2));
}

TEST_F(Walks, WithoutNumbersAreAFewStepsOfEachStage) {
  at::NoGradGuard no_grad;
  int64_t num_high = 0, num_low = 0;
  auto counting = [](int64_t& count) {
    return pipeline::Units{{"denoise", {"noisy", "sigma"}, {"prediction"}, {}, [&count](pipeline::Scope& s) {
                              ++count;
                              s.write("prediction", s.tensor("noisy"));
                            }}};
  };
  const Denoiser two{flow, {{{0.5, 1}, counting(num_high)}, {{0, 0.5}, counting(num_low)}}};
  for (const auto& [start, num_of_each] : {std::pair{at::empty(kShape, at::kMeta), int64_t{4}}, {noise, int64_t{100}}}) {
    num_high = num_low = 0;
    walk(two, start, {}, {.sampler = {.name = "unipc", .num_steps = 200, .num_image_tokens = 300}});
    EXPECT_EQ(num_high + num_low, 2 * num_of_each);
    EXPECT_GE(std::min(num_high, num_low), 4);
  }
}

TEST_F(Walks, RefuseASamplerOfAnotherProcess) {
  auto text = test::error_of(
      [&] {
        walk({flow, {{{}, denoise("sigma", weight)}}}, noise, conditions, {.sampler = {.name = "ddim"}});
      },
      Exit::config);
  EXPECT_NE(text.find("ddim"), text.npos) << text;
}
