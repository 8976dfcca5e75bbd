#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "diffusion/scheduler_values.h"

namespace burnish::diffusion {

/// Says where a line of steps from all noise ends before it is shifted: at 1/n of n steps, at 1/1000, or at the static shift of that
/// (diffusers' set_timesteps without sigmas).
enum class LineEnd { share, thousandth, shifted_thousandth };

/// A flow-matching sampler as `scheduler_config.json` has it; the defaults are for a model that comes without the file.
struct FlowSamplerConfig {
  double shift = 3.0;                ///< s of the static shift s t / (1 + (s-1) t), used without dynamic shifting
  bool use_dynamic_shifting = true;  ///< shift by mu, which depends on the number of image tokens
  double base_shift = 0.5;           ///< mu at base_image_seq_len
  double max_shift = 1.15;           ///< mu at max_image_seq_len
  double base_image_seq_len = 256;
  double max_image_seq_len = 4096;
  std::string time_shift_type = "exponential";  ///< "exponential": e^mu / (e^mu + 1/t - 1); "linear": mu / (mu + 1/t - 1)
  double shift_terminal = 0;                    ///< when above 0, sigmas are stretched so that the last one before 0 is this
  /// mu of a model whose shift depends on the number of steps as well, which is in no file; null: the line above.
  double (*mu_of)(int64_t num_image_tokens, int64_t num_steps) = nullptr;
  /// The timestep_sampling of which steps are quantiles, the first of all noise, where that is not a line; "": the line.
  std::string quantiles_of = {};
  LineEnd ends_at = LineEnd::share;  ///< of models whose makers draw so, and so are sigmas that are brought to whole thousandths
  bool in_thousandths = false;
  double first = 1;               ///< where the line begins, of models that are told of less noise than there is at the first step
  std::string sampler = "euler";  ///< or "unipc" or "lcm"
  int64_t unipc_order = 2;
};

/// Reads the keys above; an absent one takes the default of diffusers' FlowMatchEulerDiscreteScheduler (no dynamic shifting, shift 1). Of
/// its UniPCMultistepScheduler, whose shift is called flow_shift, the file must say that it is for flows. Keys that do not change the
/// schedule are ignored. Throws a data Error for another scheduler class, a value of another type or out of range, or a switch that is on
/// and not supported (Karras, exponential or beta sigmas, inverted sigmas, stochastic sampling).
FlowSamplerConfig flow_sampler_config(const SchedulerValues& values);

/// The num_steps + 1 sigmas of one picture, from `first` down to an appended 0: first · linspace(1, 1/n, n), shifted; for unipc that
/// without its last of linspace(1, 1/1000, n + 1); for quantiles_of the sigmas below which these shares of all draws lie, shifted.
/// The timestep of a step is its sigma: models here take sigma in [0, 1], diffusers' `timesteps` are 1000 times that.
/// num_image_tokens matters to dynamic shifting only. Throws a config Error for num_steps < 1.
std::vector<double> sampling_sigmas(const FlowSamplerConfig& config, int64_t num_steps, int64_t num_image_tokens,
                                    const std::string& sampler = "euler");

}  // namespace burnish::diffusion
