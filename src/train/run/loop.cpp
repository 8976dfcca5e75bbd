#include "train/run/loop.h"

#include <ATen/ops/isfinite.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "memory/failure.h"
#include "memory/heap.h"
#include "memory/host.h"
#include "train/run/telling.h"

namespace burnish::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Returns what to do about a step that came out not finite.
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

/// Puts the losses of a step's samples into bins by the times that were drawn for them.
std::vector<LossBin> by_time(std::span<const double> losses, const std::vector<Objective::Counted>& counted) {
  if (counted.empty()) return {};
  std::vector<LossBin> bins(kTimeBins);
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto& [share, weight] = counted.at(i);
    auto& bin = bins[std::min(kTimeBins - 1, static_cast<size_t>(share * kTimeBins))];
    bin.raw += losses[i];
    bin.weighted += weight * losses[i];
    ++bin.count;
  }
  return bins;
}

/// Says how the samples of a step count, one after the other.
struct Counting {
  std::vector<Objective::Counted> by_time;  ///< none where samples have no time of their own
  std::vector<double> shares;               ///< shares of the step's loss that they would have without weights
  std::vector<int64_t> rows;
  std::vector<int64_t> numbers;  ///< their numbers among all visits of the step
  int64_t num_visits = 0;        ///< the visits of the step, of all processes
};

/// Returns the visits of a step, of all processes.
int64_t visits_a_step(const Course& course) { return course.num_visits() / course.num_steps(); }

/// Puts the losses of a step's samples where they stand among all visits of the step, of which other processes have some.
std::vector<VisitLoss> visits_of(std::span<const double> losses, const Counting& counting) {
  if (counting.by_time.empty()) return {};
  std::vector<VisitLoss> visits(static_cast<size_t>(counting.num_visits));
  for (size_t i = 0; i < losses.size(); ++i)
    visits.at(static_cast<size_t>(counting.numbers.at(i))) = {counting.rows.at(i), counting.by_time.at(i).share, losses[i]};
  return visits;
}

/// The mean of samples' losses before they are weighted, as far as this process has them.
double unweighted(std::span<const double> losses, const std::vector<double>& shares) {
  return std::inner_product(losses.begin(), losses.end(), shares.begin(), 0.0);
}

/// What came of a step's batches, on its way to the host.
struct OnTheWay {
  Counting counting;
  std::vector<std::string> logged;
  memory::Numbers numbers;  ///< loss, gradient norm, what the objective has logged, the losses of samples

  OnTheWay() = default;
  OnTheWay(const Gradients& gradients, Counting of_samples) : counting(std::move(of_samples)) {
    std::vector<at::Tensor> all{gradients.loss, gradients.norm};
    for (const auto& [name, mean] : gradients.logged) {
      logged.push_back(name);
      all.push_back(mean);
    }
    all.insert(all.end(), gradients.losses_B.begin(), gradients.losses_B.end());
    numbers = memory::Numbers(all);
  }

  /// Waits for it.
  void read(StepReport& report) const {
    auto all = numbers.read();
    report.loss = all[0];
    report.grad_norm = all[1];
    for (size_t i = 0; i < logged.size(); ++i) report.logged[logged[i]] = all[2 + i];
    auto losses = std::span<const double>(all).subspan(2 + logged.size());
    report.raw_loss = unweighted(losses, counting.shares);
    report.by_time = by_time(losses, counting.by_time);
    report.visits = visits_of(losses, counting);
  }
};

/// The settings of the next step.
StepSettings step_settings(const Training& training) {
  auto settings = training.settings.step;
  const auto phase = training.objective.phase_of(training.trainee.progress.step);
  settings.max_grad_norm = training.objective.max_grad_norm(phase, settings.max_grad_norm);
  return settings;
}

/// Returns what comes of the next step's batches: their gradients, or the whole step where parameters are updated inside backward. Adds the
/// host's time for its data to the report, and says how its samples count.
Gradients next_gradients(const Training& training, StepReport& report, Counting& counting) {
  counting = {};
  auto& trainee = training.trainee;
  const auto num_batches = training.course.batches_per_step();
  const auto num_places = training.settings.step.division.num_places;  // of which the first counts for all
  counting.num_visits = visits_a_step(training.course);
  BatchId id{.number = trainee.progress.batch};
  auto next = [&] {
    auto start = Clock::now();
    auto batch = training.batch(id);
    const auto first = (id.number - trainee.progress.batch) * counting.num_visits / num_batches + batch.part.first;
    id = train::next(id, batch.part);
    if (id.number < training.course.num_batches()) training.batches.feed.prefetch(trainee.live, id);
    report.data_seconds += seconds_since(start);
    if (!batch.part.counts) return batch;
    auto of_batch = training.objective.counted(batch.draws);
    counting.by_time.insert(counting.by_time.end(), of_batch.begin(), of_batch.end());
    auto share = batch.part.share * static_cast<double>(num_places) / static_cast<double>(num_batches * std::ssize(batch.samples));
    counting.shares.insert(counting.shares.end(), batch.samples.size(), share);
    for (int64_t i = 0; i < std::ssize(batch.rows); ++i) {
      counting.rows.push_back(batch.rows[static_cast<size_t>(i)]);
      counting.numbers.push_back(first + i);
    }
    return batch;
  };
  const auto settings = step_settings(training);
  if (settings.memory.updates_in_backward) return update_in_backward(trainee, training.objective, next(), settings, report.learning_rate);
  return compute_gradients(trainee, training.objective, num_batches, next);
}

