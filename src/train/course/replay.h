#pragma once
#include "diffusion/process.h"
#include "io/safetensors.h"
#include "train/samples/inputs.h"

namespace burnish::train {

/// Recorded draws, one a batch: `step.{i}.noise` [C, H, W], the time as the process names it, `step.{i}.sigma` or `step.{i}.timestep` (one
/// number), and `step.{i}.sample` (a row number), with i from 0 or from 1; where latents are drawn also `step.{i}.latent_noise` [C, H, W].
class Replay {
 public:
  /// Throws a data Error when `path` holds no recorded draws. `process` must outlive this.
  Replay(const std::string& path, const diffusion::Process& process);
  /// Reads shapes, times and rows of the first `count` records; a data Error when one is missing, its noise is not of the latents' shape,
  /// its time is none of the process's, or its row has no latents (`latent_shape_of` gives an empty shape).
  void check(int64_t count, const std::function<std::vector<int64_t>(int64_t row)>& latent_shape_of) const;
  /// Returns the row of record `index`, counted from 0; to be called after `check`.
  int64_t row(int64_t index) const;
  /// Reads noise, time and, where `names` has it, latent_noise of a record, [1, ...]; a data Error when that is not there.
  pipeline::Values draws(int64_t index, at::IntArrayRef latent_shape, const std::set<std::string>& names) const;
  /// Reads a value of a record, as noise [1, ...] of this shape; a data Error when it is not there or has another size.
  at::Tensor noise(int64_t index, const std::string& name, at::IntArrayRef shape) const;
  /// Reads what else of these names a record holds: numbers as [1], and others as [1, ...].
  pipeline::Values others(int64_t index, const std::set<std::string>& names) const;

 private:
  std::string name_of(int64_t index, const char* what) const;
  at::Tensor read(int64_t index, const char* what) const;
  double time(int64_t index) const;
  at::Tensor latent_noise(int64_t index, at::IntArrayRef latent_shape) const;

  const diffusion::Process& process_;
  std::shared_ptr<io::SafetensorsFile> file_;
  int64_t first_ = 0;
};

}  // namespace burnish::train
