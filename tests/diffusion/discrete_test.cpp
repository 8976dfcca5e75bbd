// Schedules of discrete timesteps and samplers beside diffusers (tests/golden/make_discrete.py).
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/error.h"
#include "diffusion/discrete_process.h"
#include "diffusion/flow_process.h"
#include "io/safetensors.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::diffusion;

namespace {

const std::shared_ptr<io::SafetensorsFile>& golden_schedules() {
  static auto file = io::SafetensorsFile::open(std::string(test::kCheckout) + "/tests/golden/discrete.safetensors");
  return file;
}

DiscreteConfig kind_of(const std::string& kind) {
  DiscreteConfig c;
  if (kind == "linear") c.beta_start = 0.0001, c.beta_end = 0.02, c.beta_schedule = "linear";
  if (kind == "cosine") c.beta_schedule = "squaredcos_cap_v2";
  c.zero_terminal_snr = kind == "zero_snr";
  if (c.zero_terminal_snr) c.prediction_type = "v_prediction";
  return c;
}

constexpr double kRounding = 0x1.0p-24;  ///< the relative error of one fp32 operation

/// The table of a schedule as diffusers has it.
std::vector<double> diffusers_alphas(const std::string& kind) {
  const auto a = golden_schedules()->tensor("alphas." + kind).to(at::kDouble).contiguous();
  return {a.const_data_ptr<double>(), a.const_data_ptr<double>() + a.numel()};
}

double largest_error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TimestepOptions with_mode(const std::string& mode) {
  TimestepOptions options;
  options.mode = mode;
  return options;
}

}  // namespace

// diffusers makes the table in fp32, burnish in fp64: of each of the t + 1 factors of a, fp32 rounds 1 - beta and the product, and a
// schedule with a zero end goes through roots and multiplies again.
TEST(DiscreteSchedule, AlphasEqualDiffusers) {
  for (const char* kind : {"sdxl", "linear", "cosine", "zero_snr"}) {
    const auto found = alphas_cumprod(kind_of(kind)), expected = diffusers_alphas(kind);
    ASSERT_EQ(found.size(), expected.size());
    const double num_roundings = std::string(kind) == "zero_snr" ? 4 : 2;
    for (size_t t = 0; t < found.size(); ++t)
      EXPECT_LE(std::abs(found[t] - expected[t]), num_roundings * (t + 1) * kRounding * found[t]) << kind << " at " << t;
  }
  EXPECT_EQ(alphas_cumprod(kind_of("zero_snr")).back(), 0.0);
}

TEST(DiscreteProcess, NoiseTargetsAndWeightsEqualDiffusers) {
  auto x0 = golden_schedules()->tensor("train.x0"), noise = golden_schedules()->tensor("train.noise"),
       t = golden_schedules()->tensor("train.timesteps").to(at::kFloat);
  for (const std::string kind : {"sdxl", "zero_snr"}) {
    auto config = kind_of(kind);
    config.prediction_type = "v_prediction";
    DiscreteProcess v(config);
    EXPECT_LE(largest_error(v.add_noise(x0, noise, t), golden_schedules()->tensor("train." + kind + ".noisy")), 1e-6);
    EXPECT_LE(largest_error(v.target(x0, noise, t), golden_schedules()->tensor("train." + kind + ".velocity")), 1e-6);
    auto snr = golden_schedules()->tensor("train." + kind + ".snr");
    for (int64_t i = 0; i < t.numel(); ++i) {
      const double ratio = snr[i].item<double>(), time = t[i].item<double>();
      EXPECT_NEAR(v.loss_weight({"uniform", 5}, time), std::min(ratio, 5.0) / (ratio + 1), 1e-4) << time;
      EXPECT_NEAR(v.loss_weight({"debiased", 0}, time), 1 / (std::min(ratio, 1000.0) + 1), 1e-4) << time;
    }
  }
  DiscreteProcess epsilon{DiscreteConfig{}};
  EXPECT_TRUE(at::equal(epsilon.target(x0, noise, t), noise));
  auto snr = golden_schedules()->tensor("train.sdxl.snr");
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double ratio = snr[i].item<double>();
    EXPECT_NEAR(epsilon.loss_weight({"default", 5}, t[i].item<double>()) / (std::min(ratio, 5.0) / ratio), 1, 1e-4);
    EXPECT_NEAR(epsilon.loss_weight({"debiased", 0}, t[i].item<double>()) * std::sqrt(std::min(ratio, 1000.0)), 1, 1e-4);
    EXPECT_EQ(epsilon.loss_weight({"uniform", 0}, t[i].item<double>()), 1.0);
  }
  DiscreteConfig sample;
  sample.prediction_type = "sample";
  EXPECT_TRUE(at::equal(DiscreteProcess(sample).target(x0, noise, t), x0));
  EXPECT_EQ(epsilon.add_noise(x0.to(at::kBFloat16), noise, t).scalar_type(), at::kFloat);
}

