#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "diffusion/flow_match.h"
#include "diffusion/flow_process.h"
#include "io/safetensors.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::diffusion;

namespace {

std::shared_ptr<io::SafetensorsFile> golden_flow() {
  return io::SafetensorsFile::open(std::string(test::kCheckout) + "/tests/golden/diffusion.safetensors");
}

FlowSamplerConfig config_of(const std::string& kind) {
  std::map<std::string, SchedulerValue> values = {{"_class_name", std::string("FlowMatchEulerDiscreteScheduler")},
                                                  {"shift", kind == "static1" ? 1.0 : 3.0},
                                                  {"use_dynamic_shifting", kind == "dynamic" || kind == "terminal"},
                                                  {"num_train_timesteps", 1000.0}};
  if (kind == "terminal") values["shift_terminal"] = 0.02;
  return flow_sampler_config(values);
}

}  // namespace

TEST(FlowSampler, SigmasEqualDiffusers) {
  const auto file = golden_flow();
  int num_schedules = 0;
  for (const auto& [name, info] : file->tensors()) {
    const auto first = name.find('.'), second = name.find('.', first + 1);
    if (second == std::string::npos) continue;
    const int64_t steps = std::stoll(name.substr(first + 1)), tokens = std::stoll(name.substr(second + 1));
    const auto sigmas = sampling_sigmas(config_of(name.substr(0, first)), steps, tokens);
    const at::Tensor expected = file->tensor(name);
    ASSERT_EQ(static_cast<int64_t>(sigmas.size()), expected.numel()) << name;
    for (size_t i = 0; i < sigmas.size(); ++i) EXPECT_NEAR(sigmas[i], expected[i].item<float>(), 1e-6) << name << " at " << i;
    ++num_schedules;
  }
  EXPECT_EQ(num_schedules, 67);
}

