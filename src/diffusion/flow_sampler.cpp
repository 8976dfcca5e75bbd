#include "diffusion/flow_sampler.h"

#include "base/error.h"
#include "diffusion/timestep_sampling.h"

namespace burnish::diffusion {
namespace {

double shifted(const FlowSamplerConfig& config, double mu, double t) {
  if (!config.use_dynamic_shifting) return static_shift(config.shift, t);
  return config.time_shift_type == "linear" ? mu / (mu + (1.0 / t - 1.0)) : exponential_shift(mu, t);
}

}  // namespace

FlowSamplerConfig flow_sampler_config(const SchedulerValues& values) {
  std::string name = "FlowMatchEulerDiscreteScheduler";
  read_value(values, "_class_name", name);
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
  if (!(config.shift > 0)) data_error("diffusion", "scheduler_config.json: \"shift\" must be above 0, found {}", config.shift);
  if (config.max_image_seq_len == config.base_image_seq_len) {
    data_error("diffusion", "scheduler_config.json: \"base_image_seq_len\" and \"max_image_seq_len\" must differ, both are {}",
               config.max_image_seq_len);
  }
  if (!(config.shift_terminal >= 0 && config.shift_terminal < 1)) {
    data_error("diffusion", "scheduler_config.json: \"shift_terminal\" must be in [0, 1), found {}", config.shift_terminal);
  }
  return config;
}

std::vector<double> sampling_sigmas(const FlowSamplerConfig& config, int64_t num_steps, int64_t num_image_tokens) {
  if (num_steps < 1) config_error("diffusion", "num_inference_steps must be at least 1, not {}", num_steps);
  const double mu = config.mu_of ? config.mu_of(num_image_tokens, num_steps)
                                 : mu_of_tokens(static_cast<double>(num_image_tokens), config.base_image_seq_len, config.max_image_seq_len,
                                                config.base_shift, config.max_shift);
  std::vector<double> sigmas;
  for (int64_t i = 0; i < num_steps; ++i) {
    sigmas.push_back(shifted(config, mu, static_cast<double>(num_steps - i) / static_cast<double>(num_steps)));
  }
  if (config.shift_terminal > 0) stretch_to(config.shift_terminal, sigmas);
  sigmas.push_back(0.0);
  return sigmas;
}

}  // namespace burnish::diffusion
