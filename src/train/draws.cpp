#include "train/draws.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/random_key.h"
#include "diffusion/flow_match.h"

namespace burnish::train {

Draw draw(const data::Batch& batch, at::IntArrayRef latent_shape, int64_t num_tokens, const diffusion::TimestepOptions& timesteps,
          uint64_t seed) {
  std::vector<at::Tensor> noise;
  std::vector<double> sigma;
  for (const auto& visit : batch) {
    RandomKey key{seed, static_cast<uint64_t>(visit.epoch),
                  static_cast<uint64_t>(visit.row) << 20 | static_cast<uint64_t>(visit.occurrence), Purpose::noise};
    noise.push_back(diffusion::normal_noise(key.value(), latent_shape));
    key.purpose = Purpose::timestep;
    sigma.push_back(diffusion::sample_sigma(timesteps, key.value(), num_tokens));
  }
  return {at::stack(noise), at::tensor(sigma, at::TensorOptions().dtype(at::kFloat))};
}

Replay::Replay(const std::string& path) : file_(io::SafetensorsFile::open(path)) {
  first_ = file_->tensors().contains("step.0.noise") ? 0 : 1;
  if (!file_->tensors().contains(fmt::format("step.{}.noise", first_))) {
    data_error("train", "{} is not a replay file: it holds neither step.0.noise nor step.1.noise", path);
  }
}

at::Tensor Replay::read(int64_t index, const char* what) const {
  auto name = fmt::format("step.{}.{}", index + first_, what);
  if (!file_->tensors().contains(name))
    data_error("train", "the replay file {} ends early: it holds no '{}'", file_->path().string(), name);
  return file_->tensor(name);
}

int64_t Replay::row(int64_t index) const { return read(index, "sample").to(at::kLong).reshape({-1})[0].item<int64_t>(); }

Replay::Step Replay::step(int64_t index, at::IntArrayRef latent_shape) const {
  auto noise = read(index, "noise").to(at::kFloat);
  if (noise.dim() == 4) noise = noise.squeeze(0);
  if (noise.sizes() != latent_shape) {
    data_error("train", "replay step {} has noise of shape {}, the sample's latents have {}", index + first_, noise.sizes().vec(),
               latent_shape.vec());
  }
  auto sigma = read(index, "sigma").to(at::kFloat).reshape({-1});
  return {row(index), {noise.unsqueeze(0), sigma.narrow(0, 0, 1)}};
}

}  // namespace burnish::train
