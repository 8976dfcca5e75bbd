#include "train/samples/draws.h"

#include <ATen/ops/stack.h>

#include "diffusion/flow_match.h"

namespace burnish::train {

uint64_t key_of(const data::Visit& visit, uint64_t seed, Purpose purpose) {
  // A row's occurrences beyond 2^20 count as epochs that no run reaches, so that they are no other row's.
  auto occurrence = static_cast<uint64_t>(visit.occurrence);
  auto sample = static_cast<uint64_t>(visit.row) << 20 | (occurrence & 0xFFFFF);
  auto epoch = static_cast<uint64_t>(visit.epoch) | occurrence >> 20 << 32;
  return RandomKey{seed, epoch, sample, purpose}.value();
}

at::Tensor normal_noise(const data::Visits& visits, at::IntArrayRef shape, uint64_t seed, Purpose purpose, const std::string& stream) {
  std::vector<at::Tensor> noise;
  for (const auto& visit : visits)
    noise.push_back(diffusion::normal_noise(models::stream_key(key_of(visit, seed, purpose), stream), shape));
  return at::stack(noise);
}

}  // namespace burnish::train
