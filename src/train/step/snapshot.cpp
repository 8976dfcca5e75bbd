#include "train/step/snapshot.h"

#include <algorithm>

namespace burnish::train {

namespace {

/// Copies beside training take memory.
constexpr int64_t kBytesBeside = int64_t{2} << 30;

at::Tensor copy_of(const at::Tensor& tensor) { return tensor.detach().to(tensor.options().device(at::kCPU), false, /*copy=*/true); }

bool has_state(const Trainee& trainee) { return !trainee.ownership || trainee.ownership->writes_part(); }

checkpoint::State state_of(const Trainee& trainee) { return checkpoint::state_of(trainee.saved(), trainee.progress); }

/// Of what this process writes, or helps the first to.
std::vector<TrainedFile> files_of(const Trainee& trainee, const Saved& saved) {
  auto step = trainee.progress.step;
  if (!trainee.ownership) return trainee.attached->files(step, saved.dtype, *trainee.optimizer);
  if (!trainee.ownership->writes_part()) return {};
  return trainee.attached->files(step, saved.dtype, *trainee.optimizer, [&trainee, saved](size_t number, auto dtype) {
    return trainee.ownership->exact_value(trainee.optimizer->parameters(), number, saved.rounding, dtype);
  });
}

}  // namespace

Snapshot take_snapshot(const Trainee& trainee, const Saved& saved) {
  Snapshot snapshot{.step = trainee.progress.step, .files = {}, .by_step = saved.by_step, .is_best = saved.is_best};
  if (saved.by_step && has_state(trainee)) {
    for (const auto& [name, value] : state_of(trainee).tensors) snapshot.num_state_bytes += static_cast<int64_t>(value.nbytes());
  }
  snapshot.averaged = std::make_shared<optim::Averaged>(*trainee.optimizer, trainee.ema.get(), trainee.sharing());
  snapshot.files = files_of(trainee, saved);
  snapshot.writes_files = !trainee.ownership || trainee.ownership->is_first();
  return snapshot;
}

void copy_files(Snapshot& snapshot) {
  for (auto& file : snapshot.files) {
    for (auto& [spec, get] : file.values) {
      auto value = get();
      if (snapshot.writes_files) get = [copy = copy_of(value)] { return copy; };
    }
  }
  if (!snapshot.writes_files) snapshot.files.clear();
}

void take_state(Snapshot& snapshot, const Trainee& trainee) {
  snapshot.averaged.reset();  // the state has both
  if (snapshot.by_step && has_state(trainee)) snapshot.state = state_of(trainee);
}

int64_t weight_bytes(const Snapshot& snapshot) {
  int64_t bytes = 0;
  for (const auto& file : snapshot.files) {
    for (const auto& value : file.values) bytes += static_cast<int64_t>(value.spec.num_bytes());
  }
  return bytes;
}

bool is_written_beside(const Snapshot& snapshot) { return weight_bytes(snapshot) + snapshot.num_state_bytes <= kBytesBeside; }

void make_own(io::NamedTensors& tensors) {
  for (auto& [name, value] : tensors) value = copy_of(value);
}

SaveSettings settled(SaveSettings save, int64_t num_steps, bool trains_whole) {
  if (save.steps >= 0) return save;
  constexpr int64_t kTimes = 10, kLeastApart = 250;
  save.steps = save.epochs > 0 || save.minutes > 0 ? 0 : std::max(kLeastApart, num_steps / kTimes);
  if (save.steps > 0 && save.keep_last == 0 && trains_whole) save.keep_last = 1;
  return save;
}

int64_t most_saves(const SaveSettings& save, const Course& course) {
  int64_t count = 1;  // after the last step
  if (save.steps > 0) count += (course.num_steps() - 1) / save.steps;
  if (save.epochs > 0) count += course.num_batches() / (save.epochs * course.batches_per_epoch());
  return save.keep_last > 0 ? std::min(count, save.keep_last) : count;
}

}  // namespace burnish::train
