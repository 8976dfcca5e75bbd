#include "train/loop.h"

#include <ATen/ops/isfinite.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "memory/failure.h"
#include "memory/heap.h"
#include "memory/host.h"

namespace burnish::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// What to do about a step that came out not finite.
std::string why_not_finite(const Trainee& trainee) {
  for (const auto& component : pipeline::components_of(trainee.live.units)) {
    for (const auto& [name, weight] : trainee.model.components().module(component).parameters()) {
      bool changed = weight->requires_grad() && trainee.progress.step > 0;
      bool waits = weight->storage().data() == nullptr;  // in host memory, where nothing changes it
      if (changed || waits || at::isfinite(*weight).all().item<bool>()) continue;
      return fmt::format("the model's weight '{}' ({}) is not finite, so its file is damaged: get it again", name, component);
    }
  }
  return "try a lower learning_rate, max_grad_norm 1, or fp32";
}

constexpr size_t kTimeBins = 10;

/// Puts the losses of a step into bins by the times that were drawn for them.
std::vector<LossBin> by_time(const std::vector<at::Tensor>& losses_B, const std::vector<Objective::Counted>& counted) {
  if (counted.empty()) return {};
  std::vector<LossBin> bins(kTimeBins);
  size_t next = 0;
  for (const auto& batch : losses_B) {
    auto loss_B = batch.to(at::kDouble).cpu();
    for (int64_t i = 0; i < loss_B.numel(); ++i) {
      const auto& [share, weight] = counted.at(next++);
      auto& bin = bins[std::min(kTimeBins - 1, static_cast<size_t>(share * kTimeBins))];
      auto loss = loss_B[i].item<double>();
      bin.raw += loss;
      bin.weighted += weight * loss;
      ++bin.count;
    }
  }
  return bins;
}

/// What comes of the next step's batches: their gradients, or the whole step where parameters are updated inside backward. Adds the host's
/// time for its data to the report, and says how its samples count.
Gradients next_gradients(const Training& training, StepReport& report, std::vector<Objective::Counted>& counted) {
  counted.clear();
  auto& trainee = training.trainee;
  BatchId id{.number = trainee.progress.batch};
  auto next = [&] {
    auto start = Clock::now();
    auto batch = training.batch(id);
    id = training.course.next(id);
    if (id.number < training.course.num_batches()) training.feed.prefetch(trainee.live, id);
    report.data_seconds += seconds_since(start);
    if (batch.part.share == 0) return batch;
    auto of_batch = training.objective.counted(batch.draws);
    counted.insert(counted.end(), of_batch.begin(), of_batch.end());
    return batch;
  };
  const auto& settings = training.settings.step;
  if (settings.memory.updates_in_backward) return update_in_backward(trainee, training.objective, next(), settings, report.learning_rate);
  return compute_gradients(trainee, training.objective, training.course.batches_per_step(), next);
}

/// What a step came to on this process, as numbers that add up to what it came to on all of them. The norm is of all of them already, and
/// taken from the first, so that every process clips alike whatever its processor. Says where the loss or gradients were not finite, if
/// they were not.
std::string sum_over_processes(const dist::World& world, const dist::Reduction* gradients, StepReport& report, bool& stops) {
  if (world.size() == 1) return "";
  bool is_finite = std::isfinite(report.loss) && (gradients == nullptr || gradients->was_finite());
  std::vector<double> numbers{
      report.loss,         world.is_first() ? report.grad_norm : 0,           static_cast<double>(report.num_samples), stops ? 1. : 0.,
      is_finite ? 0. : 1., is_finite ? 0. : static_cast<double>(world.rank())};
  for (const auto& [name, mean] : report.logged) numbers.push_back(mean);
  for (size_t bin = 0; bin < kTimeBins; ++bin) {
    auto mine = bin < report.by_time.size() ? report.by_time[bin] : LossBin{};
    numbers.insert(numbers.end(), {mine.raw, mine.weighted, static_cast<double>(mine.count)});
  }
  auto sums = dist::sum_of(world.group(), numbers);
  report.loss = sums[0];
  report.grad_norm = sums[1];
  report.num_samples = static_cast<int64_t>(sums[2]);
  stops = sums[3] > 0;
  size_t at = 6;
  for (auto& [name, mean] : report.logged) mean = sums[at++];
  std::vector<LossBin> bins;
  for (; at < sums.size(); at += 3) bins.push_back({sums[at], sums[at + 1], static_cast<int64_t>(sums[at + 2])});
  bool has_any = std::ranges::any_of(bins, [](const LossBin& bin) { return bin.count > 0; });
  report.by_time = has_any ? bins : std::vector<LossBin>();
  if (sums[4] == 0) return "";
  return sums[4] == 1 ? fmt::format(" on process {}", sums[5]) : fmt::format(" on {} of {} processes", sums[4], world.size());
}

