#include "train/draws.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/random_key.h"
#include "diffusion/flow_match.h"

namespace burnish::train {

static uint64_t key_of(const data::Visit& visit, uint64_t seed, Purpose purpose) {
  auto sample = static_cast<uint64_t>(visit.row) << 20 | static_cast<uint64_t>(visit.occurrence);
  return RandomKey{seed, static_cast<uint64_t>(visit.epoch), sample, purpose}.value();
}

Draw draw(const data::Batch& batch, at::IntArrayRef latent_shape, int64_t num_tokens, const diffusion::Process& process,
          const DrawOptions& options) {
  std::vector<at::Tensor> noise;
  std::vector<double> time;
  for (const auto& visit : batch) {
    time.push_back(process.draw_time(options.timesteps, key_of(visit, options.seed, Purpose::timestep), num_tokens));
    if (!options.with_noise) continue;
    noise.push_back(diffusion::normal_noise(key_of(visit, options.seed, Purpose::noise), latent_shape));
    if (options.noise_offset != 0) {
      auto offset = diffusion::normal_noise(key_of(visit, options.seed, Purpose::noise_offset), {latent_shape[0], 1, 1});
      noise.back() = noise.back() + options.noise_offset * offset;
    }
  }
  return {options.with_noise ? at::stack(noise) : at::Tensor(), at::tensor(time, at::TensorOptions().dtype(at::kFloat)), {}};
}

Pick pick(const data::Visit& visit, int64_t num_variants, double caption_dropout, uint64_t seed) {
  CounterRandom variant(key_of(visit, seed, Purpose::variant)), caption(key_of(visit, seed, Purpose::caption));
  return {visit.row, static_cast<int64_t>(variant.below(static_cast<uint64_t>(num_variants))), caption.uniform() < caption_dropout};
}

at::Tensor latent_noise(const data::Batch& batch, at::IntArrayRef latent_shape, uint64_t seed) {
  std::vector<at::Tensor> noise;
  for (const auto& visit : batch) noise.push_back(diffusion::normal_noise(key_of(visit, seed, Purpose::latents), latent_shape));
  return at::stack(noise);
}

Replay::Replay(const std::string& path, const diffusion::Process& process) : process_(process), file_(io::SafetensorsFile::open(path)) {
  first_ = file_->tensors().contains("step.0.noise") ? 0 : 1;
  if (!file_->tensors().contains(fmt::format("step.{}.noise", first_))) {
    data_error("train", "{} is not a replay file: it holds neither step.0.noise nor step.1.noise", path);
  }
}

std::string Replay::name_of(int64_t index, const char* what) const {
  auto name = fmt::format("step.{}.{}", index + first_, what);
  if (!file_->tensors().contains(name)) {
    data_error("train", "the replay file {} ends early: it holds no '{}'; ask for at most {} steps with --max_steps, or record more",
               file_->path().string(), name, index);
  }
  return name;
}

at::Tensor Replay::read(int64_t index, const char* what) const { return file_->tensor(name_of(index, what)); }

double Replay::time(int64_t index) const {
  auto name = process_.time_name();
  auto time = read(index, name.c_str());
  if (time.numel() != 1) data_error("train", "replay {}: '{}' must be one number", file_->path().string(), name_of(index, name.c_str()));
  return time.to(at::kDouble).item<double>();
}

int64_t Replay::row(int64_t index) const {
  auto row = read(index, "sample");
  if (row.numel() != 1) data_error("train", "replay {}: '{}' must be one row number", file_->path().string(), name_of(index, "sample"));
  return row.to(at::kLong).item<int64_t>();
}

void Replay::check(int64_t count, const std::function<std::vector<int64_t>(int64_t row)>& latent_shape_of) const {
  for (int64_t i = 0; i < count; ++i) {
    auto found = file_->tensors().at(name_of(i, "noise")).shape;
    if (found.size() == 4 && found[0] == 1) found.erase(found.begin());
    auto expected = latent_shape_of(row(i));
    if (expected.empty()) {
      data_error("train", "replay {}: '{}' is row {}, which is not among the usable samples", file_->path().string(), name_of(i, "sample"),
                 row(i));
    }
    if (found != expected) {
      data_error("train", "replay {}: '{}' has the shape {}, the latents of row {} have {}; record at the size that is trained",
                 file_->path().string(), name_of(i, "noise"), found, row(i), expected);
    }
    auto value = time(i);
    if (auto reason = process_.why_no_time(value); !reason.empty()) {
      data_error("train", "replay {}: '{}' is {}; {}", file_->path().string(), name_of(i, process_.time_name().c_str()), value, reason);
    }
  }
}

Replay::Step Replay::step(int64_t index, at::IntArrayRef latent_shape) const {
  auto noise = read(index, "noise").to(at::kFloat).reshape(latent_shape);
  return {row(index), {noise.unsqueeze(0), at::tensor({static_cast<float>(time(index))}), {}}};
}

at::Tensor Replay::latent_noise(int64_t index, at::IntArrayRef latent_shape) const {
  auto name = fmt::format("step.{}.latent_noise", index + first_);
  if (!file_->tensors().contains(name))
    data_error("train", "the replay file {} holds no '{}', which --latents sample draws with", file_->path().string(), name);
  auto noise = file_->tensor(name).to(at::kFloat);
  int64_t count = 1;
  for (auto size : latent_shape) count *= size;
  if (noise.numel() != count)
    data_error("train", "replay {}: '{}' has the shape {}, the latents have {}", file_->path().string(), name, noise.sizes(), latent_shape);
  return noise.reshape(latent_shape).unsqueeze(0);
}

}  // namespace burnish::train