// The samplers walk over diffusers' own table, so that what is compared is their arithmetic. A step takes the difference of numbers as
// large as the latents before it, and diffusers takes it in fp32: its roundings stay in every later step, however small the latents become.
// Eight of them are more than any step has.
TEST(DiscreteSamplers, WholeTrajectoriesEqualDiffusers) {
  int num_walks = 0;
  for (const auto& [name, info] : golden_schedules()->tensors()) {
    if (!name.starts_with("walk.")) continue;
    std::stringstream parts(name);
    std::string skip, sampler, spacing, prediction, kind, steps;
    for (auto* part : {&skip, &sampler, &spacing, &prediction, &kind, &steps}) std::getline(parts, *part, '.');
    auto config = kind_of(kind);
    config.prediction_type = prediction;
    auto walk = discrete_sampler(config, {sampler, spacing, std::stoll(steps), 0}, diffusers_alphas(kind));
    auto expected = golden_schedules()->tensor(name), times = golden_schedules()->tensor("times." + name.substr(5)),
         noise = golden_schedules()->tensor("noise");
    ASSERT_EQ(walk->num_steps(), times.numel()) << name;
    auto x = walk->start(golden_schedules()->tensor("start"));
    double largest = x.abs().max().item<double>();
    for (int64_t i = 0; i < walk->num_steps(); ++i) {
      EXPECT_NEAR(walk->time(i), times[i].item<double>(), 1e-4) << name;
      auto prediction_of = at::tanh(walk->model_input(x, i) * 0.5 + walk->time(i) / 1000);
      x = walk->update(x, prediction_of, i, [&] { return noise[i]; });
      largest = std::max(largest, x.abs().max().item<double>());
      const double error = (x - expected[i]).abs().max().item<double>();
      EXPECT_LE(error, 8 * kRounding * (i + 1) * largest) << name << " step " << i;
    }
    ++num_walks;
  }
  EXPECT_EQ(num_walks, 50);
}

TEST(DiscreteSamplers, AProcessWalksOverItsOwnTable) {
  const auto config = kind_of("zero_snr");
  const SamplerOptions options{"euler", "trailing", 7, 0};
  const auto start = golden_schedules()->tensor("start");
  auto found = DiscreteProcess(config).sampler(options), expected = discrete_sampler(config, options, alphas_cumprod(config));
  EXPECT_TRUE(
      at::equal(found->update(found->start(start), start, 0, nullptr), expected->update(expected->start(start), start, 0, nullptr)));
}

TEST(DiscreteSamplers, GuidanceRescaleEqualsDiffusers) {
  auto c = golden_schedules()->tensor("guidance.conditional"), u = golden_schedules()->tensor("guidance.unconditional");
  EXPECT_LE(largest_error(guide(c, u, 5, 0.7), golden_schedules()->tensor("guided")), 1e-6);
  EXPECT_TRUE(at::equal(guide(c, u, 5, 0), u + (c - u) * 5));
}

