#pragma once
#include "diffusion/process.h"
#include "diffusion/scheduler_values.h"

namespace burnish::diffusion {

/// A schedule of discrete timesteps as `scheduler_config.json` has it (Ho et al. 2020, arXiv 2006.11239). Defaults are SDXL's.
struct DiscreteConfig {
  int64_t num_train_timesteps = 1000;
  double beta_start = 0.00085, beta_end = 0.012;
  std::string beta_schedule = "scaled_linear";  ///< linear, scaled_linear (linear in the root), squaredcos_cap_v2
  std::string prediction_type = "epsilon";      ///< epsilon (the noise), v_prediction, sample (the latents themselves)
  /// The last timestep is noise alone (Lin et al. 2023, arXiv 2305.08891).
  bool zero_terminal_snr = false;
  std::string timestep_spacing = "leading";  ///< says where sampling steps lie: leading, trailing, linspace (table 2 there)
  int64_t steps_offset = 1;                  ///< added to leading steps
  std::string sampler = "euler";
  bool set_alpha_to_one = false;  ///< DDIM's last step ends without noise; else at timestep 0
  bool clip_sample = false;       ///< DDIM keeps predicted latents within ±clip_sample_range
  double clip_sample_range = 1.0;
};

/// Reads the keys above, with diffusers' names and their defaults there (`rescale_betas_zero_snr` is zero_terminal_snr; `clip_sample`,
/// which only pixel models want, is off unless the file turns it on). `_class_name` decides the sampler; Euler where it is none of ours.
/// Throws a data Error for a value of another type, an unknown name, or a switch that is on and not supported.
DiscreteConfig discrete_config(const SchedulerValues& values);

/// The share of signal variance at every timestep, what diffusers calls alphas_cumprod. Like all tables of this room it is made in fp64 by
/// plain loops, so that every processor has the same numbers; diffusers makes it in fp32.
std::vector<double> alphas_cumprod(const DiscreteConfig& config);

/// Noise added in discrete timesteps: time is the index, larger is noisier. With a = alphas_cumprod[t],
/// noisy = √a x0 + √(1-a) noise, and the target is the noise, √a noise - √(1-a) x0 (v, Salimans & Ho 2022, arXiv 2202.00512), or x0.
class DiscreteProcess : public Process {
 public:
  explicit DiscreteProcess(const DiscreteConfig& config);
  const DiscreteConfig& config() const { return config_; }
  std::string time_name() const override { return "timestep"; }
  void check_options(const TimestepOptions& timesteps, const LossOptions& loss) const override;
  /// uniform (and default) over all timesteps; the schemes_for_timesteps as shares of them, without shift. Others move sigma and are
  /// refused.
  double draw_time(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const override;
  double time_at(double share) const override;
  double share_of(double time) const override;
  std::string why_no_time(double time) const override;
  /// With snr = a / (1-a): debiased is 1/√min(snr, 1000), or 1/(min(snr, 1000) + 1) for v (arXiv 2310.08442, as in sd-scripts); Min-SNR is
  /// min(snr, γ)/snr for epsilon, min(snr, γ)/(snr + 1) for v, min(snr, γ) for sample. Both multiply.
  double loss_weight(const LossOptions& options, double time) const override;
  at::Tensor add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const override;
  at::Tensor target(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const override;
  /// euler, euler_a (Karras et al. 2022, arXiv 2206.00364), dpmpp_2m (Lu et al. 2022, arXiv 2211.01095), ddim (Song et al. 2020, arXiv
  /// 2010.02502), on the steps of diffusers' schedulers of these names.
  std::unique_ptr<Sampler> sampler(const SamplerOptions& options) const override;

 private:
  /// √a and √(1-a) of every sample, shaped to multiply x.
  std::pair<at::Tensor, at::Tensor> signal_and_noise(const at::Tensor& time_B, const at::Tensor& x) const;
  DiscreteConfig config_;
  std::vector<double> alphas_cumprod_;
  at::Tensor signal_scale_, noise_scale_;  ///< √a and √(1-a) of every timestep, fp32 on the CPU
};

/// The sampler that `config` and `options` name, over the signal variances of every timestep.
std::unique_ptr<Sampler> discrete_sampler(const DiscreteConfig& config, const SamplerOptions& options,
                                          const std::vector<double>& alphas_cumprod);

/// The timesteps that a sampler visits, noisiest first. Throws a config Error for more steps than there is room for.
std::vector<double> sampling_timesteps(const DiscreteConfig& config, const std::string& sampler, int64_t num_steps);

}  // namespace burnish::diffusion
