#include "drawing/noise.h"

#include <ATen/ops/stack.h>

#include "base/random_key.h"
#include "diffusion/flow_match.h"

namespace burnish::drawing {

Noise::Noise(const std::vector<Picture>& pictures) : Noise(pictures, {}, {}) {}

Noise::Noise(const std::vector<Picture>& pictures, std::map<std::string, at::Tensor> starts, at::Tensor steps)
    : starts_(std::move(starts)), steps_(std::move(steps)) {
  for (const auto& picture : pictures) seeds_.push_back(picture.seed.value());
}

at::Tensor Noise::start(int64_t first, int64_t size, at::IntArrayRef shape, const std::string& stream) const {
  const auto recorded = starts_.find(stream);
  return recorded != starts_.end() ? recorded->second.narrow(0, first, size) : seeded(0, first, size, shape, stream);
}

at::Tensor Noise::of_step(int64_t step, int64_t first, int64_t size, at::IntArrayRef shape, const std::string& stream) const {
  bool recorded = steps_.defined() && stream == models::kLatents;
  return recorded ? steps_[step].narrow(0, first, size) : seeded(step + 1, first, size, shape, stream);
}

at::Tensor Noise::seeded(int64_t draw, int64_t first, int64_t size, at::IntArrayRef shape, const std::string& stream) const {
  std::vector<at::Tensor> rows;
  for (int64_t i = first; i < first + size; ++i) {
    RandomKey key{static_cast<uint64_t>(seeds_.at(static_cast<size_t>(i))), static_cast<uint64_t>(draw), 0, Purpose::sample};
    rows.push_back(diffusion::normal_noise(models::stream_key(key.value(), stream), shape));
  }
  return at::stack(rows);
}

}  // namespace burnish::drawing
