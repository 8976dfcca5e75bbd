#pragma once
#include "diffusion/flow_sampler.h"
#include "diffusion/process.h"
#include "diffusion/training_grid.h"

namespace burnish::diffusion {

/// Flow matching: time is sigma, the share of noise; a noisy picture is (1 - sigma) x0 + sigma noise, and the denoiser
/// predicts the velocity noise - x0 (Lipman et al. 2023, arXiv 2210.02747).
class FlowProcess : public Process {
 public:
  /// `grid`: that of DiffSynth-Studio for the family; timesteps, loss weights and steps that are called diffsynth are of it.
  explicit FlowProcess(FlowSamplerConfig config, const GridConfig& grid = {}) : config_(std::move(config)), grid_(grid) {}
  std::string time_name() const override { return "sigma"; }
  void check_options(const TimestepOptions& timesteps, const LossOptions& loss) const override;
  double draw_time(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const override;
  double time_at(double share) const override { return share; }
  double share_of(double time) const override { return time; }
  std::string why_no_time(double time) const override;
  double loss_weight(const LossOptions& options, double time) const override;
  at::Tensor add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const override;
  at::Tensor target(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const override;
  /// Makes an Euler or UniPC sampler over sampling_sigmas.
  std::unique_ptr<Sampler> sampler(const SamplerOptions& options) const override;

 private:
  FlowSamplerConfig config_;
  TrainingGrid grid_;
};

}  // namespace burnish::diffusion
