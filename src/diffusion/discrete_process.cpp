#include "diffusion/discrete_process.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/choice.h"
#include "base/random_key.h"

namespace burnish::diffusion {
namespace {

at::Tensor betas(const DiscreteConfig& c) {
  const auto fp32 = at::TensorOptions().dtype(at::kFloat);
  if (c.beta_schedule == "linear") return at::linspace(c.beta_start, c.beta_end, c.num_train_timesteps, fp32);
  if (c.beta_schedule == "scaled_linear")
    return at::linspace(std::sqrt(c.beta_start), std::sqrt(c.beta_end), c.num_train_timesteps, fp32).square();
  const auto signal = [](double t) { return std::pow(std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2), 2); };
  std::vector<double> values;
  const auto n = static_cast<double>(c.num_train_timesteps);
  for (int64_t i = 0; i < c.num_train_timesteps; ++i) {
    const auto t = static_cast<double>(i);
    values.push_back(std::min(1 - signal((t + 1) / n) / signal(t / n), 0.999));
  }
  return at::tensor(values, fp32);
}

/// Betas whose last timestep keeps no signal: √a moved and stretched so that it ends at 0 and begins where it did.
at::Tensor with_zero_end(const at::Tensor& betas) {
  auto root = at::cumprod(1.0 - betas, 0).sqrt();
  const auto first = root[0].clone(), last = root[-1].clone();
  root = (root - last) * (first / (first - last));
  auto signal = root.square();
  auto alphas = at::cat({signal.slice(0, 0, 1), signal.slice(0, 1) / signal.slice(0, 0, -1)});
  return 1.0 - alphas;
}

template <size_t N>
void must_be_one_of(const char* key, const std::string& value, const std::array<std::string, N>& choices) {
  if (std::ranges::find(choices, value) == choices.end())
    data_error("diffusion", "scheduler_config.json: \"{}\" must be one of {}, found \"{}\"", key, join(choices), value);
}

void check_values(const DiscreteConfig& c) {
  must_be_one_of("beta_schedule", c.beta_schedule, std::array<std::string, 3>{"linear", "scaled_linear", "squaredcos_cap_v2"});
  must_be_one_of("prediction_type", c.prediction_type, std::array<std::string, 3>{"epsilon", "v_prediction", "sample"});
  must_be_one_of("timestep_spacing", c.timestep_spacing, std::array<std::string, 3>{"leading", "trailing", "linspace"});
  if (c.num_train_timesteps < 2 || c.num_train_timesteps > 1000000)
    data_error("diffusion", "scheduler_config.json: \"num_train_timesteps\" must be from 2 to 1000000, found {}", c.num_train_timesteps);
  if (!(c.beta_start > 0 && c.beta_start <= c.beta_end && c.beta_end < 1))
    data_error("diffusion", "scheduler_config.json: betas must satisfy 0 < beta_start <= beta_end < 1, found {} and {}", c.beta_start,
               c.beta_end);
  if (c.steps_offset < 0) data_error("diffusion", "scheduler_config.json: \"steps_offset\" must be at least 0, found {}", c.steps_offset);
}

}  // namespace

DiscreteConfig discrete_config(const SchedulerValues& values) {
  for (const char* key :
       {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "use_flow_sigmas", "use_lu_lambdas", "thresholding"})
    refuse_switch(values, key);
  if (values.contains("trained_betas"))
    data_error("diffusion", "scheduler_config.json: \"trained_betas\" is not supported; a schedule is given by beta_start and beta_end");
  DiscreteConfig c;
  c.beta_start = 0.0001, c.beta_end = 0.02, c.beta_schedule = "linear", c.set_alpha_to_one = true;
  std::string name;
  read_value(values, "_class_name", name);
  c.sampler = name == "EulerAncestralDiscreteScheduler" ? "euler_a"
              : name == "DPMSolverMultistepScheduler"   ? "dpmpp_2m"
              : name == "DDIMScheduler"                 ? "ddim"
                                                        : "euler";
  c.timestep_spacing = c.sampler == "ddim" || name == "PNDMScheduler" ? "leading" : "linspace";
  double count = 1000, offset = 0;
  read_value(values, "num_train_timesteps", count);
  read_value(values, "steps_offset", offset);
  c.num_train_timesteps = static_cast<int64_t>(count), c.steps_offset = static_cast<int64_t>(offset);
  read_value(values, "beta_start", c.beta_start);
  read_value(values, "beta_end", c.beta_end);
  read_value(values, "beta_schedule", c.beta_schedule);
  read_value(values, "prediction_type", c.prediction_type);
  read_value(values, "rescale_betas_zero_snr", c.zero_terminal_snr);
  read_value(values, "timestep_spacing", c.timestep_spacing);
  read_value(values, "set_alpha_to_one", c.set_alpha_to_one);
  read_value(values, "clip_sample", c.clip_sample);
  read_value(values, "clip_sample_range", c.clip_sample_range);
  check_values(c);
  return c;
}

