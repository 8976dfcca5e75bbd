#include "diffusion/flow_process.h"

#include <ATen/TensorOperators.h>

#include "base/input_error.h"
#include "diffusion/loss_weighting.h"
#include "diffusion/unipc.h"

namespace burnish::diffusion {
namespace {

class FlowEuler : public Sampler {
 public:
  explicit FlowEuler(std::vector<double> sigmas) : sigmas_(std::move(sigmas)) {}
  int64_t num_steps() const override { return std::ssize(sigmas_) - 1; }
  double time(int64_t step) const override { return sigmas_[static_cast<size_t>(step)]; }
  at::Tensor start(const at::Tensor& noise) const override { return noise; }
  at::Tensor model_input(const at::Tensor& latents, int64_t) const override { return latents; }
  at::Tensor update(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, const Noise&) override {
    return along(latents, prediction, time(step), time(step + 1));
  }

 protected:
  static at::Tensor along(const at::Tensor& latents, const at::Tensor& prediction, double from, double to) {
    auto dtype = latents.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return latents + prediction.to(dtype) * (to - from);
  }

 private:
  std::vector<double> sigmas_;
};

/// Goes all the way at each step, and back with new noise, as models of few steps are trained to (Luo et al. 2023, arXiv 2310.04378).
class FlowLcm final : public FlowEuler {
 public:
  using FlowEuler::FlowEuler;
  at::Tensor update(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, const Noise& noise) override {
    auto x0 = along(latents, prediction, time(step), 0);
    const auto next = time(step + 1);
    return next > 0 ? x0 * (1 - next) + noise().to(x0.scalar_type()) * next : x0;
  }
};

}  // namespace

void FlowProcess::check_options(const TimestepOptions& timesteps, const LossOptions& loss) const {
  check(timesteps);
  loss_weight(loss, 0.5);
  if (loss.min_snr_gamma > 0)
    config_error("diffusion",
                 "min_snr_gamma weighs the loss of models with discrete timesteps, and this one flows; choose a loss_weighting");
}

double FlowProcess::draw_time(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const {
  return sample_sigma(options, key, num_image_tokens, grid_.sigmas());
}

std::string FlowProcess::why_no_time(double time) const {
  return time > 0 && time <= 1 ? "" : "sigma is the share of noise, above 0 and at most 1";
}

double FlowProcess::loss_weight(const LossOptions& options, double time) const {
  return diffusion::loss_weight(options.weighting, time, grid_);
}

at::Tensor FlowProcess::add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& time_B) const {
  std::vector<int64_t> per_sample(x0.dim(), 1);
  per_sample[0] = time_B.size(0);
  auto sigma = time_B.reshape(per_sample).to(x0.device(), at::kFloat);
  return x0.to(at::kFloat) * (1.0 - sigma) + noise.to(at::kFloat) * sigma;
}

at::Tensor FlowProcess::target(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor&) const {
  return noise.to(at::kFloat) - x0.to(at::kFloat);
}

std::unique_ptr<Sampler> FlowProcess::sampler(const SamplerOptions& options) const {
  const auto name = options.name == "default" ? config_.sampler : options.name;
  if (name != "euler" && name != "unipc" && name != "lcm")
    config_error("diffusion", "sampler {} walks discrete timesteps, and this model flows; choose euler, unipc or lcm", name);
  auto over = [&](std::vector<double> sigmas) -> std::unique_ptr<Sampler> {
    if (name == "lcm") return std::make_unique<FlowLcm>(std::move(sigmas));
    if (name == "unipc") return unipc_sampler(config_.unipc_order, std::move(sigmas));
    return std::make_unique<FlowEuler>(std::move(sigmas));
  };
  // Times that are given are straight steps, unless a sampler is named.
  if (!options.times.empty()) return options.name == "default" ? std::make_unique<FlowEuler>(options.times) : over(options.times);
  if (options.timestep_spacing == "diffsynth") {
    auto sigmas = grid_of(grid_.config(), options.num_steps);
    sigmas.push_back(0);
    return over(std::move(sigmas));
  }
  if (options.timestep_spacing != "default")
    config_error("diffusion", "timestep_spacing {} spaces discrete timesteps, and this model flows; take it out", options.timestep_spacing);
  return over(sampling_sigmas(config_, options.num_steps, options.num_image_tokens, name));
}

}  // namespace burnish::diffusion
