#include "train/course/replay.h"

#include <ATen/ops/tensor.h>
#include <c10/util/accumulate.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/count.h"
#include "base/input_error.h"

namespace burnish::train {

Replay::Replay(const std::string& path, const diffusion::Process& process) : process_(process), file_(io::SafetensorsFile::open(path)) {
  first_ = file_->tensors().contains("step.0.noise") ? 0 : 1;
  if (!file_->tensors().contains(fmt::format("step.{}.noise", first_))) {
    data_error("train", "{} is not a replay file: it holds neither step.0.noise nor step.1.noise", path);
  }
}

std::string Replay::name_of(int64_t index, const char* what) const {
  auto name = fmt::format("step.{}.{}", index + first_, what);
  if (!file_->tensors().contains(name)) {
    data_error("train", "the replay file {} ends early: it holds no '{}'; ask for at most {} with --max_steps, or record more",
               file_->path().string(), name, count_of(index, "step"));
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
  auto number = row.numel() == 1 ? row.to(at::kDouble).item<double>() : -1;
  if (number != std::floor(number) || number < 0 || number > 1e15)
    data_error("train", "replay {}: '{}' must be one row number", file_->path().string(), name_of(index, "sample"));
  return static_cast<int64_t>(number);
}

void Replay::check(int64_t count, const std::function<std::vector<int64_t>(int64_t row)>& latent_shape_of) const {
  for (int64_t i = 0; i < count; ++i) {
    auto found = file_->tensors().at(name_of(i, "noise")).shape;
    auto expected = latent_shape_of(row(i));
    if (found.size() == expected.size() + 1 && found[0] == 1) found.erase(found.begin());
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

at::Tensor Replay::noise(int64_t index, const std::string& name, at::IntArrayRef shape) const {
  auto noise = read(index, name.c_str()).to(at::kFloat);
  if (noise.numel() != c10::multiply_integers(shape))
    data_error("train", "replay {}: '{}' has the shape {}, the latents have {}", file_->path().string(), name_of(index, name.c_str()),
               noise.sizes(), shape);
  return noise.reshape(shape).unsqueeze(0);
}

pipeline::Values Replay::others(int64_t index, const std::set<std::string>& names) const {
  pipeline::Values others;
  for (const auto& name : names) {
    if (!file_->tensors().contains(fmt::format("step.{}.{}", index + first_, name))) continue;
    auto value = read(index, name.c_str());
    if (at::isFloatingType(value.scalar_type())) value = value.to(at::kFloat);
    others[name] = value.numel() == 1 ? value.reshape({1}) : value.unsqueeze(0);
  }
  return others;
}

pipeline::Values Replay::draws(int64_t index, at::IntArrayRef latent_shape, const std::set<std::string>& names) const {
  pipeline::Values draws{{"noise", noise(index, "noise", latent_shape)},
                         {process_.time_name(), at::tensor({static_cast<float>(time(index))})}};
  if (names.contains("latent_noise")) draws["latent_noise"] = latent_noise(index, latent_shape);
  return draws;
}

at::Tensor Replay::latent_noise(int64_t index, at::IntArrayRef latent_shape) const {
  auto name = fmt::format("step.{}.latent_noise", index + first_);
  if (!file_->tensors().contains(name))
    data_error("train", "the replay file {} holds no '{}', which --latents sample draws with", file_->path().string(), name);
  return noise(index, "latent_noise", latent_shape);
}

}  // namespace burnish::train