/// Whether this process was interrupted, and, for all, what the first finds asked of the run.
void look_around(const Training& training, StepReport& report, bool& stops) {
  stops = interrupted();
  if (training.world.is_first()) report.asked = records::read_asked(training.settings.output.folder);
}

/// What a step came to on this process, as numbers that add up to what it came to on all of them. The norm is of all of them already, and
/// taken from the first, so that every process clips alike whatever its processor. Says where the loss or gradients were not finite, if
/// they were not.
std::string sum_over_processes(const dist::World& world, const dist::Reduction* gradients, int64_t num_visits, StepReport& report,
                               bool& stops) {
  if (world.size() == 1) return "";
  bool is_finite = std::isfinite(report.loss) && (gradients == nullptr || gradients->was_finite());
  std::vector<double> numbers{report.loss,
                              world.is_first() ? report.grad_norm : 0,
                              static_cast<double>(report.num_samples),
                              stops ? 1. : 0.,
                              is_finite ? 0. : 1.,
                              is_finite ? 0. : static_cast<double>(world.rank()),
                              report.raw_loss.value_or(0)};
  for (const auto& [word, flag] : records::kAskedWords) numbers.push_back(report.asked.*flag ? 1. : 0.);
  for (const auto& [name, mean] : report.logged) numbers.push_back(mean);
  for (size_t bin = 0; bin < kTimeBins; ++bin) {
    auto mine = bin < report.by_time.size() ? report.by_time[bin] : LossBin{};
    numbers.insert(numbers.end(), {mine.raw, mine.weighted, static_cast<double>(mine.count)});
  }
  report.visits.resize(static_cast<size_t>(num_visits));
  for (const auto& visit : report.visits) numbers.insert(numbers.end(), {static_cast<double>(visit.row - kNoRow), visit.time, visit.loss});
  auto sums = dist::sum_of(world.group(), numbers);
  report.loss = sums[0];
  report.grad_norm = sums[1];
  report.num_samples = static_cast<int64_t>(sums[2]);
  stops = sums[3] > 0;
  report.raw_loss = sums[6];
  size_t at = 7;
  for (const auto& [word, flag] : records::kAskedWords) report.asked.*flag = sums[at++] > 0;
  for (auto& [name, mean] : report.logged) mean = sums[at++];
  std::vector<LossBin> bins;
  for (size_t bin = 0; bin < kTimeBins; ++bin, at += 3) bins.push_back({sums[at], sums[at + 1], static_cast<int64_t>(sums[at + 2])});
  for (auto& visit : report.visits) {
    visit = {static_cast<int64_t>(sums[at]) + kNoRow, sums[at + 1], sums[at + 2]};
    at += 3;
  }
  bool has_any = std::ranges::any_of(bins, [](const LossBin& bin) { return bin.count > 0; });
  report.by_time = has_any ? bins : std::vector<LossBin>();
  if (sums[4] == 0) return "";
  return sums[4] == 1 ? fmt::format(" on process {}", sums[5]) : fmt::format(" on {} of {} processes", sums[4], world.size());
}

void require_finite(const StepReport& report, const std::string& where, const Trainee& trainee) {
  if (std::isfinite(report.loss) && std::isfinite(report.grad_norm)) return;
  data_error("train", "step {}: loss {} and gradient norm {} are not finite{}; {}; {}", report.step, report.loss, report.grad_norm, where,
             why_not_finite(trainee), trainee.saved_step < 0 ? "nothing was saved yet" : "the last saved state is intact");
}

