#include "train/run/decided_schedule.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace burnish::train {

SplitPlan measure(const Opened& run, const Course& course) {
  const auto& data = run.settings.data;
  auto num_samples = static_cast<double>(run.samples().list.size()), visits = static_cast<double>(course.num_visits());
  pipeline::CutBudget budget;
  if (data.cache_bytes > 0) budget.cache_bytes = data.cache_bytes / num_samples;
  if (data.weight_bytes > 0) budget.weight_bytes = data.weight_bytes;
  using When = AheadRule::When;
  auto when = run.settings.schedule.ahead == AheadChoice::if_smaller ? When::if_smaller : When::never;
  if (run.settings.schedule.always_ahead()) when = When::always;
  AheadRule ahead{when, visits + static_cast<double>(course.num_held_out()), run.settings.model.options.device};
  return plan_split(*run.subject, run.schedule, run.samples(), std::max(1.0, visits / num_samples), budget, ahead);
}

namespace {

/// The cheapest policy that keeps the budget, by what this process measures.
pipeline::Policy measured_policy(const Opened& run, const Course& course) {
  auto plan = measure(run, course);
  if (!plan.keeps_budget) {
    throw Error(Exit::no_fit, "train",
                fmt::format("no cut keeps the budget: the nearest keeps {} in all and {} of weights loaded; raise cache_budget or "
                            "memory_budget, or store weights in fewer bits with --fp8_models",
                            human_bytes(plan.cheapest.cache_bytes * static_cast<double>(run.samples().list.size())),
                            human_bytes(plan.cheapest.weight_bytes)));
  }
  return plan.policy();
}

/// Seconds differ between processes, and schedules must not.
pipeline::Policy decided_policy(const Opened& run, const Course& course, const dist::World& world) {
  pipeline::Policy policy;
  std::string text;
  if (world.is_first()) {
    policy = measured_policy(run, course);
    text = fmt::format("{}\n{}", policy.ahead, fmt::join(policy.at_every_visit, "\n"));
  }
  auto lines = split_list(world.decided("schedule", text), '\n');
  policy.ahead = lines.front() == "true";
  policy.at_every_visit = {lines.begin() + 1, lines.end()};
  return policy;
}

}  // namespace

pipeline::Schedule within_budget(const Opened& run, const Course& course, const dist::World& world) {
  const auto& data = run.settings.data;
  if (data.cache_bytes <= 0 && data.weight_bytes <= 0) return run.schedule;
  auto schedule = pipeline::with_policy(run.schedule, decided_policy(run, course, world));
  const auto& kept = schedule.once.kept;
  std::vector<std::string> live(schedule.policy.at_every_visit.begin(), schedule.policy.at_every_visit.end());
  info("within the budget: {} kept; at every visit besides what must: {}", kept.empty() ? "nothing is" : join(kept),
       live.empty() ? "nothing" : join(live));
  return schedule;
}

}  // namespace burnish::train
