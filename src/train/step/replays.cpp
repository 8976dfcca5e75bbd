#include "train/step/replays.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"

namespace burnish::train {

namespace {

constexpr size_t kMostRecordings = 64;  // each takes some memory of the device beside its numbers

/// Every tensor of a batch, in one order. Nothing where there are texts, which the host turns into numbers.
std::optional<std::vector<std::pair<std::string, at::Tensor*>>> tensors_of(Batch& batch) {
  std::vector<std::pair<std::string, at::Tensor*>> all;
  auto add = [&](pipeline::Values& values) {
    for (auto& [name, value] : values) {
      auto* tensor = std::get_if<at::Tensor>(&value);
      if (tensor == nullptr) return false;
      all.emplace_back(name, tensor);
    }
    return true;
  };
  for (auto& sample : batch.samples) {
    if (!add(sample)) return std::nullopt;
  }
  return add(batch.draws) ? std::optional(std::move(all)) : std::nullopt;
}

/// Returns what a recording is for: the shapes of a batch, and its numbers without dimensions, which the host reads.
std::string shapes_of(const std::vector<std::pair<std::string, at::Tensor*>>& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += fmt::format("{} {} [{}]", name, static_cast<int>(tensor->scalar_type()), fmt::join(tensor->sizes(), ","));
    if (tensor->dim() == 0 && tensor->is_cpu()) text += fmt::format(" {}", tensor->to(at::kDouble).item<double>());
    text += "\n";
  }
  return text;
}

}  // namespace

void Replays::record(Recorded& known, const Batch& batch, const Compute& compute) {
  known.batch = batch;
  auto places = tensors_of(known.batch);
  for (const auto& [name, tensor] : *places) *tensor = tensor->clone();
  try {
    known.recording = recorder_->record([of_batch = known.batch, compute] { return compute(of_batch); }, known.results);
  } catch (const c10::Error& error) {
    known = Recorded{.is_given_up = true};
    info("steps of one of this run's shapes are not recorded: {}", error.what_without_backtrace());
  }
}

Replays::Tensors Replays::run(const std::string& constants, Batch batch, const Compute& compute) {
  auto tensors = tensors_of(batch);
  if (!tensors) return compute(std::move(batch));
  auto key = constants + "\n" + shapes_of(*tensors);
  if (!known_.contains(key) && known_.size() == kMostRecordings) return compute(std::move(batch));
  auto& known = known_[key];
  if (!known.recording && !known.is_given_up && known.num_seen++ == num_unrecorded_) record(known, batch, compute);
  if (!known.recording) return compute(std::move(batch));
  {
    at::NoGradGuard no_grad;
    auto places = tensors_of(known.batch);
    for (size_t i = 0; i < places->size(); ++i) (*places)[i].second->copy_(*(*tensors)[i].second);
  }
  known.recording->replay();
  return known.results;
}

}  // namespace burnish::train
