#include "diffusion/flow_sampler.h"

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "diffusion/timestep_sampling.h"

namespace burnish::diffusion {
namespace {

constexpr double kThousand = 1000;

double shifted(const FlowSamplerConfig& config, double mu, double t) {
  if (!config.use_dynamic_shifting) return static_shift(config.shift, t);
  return config.time_shift_type == "linear" ? mu / (mu + (1.0 / t - 1.0)) : exponential_shift(mu, t);
}

void check_shift(const FlowSamplerConfig& config, const char* key) {
  if (!(config.shift > 0)) data_error("diffusion", "scheduler_config.json: \"{}\" must be above 0, found {}", key, config.shift);
  if (!(config.shift_terminal >= 0 && config.shift_terminal < 1))
    data_error("diffusion", "scheduler_config.json: \"shift_terminal\" must be in [0, 1), found {}", config.shift_terminal);
}

/// Throws where a key is there and has another value than the one that is done.
template <class T>
void expect_value(const SchedulerValues& values, const char* key, T expected) {
  T found = expected;
  read_value(values, key, found);
  if (found != expected) data_error("diffusion", "scheduler_config.json: of UniPC \"{}\" must be {}, found {}", key, expected, found);
}

FlowSamplerConfig unipc_config(const SchedulerValues& values) {
  bool flows = false;
  std::string predicts = "epsilon", solver = "bh2";
  double order = 2;
  read_value(values, "use_flow_sigmas", flows);
  read_value(values, "prediction_type", predicts);
  if (!flows || predicts != "flow_prediction") {
    data_error("diffusion",
               "scheduler_config.json: UniPCMultistepScheduler is for flows here, with \"use_flow_sigmas\" true and \"prediction_type\" "
               "flow_prediction; found {} and {}",
               flows, predicts);
  }
  for (const char* key : {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "thresholding", "use_dynamic_shifting"})
    refuse_switch(values, key);
  expect_value(values, "predict_x0", true);
  expect_value(values, "lower_order_final", true);
  expect_value(values, "num_train_timesteps", 1000.0);
  expect_value<std::string>(values, "final_sigmas_type", "zero");
  expect_value<std::string>(values, "disable_corrector", "[]");
  read_value(values, "solver_order", order);
  if (order != 1 && order != 2) data_error("diffusion", "scheduler_config.json: of UniPC \"solver_order\" must be 1 or 2, found {}", order);
  read_value(values, "solver_type", solver);
  // bh1 has no last step to a sigma of 0; diffusers takes the names of other schedulers' solvers for bh2.
  if (solver != "bh2" && solver != "midpoint" && solver != "heun" && solver != "logrho")
    data_error("diffusion", "scheduler_config.json: of UniPC \"solver_type\" must be bh2, found {}", solver);
  FlowSamplerConfig config{.shift = 1.0, .use_dynamic_shifting = false, .sampler = "unipc"};
  config.unipc_order = static_cast<int64_t>(order);
  read_value(values, "flow_shift", config.shift);
  read_value(values, "shift_terminal", config.shift_terminal);
  check_shift(config, "flow_shift");
  return config;
}

}  // namespace

FlowSamplerConfig flow_sampler_config(const SchedulerValues& values) {
  std::string name = "FlowMatchEulerDiscreteScheduler";
  read_value(values, "_class_name", name);
  if (name == "UniPCMultistepScheduler") return unipc_config(values);
  if (name != "FlowMatchEulerDiscreteScheduler") {
    data_error("diffusion",
               "scheduler_config.json: expected FlowMatchEulerDiscreteScheduler, found {}; put that scheduler's file in its place", name);
  }
  for (const char* key : {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "invert_sigmas", "stochastic_sampling"}) {
    refuse_switch(values, key);
  }
  FlowSamplerConfig config;
  config.shift = 1.0;
  config.use_dynamic_shifting = false;
  read_value(values, "shift", config.shift);
  read_value(values, "use_dynamic_shifting", config.use_dynamic_shifting);
  read_value(values, "base_shift", config.base_shift);
  read_value(values, "max_shift", config.max_shift);
  read_value(values, "base_image_seq_len", config.base_image_seq_len);
  read_value(values, "max_image_seq_len", config.max_image_seq_len);
  read_value(values, "time_shift_type", config.time_shift_type);
  read_value(values, "shift_terminal", config.shift_terminal);
  if (config.time_shift_type != "exponential" && config.time_shift_type != "linear") {
    data_error("diffusion", "scheduler_config.json: \"time_shift_type\" must be exponential or linear, found \"{}\"",
               config.time_shift_type);
  }
  check_shift(config, "shift");
  if (config.max_image_seq_len == config.base_image_seq_len) {
    data_error("diffusion", "scheduler_config.json: \"base_image_seq_len\" and \"max_image_seq_len\" must differ, both are {}",
               config.max_image_seq_len);
  }
  return config;
}

std::vector<double> sampling_sigmas(const FlowSamplerConfig& config, int64_t num_steps, int64_t num_image_tokens,
                                    const std::string& sampler) {
  if (num_steps < 1) config_error("diffusion", "num_inference_steps must be at least 1, not {}", num_steps);
  const double mu = config.mu_of ? config.mu_of(num_image_tokens, num_steps)
                                 : mu_of_tokens(static_cast<double>(num_image_tokens), config.base_image_seq_len, config.max_image_seq_len,
                                                config.base_shift, config.max_shift);
  std::vector<double> sigmas;
  for (int64_t i = 0; i < num_steps; ++i) {
    const double n = static_cast<double>(num_steps);
    // As numpy computes a line, so that times of whole thousandths are those of diffusers.
    double t = sampler == "unipc" ? static_cast<double>(i) * ((0.001 - 1) / n) + 1 : static_cast<double>(num_steps - i) / n;
    if (config.ends_at != LineEnd::share && sampler != "unipc") {
      const double shift = config.ends_at == LineEnd::shifted_thousandth ? config.shift : 1;
      t = 1 - static_cast<double>(i) / std::max(n - 1, 1.0) * (1 - shift / (kThousand + shift - 1));
    }
    t *= config.first;
    const double sigma = config.quantiles_of.empty() ? t : sigma_at({.mode = config.quantiles_of}, t, num_image_tokens);
    sigmas.push_back(shifted(config, mu, sigma));
    if (config.in_thousandths) sigmas.back() = std::round(sigmas.back() * kThousand) / kThousand;
  }
  if (config.shift_terminal > 0) stretch_to(config.shift_terminal, sigmas);
  sigmas.push_back(0.0);
  return sigmas;
}

}  // namespace burnish::diffusion