at::Tensor alphas_cumprod(const DiscreteConfig& config) {
  auto b = betas(config);
  if (config.zero_terminal_snr) b = with_zero_end(b);
  return at::cumprod(1.0 - b, 0);
}

DiscreteProcess::DiscreteProcess(const DiscreteConfig& config) : config_(config), alphas_cumprod_(alphas_cumprod(config)) {
  if (config_.zero_terminal_snr && config_.prediction_type == "epsilon") {
    config_error("diffusion",
                 "zero_terminal_snr needs prediction_type v_prediction: at the last timestep the noise is all there is to see, so epsilon "
                 "says nothing of the picture");
  }
}

void DiscreteProcess::check_options(const TimestepOptions& timesteps, const LossOptions& loss) const {
  check(timesteps);
  check(loss);
  for (const char* mode : {"diffsynth", "shift", "flux_shift", "mode"}) {
    if (timesteps.mode == mode)
      config_error("diffusion",
                   "timestep_sampling {} moves sigma, and this model has discrete timesteps; choose uniform, sigmoid or logit_normal",
                   mode);
  }
  for (const char* weighting : {"diffsynth", "sigma_sqrt", "cosmap"}) {
    if (loss.weighting == weighting)
      config_error("diffusion",
                   "loss_weighting {} is a function of sigma, and this model has discrete timesteps; choose uniform or debiased",
                   weighting);
  }
}

double DiscreteProcess::draw_time(const TimestepOptions& options, uint64_t key, int64_t) const {
  CounterRandom random(key);
  double from_noise = 0;
  if (options.mode == "sigmoid") from_noise = 1.0 - sigmoid(options.sigmoid_scale * random.normal());
  else if (options.mode == "logit_normal") from_noise = sigmoid(options.logit_mean + options.logit_std * random.normal());
  else from_noise = random.uniform();
  const auto count = static_cast<int>(config_.num_train_timesteps);
  return count - 1 - index_at(options, from_noise, count);
}

double DiscreteProcess::time_at(double share) const {
  const auto count = static_cast<double>(config_.num_train_timesteps);
  return std::clamp(std::round(share * count), 0.0, count - 1);
}

std::string DiscreteProcess::why_no_time(double time) const {
  const auto last = config_.num_train_timesteps - 1;
  if (time >= 0 && time <= static_cast<double>(last) && time == std::floor(time)) return "";
  return fmt::format("a timestep is a whole number from 0 to {}", last);
}

double DiscreteProcess::loss_weight(const LossOptions& options, double time) const {
  const double a = alphas_cumprod_[static_cast<int64_t>(time)].item<double>();
  const double snr = a / (1 - a);
  const bool v = config_.prediction_type == "v_prediction";
  double weight = 1;
  if (options.weighting == "debiased") weight = v ? 1 / (std::min(snr, 1000.0) + 1) : 1 / std::sqrt(std::min(snr, 1000.0));
  if (options.min_snr_gamma > 0) {
    const double kept = std::min(snr, options.min_snr_gamma);
    weight *= v ? kept / (snr + 1) : config_.prediction_type == "epsilon" ? kept / snr : kept;
  }
  return weight;
}

std::pair<at::Tensor, at::Tensor> DiscreteProcess::signal_and_noise(const at::Tensor& time_B, const at::Tensor& x) const {
  std::vector<int64_t> per_sample(static_cast<size_t>(x.dim()), 1);
  per_sample[0] = time_B.size(0);
  auto a = alphas_cumprod_.index_select(0, time_B.to(at::kCPU, at::kLong)).reshape(per_sample);
  return {a.sqrt().to(x.device()), (1.0 - a).sqrt().to(x.device())};
}

at::Tensor DiscreteProcess::add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const {
  auto [signal, share] = signal_and_noise(time_B, x0);
  return signal * x0.to(at::kFloat) + share * noise.to(at::kFloat);
}

at::Tensor DiscreteProcess::target(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const {
  if (config_.prediction_type == "epsilon") return noise.to(at::kFloat);
  if (config_.prediction_type == "sample") return x0.to(at::kFloat);
  auto [signal, share] = signal_and_noise(time_B, x0);
  return signal * noise.to(at::kFloat) - share * x0.to(at::kFloat);
}

std::unique_ptr<Sampler> DiscreteProcess::sampler(const SamplerOptions& options) const {
  return discrete_sampler(config_, options, alphas_cumprod_);
}

}  // namespace burnish::diffusion
