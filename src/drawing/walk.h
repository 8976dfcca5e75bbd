#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "models/model/model.h"

namespace burnish::drawing {

/// A denoiser as a walk runs it.
struct Denoiser {
  /// A stage predicts in a stretch of the way.
  struct Stage {
    diffusion::Stretch stretch;
    pipeline::Units units;      ///< units from noisy, the process's time and conditions to prediction, of every stream that is walked
    pipeline::Units away = {};  ///< units in their place for what guidance leads away from; none: `units`, on Guidance::negative
  };
  const diffusion::Process& process;
  std::vector<Stage> stages;  ///< stages in the order in which a walk comes by them
  diffusion::Guide guide = diffusion::guide;
  std::vector<std::string> streams = {models::kLatents};
  std::map<std::string, std::string> held = {};  ///< conditions that streams' latents begin with (models::LatentSpace::Stream::held)
  /// Returns the scale of guidance at a step of a walk of which `scale` is asked for; null: `scale`.
  std::function<double(double scale, int64_t step, int64_t num_steps)> guidance_at = {};

  /// Returns the number of the stage that predicts at a time, or else of the nearest stage.
  size_t stage_at(double time) const;
  /// Returns the models of all stages.
  std::vector<std::string> models() const;
  /// Returns the names of what the units of any stage read beside the time and the streams' noisy latents.
  std::vector<std::string> condition_names() const;
};

/// Says which units of a model a walk runs.
enum class UnitsFor {
  training,  ///< UnitGroups::denoise
  looking,   ///< UnitGroups::drawing, and draw_away
};

/// Makes a denoiser with a stage for each of these experts. The model must outlive it.
Denoiser denoiser_of(models::Model& model, const std::vector<models::Expert>& experts, UnitsFor use);

/// The strength of classifier-free guidance (Denoiser::guide).
struct Guidance {
  pipeline::Values negative;  ///< the conditions that predictions are extrapolated away from
  double scale = 1, rescale = 0;
};

struct WalkOptions {
  diffusion::SamplerOptions sampler;
  std::optional<Guidance> guidance = {};
  /// Gives standard normal noise of the shape of a stream's latents; asked at most once a step, by ancestral samplers alone.
  std::function<at::Tensor(int64_t step, const std::string& stream)> step_noise = {};
  /// Asked before each step; the walk ends there when it says no.
  std::function<bool(int64_t step)> goes_on = {};
};

/// A walk goes from standard normal noise [B, ...] to latents [B, ...] of every stream, both named as units call the stream's latents, in
/// fp32 and on the noise's device. Each step runs the denoiser on `conditions`, which are all it reads beside noisy and time, and each
/// stream's sampler takes the step. Gradients are recorded through all steps where they are on.
class Walk {
 public:
  using Tensors = std::map<std::string, at::Tensor>;  ///< latents by stream

  /// Throws a config Error for a sampler that does not fit the process. The denoiser must outlive the walk.
  Walk(const Denoiser& denoiser, const pipeline::Values& noise, pipeline::Values conditions, WalkOptions options);

  bool is_done() const { return step_ == first().num_steps(); }
  /// Returns the number of the stage whose models the next step runs.
  size_t stage() const { return denoiser_.stage_at(first().time(step_)); }
  /// Takes the steps of a stage, whose models are loaded. False when `goes_on` ended it.
  bool advance(size_t stage);
  const Tensors& latents() const { return latents_; }
  /// Computes what the next step shows the denoiser.
  Tensors inputs() const;

 private:
  const diffusion::Sampler& first() const { return *samplers_.at(models::kLatents); }
  double time_after() const;
  std::unique_ptr<diffusion::Sampler> sampler_of(const std::string& stream) const;
  void take_step();
  void put_held();

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
