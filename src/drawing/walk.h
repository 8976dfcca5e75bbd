#pragma once
#include <functional>
#include <optional>

#include "diffusion/process.h"
#include "pipeline/unit.h"

namespace burnish::drawing {

/// A denoiser as a walk runs it.
struct Denoiser {
  const diffusion::Process& process;
  pipeline::Units units;  ///< units from noisy, the process's time and conditions to prediction; their models are loaded
  diffusion::Guide guide = diffusion::guide;
};

/// The strength of classifier-free guidance (Denoiser::guide).
struct Guidance {
  pipeline::Values negative;  ///< the conditions that predictions are extrapolated away from
  double scale = 1, rescale = 0;
};

struct WalkOptions {
  diffusion::SamplerOptions sampler;
  std::optional<Guidance> guidance = {};
  /// Standard normal noise of the latents' shape, asked at most once a step, by ancestral samplers alone.
  std::function<at::Tensor(int64_t step)> step_noise = {};
  /// Asked before each step; the walk ends there when it says no.
  std::function<bool(int64_t step)> goes_on = {};
};

/// Walks from standard normal noise [B, ...] to latents [B, ...], in fp32 and on the noise's device: each step of the sampler runs the
/// denoiser on `conditions`, which are all it reads beside noisy and time. Gradients are recorded through all steps where they are on.
/// Undefined when `goes_on` ended it. A config Error for a sampler that does not fit the process.
at::Tensor walk(const Denoiser& denoiser, const at::Tensor& noise, const pipeline::Values& conditions, const WalkOptions& options);

}  // namespace burnish::drawing