/// One step. Gradients that overflowed fp16 are computed again at a smaller scale. `stops`: whether a process was interrupted before.
StepReport step(const Training& training, bool& stops) {
  auto start = Clock::now();
  auto& trainee = training.trainee;
  const auto& settings = training.settings.step;
  auto schedule = settings.schedule;
  schedule.max_steps = training.course.num_steps();
  StepReport report;
  report.learning_rate = settings.learning_rate * optim::lr_factor(schedule, trainee.progress.step);
  report.step = trainee.progress.step + 1;
  Gradients gradients;
  std::vector<Objective::Counted> counted;
  std::string where;
  do {
    gradients = next_gradients(training, report, counted);
    report.loss = gradients.loss.item<double>();
    report.grad_norm = gradients.norm.item<double>();
    report.num_samples = gradients.num_samples;
    report.by_time = by_time(gradients.losses_B, counted);
    for (const auto& [name, mean] : gradients.logged) report.logged[name] = mean.item<double>();
    stops = interrupted();
    where = sum_over_processes(training.world, trainee.reduction.get(), report, stops);
  } while (std::isfinite(report.loss) && !std::isfinite(report.grad_norm) && trainee.progress.loss_scale.retreat());
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) {
    data_error("train", "step {}: loss {} and gradient norm {} are not finite{}; {}; {}", report.step, report.loss, report.grad_norm, where,
               why_not_finite(trainee), trainee.saved_step < 0 ? "nothing was saved yet" : "the last saved state is intact");
  }
  if (training.world.size() > 1) gradients.norm.fill_(report.grad_norm);
  if (!settings.memory.updates_in_backward) update(trainee, gradients, settings, report.learning_rate, training.course.batches_per_step());
  if (training.world.size() == 1) stops = interrupted();
  report.seconds = seconds_since(start);
  return report;
}

/// Saves what there is, in the memory that the given-up step had, and says how far it is.
NoMemory give_up(const Training& training, const std::vector<std::unique_ptr<Hook>>& hooks) {
  auto& trainee = training.trainee;
  NoMemory missing{.step = trainee.progress.step + (trainee.place == kAfterStep ? 0 : 1), .place = std::string(trainee.place)};
  missing.host_bytes = memory::own_memory().most_resident;
  trainee.optimizer->zero_grad();
  memory::trim_heap();
  bool updates = trainee.place == kOptimizerStep || (training.settings.step.memory.updates_in_backward && trainee.place == kBackward);
  bool is_whole = !updates && trainee.progress.step > 0 && !trainee.ownership;  // which takes all processes
  try {
    for (const auto& hook : hooks) {
      if (is_whole) hook->interrupted();
    }
  } catch (const std::exception& error) {
    warn("the last steps could not be saved: {}", error.what());
  }
  missing.saved_step = trainee.saved_step;
  return missing;
}

}  // namespace

std::optional<NoMemory> loop(const Training& training, const std::vector<std::unique_ptr<Hook>>& hooks) {
  const auto& progress = training.trainee.progress;
  for (const auto& hook : hooks) hook->before();
  while (progress.step < training.course.num_steps()) {
    bool stops = false;
    try {
      auto report = step(training, stops);
      for (const auto& hook : hooks) hook->stepped(report);
    } catch (const std::exception& error) {
      if (!memory::is_out_of_memory(error)) throw;
      return give_up(training, hooks);
    }
    if (!stops) continue;
    for (const auto& hook : hooks) hook->interrupted();
    training.world.leave();
    throw Error(Exit::interrupted, "train", fmt::format("interrupted at step {}; everything is saved, go on with --resume", progress.step));
  }
  for (const auto& hook : hooks) hook->ended();
  return std::nullopt;
}

}  // namespace burnish::train
