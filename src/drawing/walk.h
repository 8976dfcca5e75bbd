#pragma once
#include <functional>
#include <optional>

#include "diffusion/process.h"
#include "pipeline/unit.h"

namespace burnish::drawing {

/// A denoiser as a walk runs it.
struct Denoiser {
  const diffusion::Process& process;
  /// The units from noisy, the process's time and conditions to prediction, of every stream that is walked; their models are loaded.
  pipeline::Units units;
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
  /// Standard normal noise of the shape of a stream's latents, asked at most once a step, by ancestral samplers alone.
  std::function<at::Tensor(int64_t step, const std::string& stream)> step_noise = {};
  /// Asked before each step; the walk ends there when it says no.
  std::function<bool(int64_t step)> goes_on = {};
};

/// Walks from standard normal noise [B, ...] to latents [B, ...] of every stream, both by what units call its latents, in fp32 and on the
/// noise's device: each step runs the denoiser on `conditions`, which are all it reads beside noisy and time, and a sampler of each stream
/// takes it. Gradients are recorded through all steps where they are on. No values when `goes_on` ended it. A config Error for a sampler
/// that does not fit the process.
pipeline::Values walk(const Denoiser& denoiser, const pipeline::Values& noise, const pipeline::Values& conditions,
                      const WalkOptions& options);
/// Walks the first stream alone; undefined when `goes_on` ended it.
at::Tensor walk(const Denoiser& denoiser, const at::Tensor& noise, const pipeline::Values& conditions, const WalkOptions& options);

}  // namespace burnish::drawing
