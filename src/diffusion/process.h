#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diffusion/timestep_sampling.h"

namespace burnish::diffusion {

/// A stretch of the way from no noise (0) to noise alone (1): from <= share < to, and noise alone as well where `to` is 1.
struct Stretch {
  double from = 0, to = 1;

  bool has(double share) const { return share >= from && (share < to || to >= 1); }
  bool is_whole() const { return from <= 0 && to >= 1; }
};

/// Options of how much a sample's loss counts, beside its time.
struct LossOptions {
  std::string weighting = "default";  ///< see check_loss_weighting; "default" is the process's own
  double min_snr_gamma = 0;           ///< γ of Min-SNR weighting (Hang et al. 2023, arXiv 2303.09556); 0 is off
};
/// Throws a config Error for an unknown weighting or a negative gamma.
void check(const LossOptions& options);

struct SamplerOptions {
  std::string name = "default";  ///< one of sampler_names(), or default: the model's own
  /// leading, trailing or linspace of discrete timesteps; diffsynth of flows: the family's GridConfig for that many steps;
  /// default: the model's own
  std::string timestep_spacing = "default";
  int64_t num_steps = 28;
  int64_t num_image_tokens = 0;  ///< matters to shifts that depend on it
  /// The times of a flow where each step begins and the last one ends, in place of the model's own.
  std::vector<double> times = {};
};
/// Returns what a sampler and its spacing may be called.
std::vector<std::string> sampler_names();
std::vector<std::string> spacing_names();
/// Throws a config Error for an unknown sampler or spacing, or fewer than one step.
void check(const SamplerOptions& options);

/// Tells whether these are times of a flow at which steps may begin: two or more, which fall from at most 1 to 0.
bool falls_to_zero(std::span<const double> times);

/// A walk from noise to pictures for one batch. Steps are taken in order, each once: a multistep method remembers the last one. Everything
/// is computed in fp32, whatever the dtype of a prediction; flows walk in fp64 from noise that is.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual int64_t num_steps() const = 0;
  /// The time that the denoiser is told at a step; may lie between the training times.
  virtual double time(int64_t step) const = 0;
  /// Standard normal noise, scaled as the first step wants it.
  virtual at::Tensor start(const at::Tensor& noise) const = 0;
  /// Computes what the denoiser is shown at a step.
  virtual at::Tensor model_input(const at::Tensor& latents, int64_t step) const = 0;
  /// Draws standard normal noise of the latents' shape; asked at most once a step, by ancestral methods alone.
  using Noise = std::function<at::Tensor()>;
  /// Computes the latents after a step.
  virtual at::Tensor update(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, const Noise& noise) = 0;
};

/// A noise process: how a family's latents are turned into noise, what its denoiser predicts, and the ways back. The trainer and the
/// sampler know no more of a noise schedule than this.
class Process {
 public:
  virtual ~Process() = default;
  /// The name of the value that says how noisy a sample is: "sigma" (the share of noise) or "timestep" (an index, larger is noisier).
  virtual std::string time_name() const = 0;
  /// Throws a config Error for choices that mean nothing here.
  virtual void check_options(const TimestepOptions& timesteps, const LossOptions& loss) const = 0;
  /// The time of one sample, a function of the key alone.
  virtual double draw_time(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const = 0;
  /// The time at a share of the way from no noise (0) to noise alone (1).
  virtual double time_at(double share) const = 0;
  /// The way back from time_at: returns where a time lies between no noise (0) and noise alone (1).
  virtual double share_of(double time) const = 0;
  /// Returns "" when a sample can be trained at `time`, else what times are, for a message.
  virtual std::string why_no_time(double time) const = 0;
  /// Computes the factor on a sample's loss.
  virtual double loss_weight(const LossOptions& options, double time) const = 0;

  /// Latents with noise. x0, noise [B, ...]; time [B]. Computed and returned in fp32, as the target is.
  virtual at::Tensor add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const = 0;
  /// Computes what the denoiser shall predict of a noisy sample.
  virtual at::Tensor target(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const = 0;

  /// Makes a sampler. A config Error for one that does not fit, or more steps than the schedule has.
  virtual std::unique_ptr<Sampler> sampler(const SamplerOptions& options) const = 0;

  /// Returns the shift (static_shift) by which the noise of further latents, called `stream`, is of another level than the time.
  virtual double shift_of(std::string_view /*stream*/) const { return 1; }
  /// Returns the level of that noise at a time.
  double level(std::string_view stream, double time) const { return static_shift(shift_of(stream), time); }
  at::Tensor level(std::string_view stream, const at::Tensor& time_B) const;
};

/// The time of one sample, a function of the key alone, as Process::draw_time distributes it where it lies in the stretch. A config Error
/// where the distribution hardly ever comes there.
double draw_time_in(const Stretch& stretch, const Process& process, const TimestepOptions& options, uint64_t key, int64_t num_image_tokens);

/// Guided prediction: unconditional + scale (conditional - unconditional). With `rescale` above 0 its standard deviation over each sample
/// is moved by that share towards the conditional one's (Lin et al. 2023, arXiv 2305.08891, section 3.4).
at::Tensor guide(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale);
/// A function that guides: the one above, or what a model does in its place.
using Guide = at::Tensor (*)(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale);

}  // namespace burnish::diffusion
