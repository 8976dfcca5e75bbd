#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "data/sampler.h"
#include "diffusion/timestep_sampling.h"
#include "io/safetensors.h"

namespace burnish::train {

/// The random part of a batch.
struct Draw {
  at::Tensor noise_BCHW, sigma_B;  ///< fp32 on the CPU
};

/// Draws noise and sigma for every visit, each from its own key: the same visit draws the same numbers in a resumed or re-batched run.
Draw draw(const data::Batch& batch, at::IntArrayRef latent_shape, int64_t num_tokens, const diffusion::TimestepOptions& timesteps,
          uint64_t seed);

/// Recorded draws, one a step: `step.{i}.noise` [C, H, W], `step.{i}.sigma` (one number), `step.{i}.sample` (a row number), with i from 0
/// or from 1.
class Replay {
 public:
  explicit Replay(const std::string& path);
  struct Step {
    int64_t row;
    Draw draw;
  };
  /// Reads shapes, sigmas and rows of the first `count` records; a data Error when one is missing, its noise is not of the latents' shape,
  /// its sigma is not in [0, 1], or its row has no latents (`latent_shape_of` gives an empty shape).
  void check(int64_t count, const std::function<std::vector<int64_t>(int64_t row)>& latent_shape_of) const;
  /// Recorded step `index`, counted from 0; after `check`.
  Step step(int64_t index, at::IntArrayRef latent_shape) const;
  /// The row of a recorded step.
  int64_t row(int64_t index) const;

 private:
  std::string name_of(int64_t index, const char* what) const;
  at::Tensor read(int64_t index, const char* what) const;
  double sigma(int64_t index) const;
  std::shared_ptr<io::SafetensorsFile> file_;
  int64_t first_ = 0;
};

}  // namespace burnish::train