TEST(DiscreteDraws, CoverTheBoundariesUniformly) {
  DiscreteProcess process{DiscreteConfig{}};
  std::set<double> seen;
  double sum = 0;
  for (uint64_t key = 0; key < 20000; ++key) {
    const double t = process.draw_time(with_mode("uniform"), key, 0);
    ASSERT_EQ(process.why_no_time(t), "");
    EXPECT_EQ(t, process.draw_time(with_mode("default"), key, 0));
    seen.insert(t), sum += t;
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_NEAR(sum / 20000, 499.5, 5);
  auto noisiest = with_mode("uniform");
  noisiest.max_boundary = 0.4;
  auto cleanest = with_mode("uniform");
  cleanest.min_boundary = 0.9;
  for (uint64_t key = 0; key < 2000; ++key) {
    EXPECT_GE(process.draw_time(noisiest, key, 0), 600);
    EXPECT_LT(process.draw_time(cleanest, key, 0), 100);
  }
  // As with sigma, a larger mean is less noise.
  auto clean = with_mode("logit_normal");
  clean.logit_mean = 2;
  double mean = 0;
  for (uint64_t key = 0; key < 5000; ++key) mean += process.draw_time(clean, key, 0) / 5000;
  EXPECT_LT(mean, 200);
  // Shares of noise without a shift, whatever discrete_flow_shift is.
  for (const char* name : {"cos_map", "mode", "heavy_tail", "beta"}) {
    auto scheme = with_mode(name);
    scheme.noising_weight = 2, scheme.noising_bias = 3;
    double times = 0, shares = 0;
    for (int key = 0; key < 5000; ++key) times += process.draw_time(scheme, static_cast<uint64_t>(key), 0) / 5000;
    for (int i = 0; i < 1000; ++i) shares += noise_share(scheme, (i + 0.5) / 1000, 0);
    EXPECT_NEAR(times, shares, 15) << name;
  }
  EXPECT_EQ(process.time_at(0.25), 250);
  EXPECT_EQ(process.time_at(1), 999);
  EXPECT_EQ(process.share_of(250), 0.25);
}

TEST(DiscreteProcess, RefusesWhatMeansNothingHere) {
  DiscreteProcess process{DiscreteConfig{}};
  auto options = [&](const std::string& mode, const LossOptions& loss) {
    return message_of([&] { process.check_options(with_mode(mode), loss); });
  };
  EXPECT_THAT(options("flux_shift", {}), testing::HasSubstr("moves sigma"));
  EXPECT_THAT(options("diffsynth", {}), testing::HasSubstr("choose uniform"));
  for (const char* mode : {"sigma", "logsnr", "lognorm_blend", "qwen_shift"})
    EXPECT_THAT(options(mode, {}), testing::HasSubstr("moves sigma"));
  TimestepOptions cut = with_mode("uniform");
  cut.min_t = 0.5;
  EXPECT_THAT(message_of([&] { process.check_options(cut, {}); }), testing::HasSubstr("min_timestep_boundary"));
  EXPECT_THAT(options("uniform", {"cosmap", 0}), testing::HasSubstr("function of sigma"));
  EXPECT_EQ(options("uniform", {"debiased", 5}), "no error");
  EXPECT_EQ(options("logit_normal", {}), "no error");
  EXPECT_THAT(message_of([&] { process.sampler({"heun", "default", 4, 0}); }), testing::HasSubstr("sampler must be one of"));
  EXPECT_THAT(message_of([&] { process.sampler({"ddim", "default", 1001, 0}); }), testing::HasSubstr("at most 1000"));
  EXPECT_THAT(message_of([&] { process.sampler({"ddim", "leading", 1000, 0}); }), testing::HasSubstr("beyond the last timestep"));
  EXPECT_THAT(process.why_no_time(1000), testing::HasSubstr("0 to 999"));
  EXPECT_THAT(process.why_no_time(3.5), testing::HasSubstr("whole number"));
  auto zero = kind_of("zero_snr");
  zero.prediction_type = "epsilon";
  EXPECT_THAT(message_of([&] { DiscreteProcess{zero}; }), testing::HasSubstr("needs prediction_type v_prediction"));
  FlowProcess flow{FlowSamplerConfig{}};
  EXPECT_THAT(message_of([&] { flow.sampler({"ddim", "default", 4, 0}); }), testing::HasSubstr("choose euler"));
  EXPECT_THAT(message_of([&] { flow.check_options({}, {"default", 5}); }), testing::HasSubstr("min_snr_gamma"));
  EXPECT_THAT(message_of([&] { flow.check_options({}, {"debiased", 0}); }), testing::HasSubstr("debiased"));
}

TEST(DiscreteConfig, ReadsTheFileAndRefusesWhatItDoesNotDo) {
  const std::string leading = "leading", v = "v_prediction";
  auto c = discrete_config({{"_class_name", std::string("EulerDiscreteScheduler")},
                            {"beta_start", 0.00085},
                            {"beta_end", 0.012},
                            {"beta_schedule", std::string("scaled_linear")},
                            {"steps_offset", 1.0},
                            {"timestep_spacing", leading},
                            {"rescale_betas_zero_snr", true},
                            {"prediction_type", v},
                            {"use_karras_sigmas", false}});
  EXPECT_TRUE(c.zero_terminal_snr);
  EXPECT_EQ(c.steps_offset, 1);
  EXPECT_EQ(c.timestep_spacing, "leading");
  EXPECT_EQ(discrete_config({{"_class_name", std::string("DDIMScheduler")}}).sampler, "ddim");
  EXPECT_EQ(discrete_config({{"_class_name", std::string("PNDMScheduler")}}).sampler, "euler");
  auto refused = [](const SchedulerValues& values) { return message_of([&] { discrete_config(values); }); };
  EXPECT_THAT(refused({{"use_karras_sigmas", true}}), testing::HasSubstr("use_karras_sigmas"));
  EXPECT_THAT(refused({{"beta_schedule", std::string("sigmoid")}}), testing::HasSubstr("squaredcos_cap_v2"));
  EXPECT_THAT(refused({{"prediction_type", 3.0}}), testing::HasSubstr("expected a string"));
  EXPECT_THAT(refused({{"trained_betas", std::string("[0.1]")}}), testing::HasSubstr("trained_betas"));
  EXPECT_THAT(refused({{"beta_end", 2.0}}), testing::HasSubstr("beta_start <= beta_end < 1"));
}
