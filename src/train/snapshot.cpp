#include "train/snapshot.h"

#include <algorithm>
#include <optional>

namespace burnish::train {

namespace {

/// Copies beside training take memory.
constexpr int64_t kBytesBeside = int64_t{2} << 30;

int64_t bytes_of(const io::NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, value] : tensors) bytes += static_cast<int64_t>(value.nbytes());
  return bytes;
}

/// What this process writes of the weights.
std::vector<Trained::File> files_of(const Subject& subject, const Trainee& trainee, const Settings& settings) {
  const auto& optimizer = *trainee.optimizer;
  auto step = trainee.progress.step;
  auto dtype = settings.output.dtype;
  if (!trainee.ownership) return subject.trained.files(step, dtype, optimizer);
  auto exact = trainee.ownership->exact_values(optimizer.parameters(), settings.step.optimizer.rounding, dtype);
  return trainee.ownership->is_first() ? subject.trained.files(step, dtype, optimizer, exact) : std::vector<Trained::File>();
}

}  // namespace

Snapshot take_snapshot(const Subject& subject, const Trainee& trainee, const Settings& settings, bool by_step, bool is_best) {
  std::optional<optim::Averaged> averaged(std::in_place, *trainee.optimizer, trainee.ema.get(), trainee.sharing());
  Snapshot snapshot{.step = trainee.progress.step, .files = {}, .state = {}, .by_step = by_step, .is_best = is_best};
  snapshot.files = files_of(subject, trainee, settings);
  if (trainee.ema || trainee.optimizer->averages()) {
    for (auto& file : snapshot.files) make_own(file.tensors);  // the averages leave their place again
  }
  averaged.reset();  // the state has both
  bool has_part = !trainee.ownership || trainee.ownership->writes_part();
  if (by_step && has_part) snapshot.state = checkpoint::state_of({*trainee.optimizer, trainee.ema.get()}, trainee.progress);
  return snapshot;
}

int64_t weight_bytes(const Snapshot& snapshot) {
  int64_t bytes = 0;
  for (const auto& file : snapshot.files) bytes += bytes_of(file.tensors);
  return bytes;
}

int64_t state_bytes(const Snapshot& snapshot) { return bytes_of(snapshot.state.tensors); }

bool is_written_beside(const Snapshot& snapshot) { return weight_bytes(snapshot) + state_bytes(snapshot) <= kBytesBeside; }

void make_own(io::NamedTensors& tensors) {
  for (auto& [name, value] : tensors) {
    if (!value.is_meta()) value = value.detach().to(value.options().device(at::kCPU), false, /*copy=*/true);
  }
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