/// One step. Gradients that overflowed fp16 are computed again at a smaller scale. `stops`: whether a process was interrupted before.
/// Waits for the device only where numbers decide how the step goes on: fp16's scale, and what several processes agree about.
Taken step(const Training& training, bool& stops) {
  Taken taken{};
  taken.start = Clock::now();
  auto& report = taken.report;
  auto& trainee = training.trainee;
  if (training.batches.rollouts != nullptr) training.batches.rollouts->prepare(trainee, training.course, training.batches.feed);
  const auto settings = step_settings(training);
  const auto schedule = schedule_of(training.settings.step, training.course.num_steps());
  report.learning_rate = settings.learning_rate * optim::lr_factor(schedule, trainee.progress.step);
  report.step = trainee.progress.step + 1;
  const bool decides = training.world.size() > 1 || trainee.progress.loss_scale.in_use();
  Gradients gradients;
  OnTheWay on_the_way;
  std::string where;
  bool is_read = false;
  do {
    Counting counting;
    gradients = next_gradients(training, report, counting);
    report.num_samples = gradients.num_samples;
    on_the_way = OnTheWay(gradients, std::move(counting));
    is_read = decides || on_the_way.numbers.are_there();
    if (!is_read) break;
    on_the_way.read(report);
    look_around(training, report, stops);
    where = sum_over_processes(training.world, trainee.reduction.get(), visits_a_step(training.course), report, stops);
  } while (std::isfinite(report.loss) && !std::isfinite(report.grad_norm) && trainee.progress.loss_scale.retreat());
  if (is_read) require_finite(report, where, trainee);
  if (training.world.size() > 1) gradients.norm.fill_(report.grad_norm);
  if (!settings.memory.updates_in_backward) update(trainee, gradients, settings, report.learning_rate, training.course.batches_per_step());
  if (training.world.size() == 1) look_around(training, report, stops);

  auto rate = trainee.optimizer->learned_rate();
  auto learned = rate.defined() ? memory::Numbers({rate}) : memory::Numbers();
  taken.last = rate.defined() ? learned : on_the_way.numbers;
  taken.read = [on_the_way = std::move(on_the_way), learned, has_rate = rate.defined(), is_read, &trainee](StepReport& r) {
    if (!is_read) on_the_way.read(r);
    if (!is_read) require_finite(r, "", trainee);
    if (has_rate) r.learned_rate = r.learning_rate * learned.read().front();
  };
  return taken;
}

/// Takes back what was asked and is done.
void take_back(const Training& training, records::Asked done, bool ended_epoch) {
  if (!training.world.is_first()) return;
  if (done.preview && training.previews == nullptr) warn("a preview was asked for, and this run has no preview_prompts");
  done.stop_after_epoch = ended_epoch;
  records::take_back(training.settings.output.folder, done);
}

/// Saves what there is, in the memory that the given-up step had, and says how far it is.
NoMemory give_up(const Training& training, const std::vector<std::unique_ptr<Hook>>& hooks, Telling& telling) {
  auto& trainee = training.trainee;
  NoMemory missing{.step = trainee.progress.step + (trainee.place == kAfterStep ? 0 : 1), .place = std::string(trainee.place)};
  missing.host_bytes = memory::own_memory().most_resident;
  trainee.execution.replays.reset();
  trainee.execution.gradients.reset();
  trainee.optimizer->zero_grad();
  memory::trim_heap();
  bool updates = trainee.place == kOptimizerStep || (training.settings.step.memory.updates_in_backward && trainee.place == kBackward);
  bool is_whole = !updates && trainee.progress.step > 0 && !trainee.ownership;  // which takes all processes
  try {
    telling.finish();
    for (const auto& hook : hooks) {
      if (is_whole) hook->interrupted();
    }
  } catch (const std::exception& error) {
    warn("the last steps could not be saved: {}", error.what());
  }
  missing.saved_step = trainee.saved_step;
  return missing;
}

/// Saves what there is before pictures are drawn that could not be, and throws why.
[[noreturn]] void stop_undrawn(const Training& training, const std::vector<std::unique_ptr<Hook>>& hooks, Telling& telling,
                               const NotDrawn& why) {
  const auto step = training.trainee.progress.step;
  telling.finish();
  if (step == 0) throw why;
  for (const auto& hook : hooks) hook->interrupted();
  throw Error(why.code(), "train", fmt::format("{}; everything up to step {} is saved, go on with --resume", without_source(why), step));
}

}  // namespace

std::optional<NoMemory> loop(const Training& training, const std::vector<std::unique_ptr<Hook>>& hooks) {
  const auto& progress = training.trainee.progress;
  Telling telling(hooks);
  for (const auto& hook : hooks) hook->before();
  if (progress.step == 0) {
    StepReport start;
    for (const auto& hook : hooks) hook->begun(start);
  }
  while (progress.step < training.course.num_steps()) {
    bool stops = false, ends_here = false;
    try {
      auto taken = step(training, stops);
      const auto asked = taken.report.asked;
      telling.add(std::move(taken));
      ends_here = asked.stop_after_epoch && training.course.ends_epoch(progress.step) && progress.step < training.course.num_steps();
      stops = stops || ends_here;
      if (stops) telling.finish();
      if (asked.any()) take_back(training, asked, ends_here);
    } catch (const NotDrawn& error) {
      stop_undrawn(training, hooks, telling, error);
    } catch (const std::exception& error) {
      if (!memory::is_out_of_memory(error)) throw;
      return give_up(training, hooks, telling);
    }
    if (!stops) continue;
    for (const auto& hook : hooks) hook->interrupted();
    training.world.leave();
    if (ends_here)
      throw Error(Exit::interrupted, "train",
                  fmt::format("ended with its epoch at step {}, as was asked; everything is saved, go on with --resume", progress.step));
    throw Error(Exit::interrupted, "train", fmt::format("interrupted at step {}; everything is saved, go on with --resume", progress.step));
  }
  telling.finish();
  for (const auto& hook : hooks) hook->ended();
  return std::nullopt;
}

}  // namespace burnish::train
