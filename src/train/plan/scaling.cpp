#include "train/plan/scaling.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "dist/reduction.h"

namespace burnish::train {

namespace {

constexpr double kStartUp = 50e-6;            // seconds a message, of TCP through main memory
constexpr double kPiece = 4 << 20;            // of each process, as dist/owners.h
constexpr double kShareOfBackward = 2.0 / 3;  // of a step's computing

/// A ring of processes.
class Ring {
 public:
  /// `reach`: among how many neighbours they are.
  Ring(const Machines& machines, int64_t processes, int64_t reach) : size_(static_cast<double>(processes)) {
    bool is_one = reach <= machines.processes_each;
    bytes_a_second_ = is_one ? machines.local_link : std::min(machines.link, machines.local_link);
  }
  double sum(double bytes) const { return 2 * gather(bytes); }
  /// `bytes`: of what all have in the end.
  double gather(double bytes) const { return (size_ - 1) * (bytes / size_ / bytes_a_second_ + kStartUp); }
  /// `bytes`: that leave each process, in so many exchanges of all with all.
  double exchange(double bytes, double count) const { return bytes / bytes_a_second_ + count * (size_ - 1) * kStartUp; }

 private:
  double size_, bytes_a_second_;
};

/// Bytes of buckets in the order in which backward gives them.
std::vector<double> buckets_of(int64_t bytes) {
  std::vector<double> buckets;
  const auto most = dist::ReductionOptions().bucket_bytes;
  for (auto left = bytes; left > 0; left -= dist::bucket_limit(most, buckets.size() - 1))
    buckets.push_back(static_cast<double>(std::min(left, dist::bucket_limit(most, buckets.size()))));
  std::ranges::reverse(buckets);
  return buckets;
}

/// Returns what of the sums comes after a backward of so many seconds: buckets are given one after the other, the late ones at its end, and
/// travel one after the other.
double exposed_sums(const StepWork& work, const Ring& ring, double backward, bool overlaps) {
  const auto early = static_cast<double>(work.gradient_bytes - work.late_gradient_bytes);
  double given = 0, ends = overlaps ? 0 : backward;
  for (auto bucket : buckets_of(work.gradient_bytes)) {
    given += bucket;
    ends = std::max(ends, given < early ? backward * given / early : backward) + ring.sum(bucket);
  }
  return std::max(0., ends - backward);
}

double sharing(const StepWork& work, const Ring& ring, int64_t processes) {
  auto bytes = static_cast<double>(work.weight_bytes);
  auto pieces = std::max(1., std::ceil(bytes / (kPiece * static_cast<double>(processes))));
  return pieces * ring.gather(bytes / pieces);
}

/// Blocks come one ahead of the one that computes, in forward and again in backward, whose first is still there.
double exposed_blocks(const StepWork& work, const Ring& ring, double computing) {
  if (work.divided_bytes == 0) return 0;
  auto blocks = static_cast<double>(work.num_blocks);
  auto one = ring.gather(static_cast<double>(work.divided_bytes) / blocks);
  auto waits = [&](double share) { return (blocks - 1) * std::max(0., one - share * computing / blocks); };
  return one + waits(1 - kShareOfBackward) + waits(kShareOfBackward);
}

int64_t divided_up(int64_t number, int64_t by) { return (number + by - 1) / by; }

}  // namespace

ScaledStep scaled(const StepWork& work, const StepShape& shape, const Machines& machines, int64_t processes) {
  ScaledStep step{.processes = processes, .machines = divided_up(processes, machines.processes_each)};
  auto places = std::min(shape.num_places, processes), groups = processes / places;
  auto visits = shape.global_batch_size > 0 ? shape.global_batch_size : shape.batch_size * groups;
  auto parts = divided_up(divided_up(visits, groups), shape.batch_size) * shape.batches_per_step;
  auto computing = 2 * work.multiplications / machines.flops;
  if (processes > 1) {
    auto in_row = shape.row_size == 0 ? processes : std::min(shape.row_size, processes), rows = processes / in_row;
    bool have_owners = shape.zero_stage >= 2;
    Ring all(machines, processes, processes), row(machines, in_row, in_row), column(machines, rows, processes);
    // Gradients that owners keep travel after every backward, all others after the last of a step.
    auto sums = exposed_sums(work, have_owners ? row : all, kShareOfBackward * computing, !shape.ordered);
    step.exposed = sums * static_cast<double>(have_owners && !shape.ordered ? parts : 1);
    if (have_owners && rows > 1) step.exposed += column.sum(static_cast<double>(work.gradient_bytes));  // over one link of each row
    step.exposed += exposed_blocks(work, row, computing) * static_cast<double>(parts);
    if (places > 1)
      step.exposed +=
          Ring(machines, places, places).exchange(static_cast<double>(work.token_bytes), static_cast<double>(work.num_exchanges)) *
          static_cast<double>(parts);
    if (shape.zero_stage >= 1) step.exposed += sharing(work, row, in_row);
  }
  step.seconds = static_cast<double>(parts) * computing + step.exposed;
  step.samples_per_second = static_cast<double>(visits * shape.batches_per_step) / step.seconds;
  return step;
}

double parse_rate(const std::string& option, const std::string& text) {
  auto rest = trim(text);
  const auto number = take_number<double>(rest).value_or(0);
  auto unit = trim(rest);
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  double factor = unit == "Gb" || unit == "Gbit"   ? 1e9 / 8
                  : unit == "Mb" || unit == "Mbit" ? 1e6 / 8
                  : unit == "GB"                   ? 1e9
                  : unit == "MB"                   ? 1e6
                                                   : 0;
  if (factor == 0 || !(number > 0))
    config_error("plan", "{} must be a rate like 400Gb (bits a second) or 50GB (bytes), not '{}'", option, text);
  return number * factor;
}

Scaling scaling(const Settings& settings, const Machines& machines, const Planner& planner) {
  const auto& division = settings.step.division;
  StepShape shape{.batch_size = settings.course.batch_size,
                  .global_batch_size = settings.course.global_batch_size,
                  .batches_per_step = settings.course.batches_per_step,
                  .zero_stage = division.zero_stage,
                  .row_size = division.row_size,
                  .num_places = division.num_places,
                  .ordered = division.reduction.ordered};
  constexpr int64_t kMost = 1024, kMostPlanned = 8;
  Scaling result{.machines = machines};
  std::optional<MemoryPlan> plan;
  for (int64_t processes = 1; processes <= kMost; processes *= 2) {
    // Memory of more than two processes is that of two unless it is divided, and of more than eight it is little less than that of eight.
    if (processes <= std::max(division.zero_stage > 0 ? kMostPlanned : 2, division.num_places)) {
      auto of_some = settings;
      of_some.step.division.row_size = std::min(division.row_size, processes);
      of_some.step.division.num_places = std::min(division.num_places, processes);
      plan = planner(shared_out(std::move(of_some), {.num_processes = processes}));
    }
    result.steps.push_back(scaled(plan->work, shape, machines, processes));
    result.steps.back().device_bytes = plan->num_bytes();
  }
  return result;
}

std::string to_text(const Scaling& scaling) {
  const auto& [machines, steps] = scaling;
  auto text =
      fmt::format("\nComputed, not measured: {} a machine, {:.0f} Gb/s between machines, {:.0f} Gb/s within, {:.0f} TFLOPS a device\n",
                  machines.processes_each == 1 ? "one process" : fmt::format("{} processes", machines.processes_each), machines.link * 8e-9,
                  machines.local_link * 8e-9, machines.flops * 1e-12);
  text += fmt::format("{:>9} {:>9} {:>12} {:>12} {:>10} {:>11} {:>12}\n", "processes", "machines", "s a step", "s exposed", "samples/s",
                      "efficiency", "device");
  for (const auto& step : steps) {
    auto alone = steps.front().samples_per_second * static_cast<double>(step.processes);
    text += fmt::format("{:>9} {:>9} {:>12.4g} {:>12.3g} {:>10.4g} {:>11.2f} {:>12}\n", step.processes, step.machines, step.seconds,
                        step.exposed, step.samples_per_second, step.samples_per_second / alone,
                        human_bytes(static_cast<double>(step.device_bytes)));
  }
  return text;
}

nlohmann::json to_json(const Scaling& scaling) {
  auto list = nlohmann::json::array();
  for (const auto& step : scaling.steps) {
    list.push_back({{"processes", step.processes},
                    {"machines", step.machines},
                    {"step_seconds", step.seconds},
                    {"exposed_seconds", step.exposed},
                    {"samples_per_second", step.samples_per_second},
                    {"device_bytes", step.device_bytes}});
  }
  return list;
}

}  // namespace burnish::train
