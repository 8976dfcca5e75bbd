#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "models/model.h"

namespace burnish::drawing {

/// A denoiser as a walk runs it.
struct Denoiser {
  /// What predicts in a stretch of the way.
  struct Stage {
    diffusion::Stretch stretch;
    pipeline::Units units;  ///< units from noisy, the process's time and conditions to prediction, of every stream that is walked
  };
  const diffusion::Process& process;
  std::vector<Stage> stages;  ///< in the order in which a walk comes by them
  diffusion::Guide guide = diffusion::guide;
  std::vector<std::string> streams = {models::kLatents};

  /// The number of the stage that predicts at a time: where none has it, of the nearest.
  size_t stage_at(double time) const;
  /// The models of all stages.
  std::vector<std::string> models() const;
  /// What the units of any stage read beside the time and what is noisy of the streams.
  std::vector<std::string> condition_names() const;
};

/// Which units of a model a walk runs.
enum class UnitsFor {
  training,  ///< UnitGroups::denoise
  looking,   ///< UnitGroups::drawing
};

/// The denoiser with a stage for each of these experts. The model must outlive it.
Denoiser denoiser_of(models::Model& model, const std::vector<models::Expert>& experts, UnitsFor use);

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

/// A walk from standard normal noise [B, ...] to latents [B, ...] of every stream, both by what units call its latents, in fp32 and on the
/// noise's device: each step runs the denoiser on `conditions`, which are all it reads beside noisy and time, and a sampler of each stream
/// takes it. Gradients are recorded through all steps where they are on.
class Walk {
 public:
  using Tensors = std::map<std::string, at::Tensor>;  ///< by stream

  /// A config Error for a sampler that does not fit the process. The denoiser must outlive the walk.
  Walk(const Denoiser& denoiser, const pipeline::Values& noise, pipeline::Values conditions, WalkOptions options);

  bool is_done() const { return step_ == first().num_steps(); }
  /// The number of the stage whose models the next step runs.
  size_t stage() const { return denoiser_.stage_at(first().time(step_)); }
  /// Takes the steps of a stage, whose models are loaded. False when `goes_on` ended it.
  bool advance(size_t stage);
  const Tensors& latents() const { return latents_; }

 private:
  const diffusion::Sampler& first() const { return *samplers_.at(models::kLatents); }
  void take_step();

  const Denoiser& denoiser_;
  pipeline::Values conditions_;
  WalkOptions options_;
  std::map<std::string, std::unique_ptr<diffusion::Sampler>> samplers_;
  Tensors latents_;
  int64_t step_ = 0;
};

/// Takes a walk from its beginning to its end; all models are loaded. No values when `goes_on` ended it.
pipeline::Values walk(const Denoiser& denoiser, const pipeline::Values& noise, const pipeline::Values& conditions,
                      const WalkOptions& options);
/// Walks the first stream alone; undefined when `goes_on` ended it.
at::Tensor walk(const Denoiser& denoiser, const at::Tensor& noise, const pipeline::Values& conditions, const WalkOptions& options);

}  // namespace burnish::drawing
