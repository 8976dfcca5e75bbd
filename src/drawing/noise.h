#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "drawing/picture.h"
#include "models/model/latent_space.h"

namespace burnish::drawing {

/// Standard normal noise, fp32 on the CPU: what pictures start from, and what ancestral samplers add on their way. It is a picture's own,
/// whatever it is drawn together with.
class Noise {
 public:
  /// Drawn from the seed of each picture.
  explicit Noise(const std::vector<Picture>& pictures);
  /// Recorded: `starts` hold of streams [N, ...], a row a picture; those of others are drawn. `steps` [S, N, ...] is what is added to the
  /// first stream, or undefined and then drawn from the seeds.
  Noise(const std::vector<Picture>& pictures, std::map<std::string, at::Tensor> starts, at::Tensor steps);

  /// Draws what `size` pictures from `first` on start from, [size, ...] for latents of a stream, of `shape` [...].
  at::Tensor start(int64_t first, int64_t size, at::IntArrayRef shape, const std::string& stream = models::kLatents) const;
  /// Draws what is added in a step.
  at::Tensor of_step(int64_t step, int64_t first, int64_t size, at::IntArrayRef shape, const std::string& stream = models::kLatents) const;

 private:
  at::Tensor seeded(int64_t draw, int64_t first, int64_t size, at::IntArrayRef shape, const std::string& stream) const;
  std::vector<int64_t> seeds_;
  std::map<std::string, at::Tensor> starts_;
  at::Tensor steps_;
};

}  // namespace burnish::drawing
