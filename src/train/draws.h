#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "data/sampler.h"
#include "diffusion/process.h"
#include "io/safetensors.h"

namespace burnish::train {

/// The random part of a batch.
struct Draw {
  at::Tensor noise_BCHW, time_B;  ///< fp32 on the CPU
  at::Tensor latent_noise_BCHW;   ///< with which latents are drawn from the autoencoder's distribution; undefined where they are its mean
};

/// Values that a training step draws: noise, and the time by the names that processes give it; and where distillation starts and how far
/// it goes, which come with the visit as draws do.
inline const std::set<std::string> kDrawn{"noise", "sigma", "timestep", "latent_noise", "start_noise", "num_inference_steps"};

struct DrawOptions {
  diffusion::TimestepOptions timesteps;
  /// Deviation of a further draw for every channel, the same at all its places, which is added to the noise.
  double noise_offset = 0;
  uint64_t seed = 0;
  bool with_noise = true;  ///< false leaves the noise undefined
};

/// What a visit takes of a sample.
struct Pick {
  Pick(int64_t row, int64_t variant = 0, bool empty_caption = false) : row(row), variant(variant), empty_caption(empty_caption) {}
  int64_t row, variant;  ///< which way of cutting the picture
  bool empty_caption;    ///< the empty caption in place of the sample's
};

/// Chooses one of `num_variants`, all equally likely, and the empty caption with probability `caption_dropout`, each by a key of its own.
Pick pick(const data::Visit& visit, int64_t num_variants, double caption_dropout, uint64_t seed);

/// Standard normal numbers for drawing latents, by a key of their own.
at::Tensor latent_noise(const data::Batch& batch, at::IntArrayRef latent_shape, uint64_t seed);

/// Draws noise and time for every visit, each from its own key: the same visit draws the same numbers in a resumed or re-batched run.
Draw draw(const data::Batch& batch, at::IntArrayRef latent_shape, int64_t num_tokens, const diffusion::Process& process,
          const DrawOptions& options);

/// Recorded draws, one a step: `step.{i}.noise` [C, H, W], the time as the process names it, `step.{i}.sigma` or `step.{i}.timestep` (one
/// number), and `step.{i}.sample` (a row number), with i from 0 or from 1;
/// where latents are drawn also `step.{i}.latent_noise` [C, H, W].
class Replay {
 public:
  Replay(const std::string& path, const diffusion::Process& process);
  struct Step {
    int64_t row;
    Draw draw;
  };
  /// Reads shapes, times and rows of the first `count` records; a data Error when one is missing, its noise is not of the latents' shape,
  /// its time is none of the process's, or its row has no latents (`latent_shape_of` gives an empty shape).
  void check(int64_t count, const std::function<std::vector<int64_t>(int64_t row)>& latent_shape_of) const;
  /// Recorded step `index`, counted from 0; after `check`.
  Step step(int64_t index, at::IntArrayRef latent_shape) const;
  /// The numbers that the latents of a recorded step are drawn with, [1, C, H, W]; a data Error when there are none.
  at::Tensor latent_noise(int64_t index, at::IntArrayRef latent_shape) const;
  /// The row of a recorded step.
  int64_t row(int64_t index) const;

 private:
  std::string name_of(int64_t index, const char* what) const;
  at::Tensor read(int64_t index, const char* what) const;
  double time(int64_t index) const;
  const diffusion::Process& process_;
  std::shared_ptr<io::SafetensorsFile> file_;
  int64_t first_ = 0;
};

}  // namespace burnish::train
