#include "checkpoint/state.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "io/checkpoint_files.h"

namespace burnish::checkpoint {

namespace {
constexpr const char* kParameter = "parameter.";
constexpr const char* kOptimizer = "optimizer.";
}  // namespace

void save_state(const std::filesystem::path& folder, const optim::Optimizer& optimizer, const Progress& progress) {
  io::NamedTensors tensors;
  for (const auto& p : optimizer.parameters()) tensors.emplace_back(kParameter + p.name, p.value.detach());
  for (const auto& [name, value] : optimizer.state()) tensors.emplace_back(kOptimizer + name, value);
  io::save_safetensors(
      folder / "state.safetensors", tensors,
      {{"step", std::to_string(progress.step)}, {"batch", std::to_string(progress.batch)}, {"fingerprint", progress.fingerprint}});
}

Progress load_state(const std::filesystem::path& folder, optim::Optimizer& optimizer, const std::string& fingerprint) {
  auto path = folder / "state.safetensors";
  if (!std::filesystem::exists(path)) data_error("checkpoint", "nothing to resume: {} is not there", path.string());
  auto source = io::TensorSource::open({path});
  auto metadata = source.metadata();
  if (metadata["fingerprint"] != fingerprint) {
    data_error("checkpoint",
               "{} belongs to a run with other settings: it was saved with [{}], this run has [{}]; resume with the same options",
               path.string(), metadata["fingerprint"], fingerprint);
  }
  at::NoGradGuard no_grad;
  for (const auto& p : optimizer.parameters()) {
    if (!source.contains(kParameter + p.name)) data_error("checkpoint", "{} lacks the parameter '{}'", path.string(), p.name);
    auto value = p.value;
    auto saved = source.tensor(kParameter + p.name);
    if (saved.sizes() != value.sizes()) data_error("checkpoint", "{}: the parameter '{}' has another shape", path.string(), p.name);
    value.copy_(saved);
  }
  optim::StateList state;
  for (const auto& [name, slot] : optimizer.state()) {
    if (source.contains(kOptimizer + name)) state.emplace_back(name, source.tensor(kOptimizer + name));
  }
  optimizer.load_state(state);
  return {std::stoll(metadata.at("step")), std::stoll(metadata.at("batch")), fingerprint};
}

}  // namespace burnish::checkpoint