/// A model that is told of less noise than there is at first, and one whose own sampler draws new noise.
TEST(FlowSampler, ALineMayBeginBelowAllNoise) {
  const FlowSamplerConfig config{.shift = 1, .use_dynamic_shifting = false, .first = 0.999, .sampler = "lcm"};
  const auto sigmas = sampling_sigmas(config, 4, 256);
  ASSERT_EQ(sigmas.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(sigmas[i], 0.999 * static_cast<double>(4 - i) / 4, 1e-12) << i;
  const auto sampler = FlowProcess(config).sampler({.num_steps = 4, .num_image_tokens = 256});
  const auto latents = at::ones({2}), prediction = at::full({2}, 0.5);
  const auto after = sampler->update(latents, prediction, 0, [] { return at::full({2}, 3.0); });
  EXPECT_NEAR(after[0].item<double>(), (1 - 0.999 * 0.5) * (1 - sigmas[1]) + 3 * sigmas[1], 1e-6);
  EXPECT_NEAR(sampler->update(latents, prediction, 3, {})[0].item<double>(), 1 - 0.5 * sigmas[3], 1e-6);
}

TEST(FlowSampler, EulerStepEqualsDiffusers) {
  const auto file = golden_flow();
  const auto walk = FlowProcess(config_of("dynamic")).sampler({"euler", "default", 4, 1024});
  const at::Tensor next = walk->update(file->tensor("euler.x"), file->tensor("euler.v"), 0, nullptr);
  EXPECT_LT((next - file->tensor("euler.next")).abs().max().item<float>(), 1e-6);
  EXPECT_EQ(walk->update(at::ones({2}), at::ones({2}, at::kBFloat16), 0, nullptr).scalar_type(), at::kFloat);
}

TEST(FlowSampler, RefusesSchedulersItDoesNotDo) {
  const auto message = [](const std::map<std::string, SchedulerValue>& values) -> std::string {
    try {
      flow_sampler_config(values);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::data);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message({{"_class_name", std::string("DDIMScheduler")}}), testing::HasSubstr("found DDIMScheduler"));
  EXPECT_THAT(message({{"shift", true}}), testing::HasSubstr("expected a number at \"shift\""));
  EXPECT_THAT(message({{"use_karras_sigmas", true}}), testing::HasSubstr("use_karras_sigmas"));
  EXPECT_THAT(message({{"time_shift_type", std::string("cubic")}}), testing::HasSubstr("cubic"));
  EXPECT_EQ(message({{"use_karras_sigmas", false}, {"shift", 3.0}}), "no error");
  EXPECT_THROW(sampling_sigmas({}, 0, 256), Error);
}

/// A file of UniPCMultistepScheduler as diffusers' folders of Wan have it, with other values in it.
SchedulerValues unipc_file(const SchedulerValues& others) {
  SchedulerValues values{{"_class_name", std::string("UniPCMultistepScheduler")},
                         {"prediction_type", std::string("flow_prediction")},
                         {"use_flow_sigmas", true},
                         {"num_train_timesteps", 1000.0},
                         {"disable_corrector", std::string("[]")},
                         {"solver_type", std::string("bh2")},
                         {"solver_order", 2.0}};
  for (const auto& [key, value] : others) values[key] = value;
  return values;
}

TEST(FlowSampler, UniPcEqualsDiffusers) {
  const auto file = io::SafetensorsFile::open(std::string(test::kCheckout) + "/tests/golden/unipc.safetensors");
  const std::map<std::string, SchedulerValues> cases{{"shift3.8", {{"flow_shift", 3.0}}},
                                                     {"shift5.27", {{"flow_shift", 5.0}}},
                                                     {"shift1.9", {}},
                                                     {"one", {{"flow_shift", 3.0}}},
                                                     {"two", {{"flow_shift", 3.0}}},
                                                     {"order1.6", {{"flow_shift", 3.0}, {"solver_order", 1.0}}},
                                                     {"terminal.6", {{"flow_shift", 3.0}, {"shift_terminal", 0.1}}}};
  for (const auto& [name, values] : cases) {
    SCOPED_TRACE(name);
    const auto times = file->tensor(name + ".timesteps");
    const auto walk = FlowProcess(flow_sampler_config(unipc_file(values))).sampler({"default", "default", times.numel(), 0});
    ASSERT_EQ(walk->num_steps(), times.numel());
    at::Tensor latents = walk->start(file->tensor("x"));
    for (int64_t step = 0; step < walk->num_steps(); ++step) {
      EXPECT_EQ(std::lround(walk->time(step) * 1000), times[step].item<int64_t>()) << step;
      latents = walk->update(latents, 0.3 * latents - 0.5 * at::cos(3 * latents) * walk->time(step), step, nullptr);
    }
    EXPECT_LT((latents - file->tensor(name + ".latents")).abs().max().item<float>(), 1e-5);
  }
}

TEST(FlowSampler, UniPcIsRefusedWhereItIsAnother) {
  const auto message = [](const SchedulerValues& others) -> std::string {
    try {
      flow_sampler_config(unipc_file(others));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({{"solver_type", std::string("midpoint")}}), "no error");
  EXPECT_THAT(message({{"use_flow_sigmas", false}}), testing::HasSubstr("UniPCMultistepScheduler is for flows here"));
  EXPECT_THAT(message({{"solver_type", std::string("bh1")}}), testing::HasSubstr("\"solver_type\" must be bh2, found bh1"));
  EXPECT_THAT(message({{"solver_order", 3.0}}), testing::HasSubstr("\"solver_order\" must be 1 or 2, found 3"));
  EXPECT_THAT(message({{"predict_x0", false}}), testing::HasSubstr("\"predict_x0\" must be true, found false"));
  EXPECT_THAT(message({{"disable_corrector", std::string("[0]")}}), testing::HasSubstr("must be [], found [0]"));
  EXPECT_THAT(message({{"flow_shift", 0.0}}), testing::HasSubstr("\"flow_shift\" must be above 0"));
  EXPECT_THAT(message({{"use_dynamic_shifting", true}}), testing::HasSubstr("use_dynamic_shifting"));
}

TEST(FlowProcess, NoisedTargetAndLoss) {
  const FlowProcess process({});
  const at::Tensor x0 = normal_noise(1, {2, 3, 4}), eps = normal_noise(2, {2, 3, 4});
  const at::Tensor sigma = at::tensor({0.0, 0.25}, at::kDouble);
  const at::Tensor x = process.add_noise(x0, eps, sigma);
  EXPECT_TRUE(at::equal(x[0], x0[0]));
  EXPECT_TRUE(at::allclose(x[1], 0.75 * x0[1] + 0.25 * eps[1], 1e-6, 1e-6));
  // Walking back along the target from any sigma ends at the picture.
  const at::Tensor target = process.target(x0, eps, sigma);
  EXPECT_TRUE(at::allclose(x[1] - 0.25 * target[1], x0[1], 1e-5, 1e-6));
  EXPECT_EQ(process.add_noise(x0.to(at::kBFloat16), eps, sigma).scalar_type(), at::kFloat);
}

TEST(Noise, IsTorchsForSmallKeysAndLeavesTheGlobalGeneratorAlone) {
  at::manual_seed(5);
  const at::Tensor before = at::rand({4});
  at::manual_seed(5);
  const at::Tensor noise = normal_noise(1234, {3, 5, 7});
  EXPECT_TRUE(at::equal(before, at::rand({4})));
  EXPECT_TRUE(at::allclose(noise, golden_flow()->tensor("noise.1234"), 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(noise, normal_noise(1234, {3, 5, 7})));
  EXPECT_FALSE(at::equal(noise, normal_noise(1234 + (uint64_t{1} << 40), {3, 5, 7})));
}
