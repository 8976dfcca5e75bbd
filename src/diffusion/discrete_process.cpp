#include "diffusion/discrete_process.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/choice.h"
#include "base/random_key.h"
#include "diffusion/timestep_sampling.h"

namespace burnish::diffusion {
namespace {

std::vector<double> betas(const DiscreteConfig& c) {
  const auto n = static_cast<double>(c.num_train_timesteps);
  const bool of_root = c.beta_schedule == "scaled_linear";
  const double first = of_root ? std::sqrt(c.beta_start) : c.beta_start, last = of_root ? std::sqrt(c.beta_end) : c.beta_end;
  const auto on_line = [&](double t) {
    const double value = first + (last - first) * t / (n - 1);
    return of_root ? value * value : value;
  };
  const auto signal = [](double t) { return std::pow(std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2), 2); };
  const auto on_cosine = [&](double t) { return std::min(1 - signal((t + 1) / n) / signal(t / n), 0.999); };
  std::vector<double> values;
  for (int64_t i = 0; i < c.num_train_timesteps; ++i) {
    const auto t = static_cast<double>(i);
    values.push_back(c.beta_schedule == "squaredcos_cap_v2" ? on_cosine(t) : on_line(t));
  }
  return values;
}

/// Variances whose last timestep keeps no signal: √a moved and stretched so that it ends at 0 and begins where it did.
void end_at_zero(std::vector<double>& a) {
  const double first = std::sqrt(a.front()), last = std::sqrt(a.back());
  for (double& value : a) {
    const double root = (std::sqrt(value) - last) * (first / (first - last));
    value = root * root;
  }
}

/// √ of every value, as the fp32 tensor that scales latents.
at::Tensor roots(const std::vector<double>& values) {
  std::vector<double> roots;
  for (const double value : values) roots.push_back(std::sqrt(value));
  return at::tensor(roots, at::TensorOptions().dtype(at::kFloat));
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

std::vector<double> alphas_cumprod(const DiscreteConfig& config) {
  std::vector<double> a;
  double product = 1;
  for (const double beta : betas(config)) a.push_back(product *= 1 - beta);
  if (config.zero_terminal_snr) end_at_zero(a);
  return a;
}

DiscreteProcess::DiscreteProcess(const DiscreteConfig& config) : config_(config), alphas_cumprod_(alphas_cumprod(config)) {
  std::vector<double> noise;
  for (const double a : alphas_cumprod_) noise.push_back(1 - a);
  signal_scale_ = roots(alphas_cumprod_), noise_scale_ = roots(noise);
  if (config_.zero_terminal_snr && config_.prediction_type == "epsilon") {
    config_error("diffusion",
                 "zero_terminal_snr needs prediction_type v_prediction: at the last timestep the noise is all there is to see, so epsilon "
                 "says nothing of the picture");
  }
}

void DiscreteProcess::check_options(const TimestepOptions& timesteps, const LossOptions& loss) const {
  check(timesteps);
  check(loss);
  const auto known = schemes_for_timesteps();
  if (timesteps.mode != "default" && std::ranges::find(known, timesteps.mode) == known.end())
    config_error("diffusion", "timestep_sampling {} moves sigma, and this model has discrete timesteps; choose {}", timesteps.mode,
                 join(known));
  if (timesteps.min_t > 0 || timesteps.max_t < 1)
    config_error("diffusion",
                 "min_t and max_t cut the distribution of sigma, and this model has discrete timesteps; set min_timestep_boundary and "
                 "max_timestep_boundary");
  for (const char* weighting : {"diffsynth", "sigma_sqrt", "sigma_squared", "cosmap"}) {
    if (loss.weighting == weighting)
      config_error("diffusion",
                   "loss_weighting {} is a function of sigma, and this model has discrete timesteps; choose uniform or debiased",
                   weighting);
  }
}

double DiscreteProcess::draw_time(const TimestepOptions& options, uint64_t key, int64_t) const {
  const double u = CounterRandom(key).uniform();
  const double from_noise = options.mode == "default" ? u : 1.0 - noise_share(options, 1.0 - u, 0);
  const auto count = static_cast<int>(config_.num_train_timesteps);
  return count - 1 - index_at(options, from_noise, count);
}

double DiscreteProcess::time_at(double share) const {
  const auto count = static_cast<double>(config_.num_train_timesteps);
  return std::clamp(std::round(share * count), 0.0, count - 1);
}

double DiscreteProcess::share_of(double time) const { return time / static_cast<double>(config_.num_train_timesteps); }

std::string DiscreteProcess::why_no_time(double time) const {
  const auto last = config_.num_train_timesteps - 1;
  if (time >= 0 && time <= static_cast<double>(last) && time == std::floor(time)) return "";
  return fmt::format("a timestep is a whole number from 0 to {}", last);
}

double DiscreteProcess::loss_weight(const LossOptions& options, double time) const {
  const double a = alphas_cumprod_[static_cast<size_t>(time)];
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
  const auto index = time_B.to(x.device(), at::kLong);
  const auto scale = [&](const at::Tensor& table) { return table.to(x.device()).index_select(0, index).reshape(per_sample); };
  return {scale(signal_scale_), scale(noise_scale_)};
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
  if (!options.times.empty())
    config_error("diffusion",
                 "steps between chosen times (trajectory_imitation) are for models that flow, and this one has discrete timesteps");
  return discrete_sampler(config_, options, alphas_cumprod_);
}

}  // namespace burnish::diffusion
