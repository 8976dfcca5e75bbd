#include "train/plan/fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "memory/gpu.h"
#include "memory/host.h"
#include "train/plan/levers.h"

namespace burnish::train {

namespace {

Change change_of(const Pulled& pulled, const MemoryPlan& plan) { return {to_flags(pulled.says()), plan.num_bytes(), plan.host_bytes()}; }

/// Nothing where the planner refuses what the settings ask for: not everything is for several processes, and not every budget can be kept.
std::optional<MemoryPlan> planned(const Settings& settings, const Planner& planner) {
  try {
    return planner(settings);
  } catch (const Error& error) {
    if (error.code() != Exit::config) throw;
    return std::nullopt;
  }
}

/// A run with levers pulled, each time planned once.
class Tries {
 public:
  /// `plan`: without any. All must outlive it.
  Tries(const Settings& settings, const MemoryPlan& plan, const Planner& planner) : settings_(settings), plan_(plan), planner_(planner) {}

  Pulled pull(const Levers& levers) const { return train::pull(levers, settings_, plan_); }
  /// Nothing where the planner refuses.
  const std::optional<MemoryPlan>& plan_of(const Pulled& pulled) {
    auto [made, is_new] = made_.try_emplace(pulled.says());
    if (is_new) made->second = planned(pulled.settings, planner_);
    return made->second;
  }
  std::optional<Change> with(const Levers& levers) {
    const auto pulled = pull(levers);
    const auto& made = plan_of(pulled);
    return made ? std::optional(change_of(pulled, *made)) : std::nullopt;
  }
  const MemoryPlan& without_any() const { return plan_; }
  Levers those_that_can(bool may_accumulate) const {
    Levers all;
    for (const auto& lever : levers()) {
      if (lever.can(settings_, plan_) && (may_accumulate || !lever.accumulates)) all.push_back(&lever);
    }
    return all;
  }

 private:
  const Settings& settings_;
  const MemoryPlan& plan_;
  const Planner& planner_;
  std::map<std::vector<Asked>, std::optional<MemoryPlan>> made_;  ///< by what was asked for
};

bool are_within(int64_t num_bytes, int64_t host_bytes, const Limits& limits) {
  if (limits.are_one && num_bytes + host_bytes > limits.device.value_or(num_bytes + host_bytes)) return false;
  return num_bytes <= limits.device.value_or(num_bytes) && host_bytes <= limits.host.value_or(host_bytes);
}

bool fits(const Change& change, const Limits& limits) { return are_within(change.num_bytes, change.host_bytes, limits); }

/// Finds the largest budget for activations that fits, to take the place of blocks that are computed again by number; nothing where
/// they were not pulled, or no budget that is larger fits.
std::optional<Change> within_budget(const Pulled& pulled, const Limits& limits, Tries& tries) {
  constexpr int64_t kMiB = 1 << 20;
  constexpr int kAttempts = 3;
  if (!with_budget(pulled, 1)) return std::nullopt;
  auto plan = tries.plan_of(pulled);
  if (!plan) return std::nullopt;
  const auto by_number = plan->activation_bytes;
  auto budget = by_number;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto left = std::numeric_limits<int64_t>::max();
    if (limits.device) left = std::min(left, *limits.device - plan->num_bytes() - (limits.are_one ? plan->host_bytes() : 0));
    if (limits.host && plan->device == "cpu") left = std::min(left, *limits.host - plan->host_bytes());
    if (left == std::numeric_limits<int64_t>::max()) return std::nullopt;
    budget = (budget + left) / kMiB * kMiB;
    if (budget <= by_number) return std::nullopt;
    const auto other = *with_budget(pulled, budget / kMiB);
    plan = tries.plan_of(other);
    if (!plan) return std::nullopt;  // none so small can be kept
    if (auto change = change_of(other, *plan); fits(change, limits)) return change;
  }
  return std::nullopt;
}

/// Takes as few levers, in their order, as make the run fit; none where all together do not. How many a device needs is found by halves,
/// since none takes more of it than those before leave. Of the host's memory, which a CPU's is and some GPUs', some take more. One that the
/// planner refuses beside the others is left out.
Levers first_that_fit(Levers levers, const Limits& limits, Tries& tries) {
  auto first = [&](size_t count) { return Levers(levers.begin(), levers.begin() + static_cast<int64_t>(count)); };
  size_t too_few = 0, count = tries.without_any().device == "cpu" || limits.are_one ? 1 : levers.size() + 1;
  while (too_few + 1 < count) {
    const auto middle = (too_few + count) / 2;
    const auto change = tries.with(first(middle));
    const bool is_enough = !change || are_within(change->num_bytes, 0, limits);
    (is_enough ? count : too_few) = middle;
  }
  while (count <= levers.size()) {
    const auto change = tries.with(first(count));
    if (!change) levers.erase(levers.begin() + static_cast<int64_t>(count) - 1);
    else if (fits(*change, limits)) return first(count);
    else ++count;
  }
  return {};
}

/// Tells whether the run is faster without the lever where it fits without it too. Where blocks wait, weights in FP8 are not: half as many
/// bytes come from main memory twice a step, which saves more than unpacking them costs.
bool is_worth_leaving_out(const Lever& lever, const Levers& pulled) {
  return !lever.makes_codes || std::ranges::none_of(pulled, &Lever::pages);
}

/// `fit`, with smaller batches in place of large ones or without.
std::optional<Change> fit_with(bool may_accumulate, const Limits& limits, Tries& tries) {
  auto pulled = first_that_fit(tries.those_that_can(may_accumulate), limits, tries);
  if (pulled.empty()) return std::nullopt;
  for (auto i = pulled.size(); pulled.size() > 1 && i-- > 0;) {
    if (!is_worth_leaving_out(*pulled[i], pulled)) continue;
    auto fewer = pulled;
    fewer.erase(fewer.begin() + static_cast<int64_t>(i));
    if (auto without = tries.with(fewer); without && fits(*without, limits)) pulled = std::move(fewer);
  }
  auto within = within_budget(tries.pull(pulled), limits, tries);
  return within ? within : tries.with(pulled);
}

/// Returns what a run that ran out of memory can have had: less than it was planned to take, and of the host no more than it ever took.
Limits had(const NoMemory& missing, const Settings& settings, const MemoryPlan& plan) {
  if (plan.device == "cpu") return {.device = {}, .host = std::min(missing.host_bytes, plan.host_bytes() - 1)};
  return {.device = std::min(limits_of(settings).device.value_or(plan.num_bytes()), plan.num_bytes() - 1), .host = {}};
}

/// The plan of the steps alone: what ran before them fitted.
MemoryPlan steps_of(MemoryPlan plan) {
  auto whole = plan.num_bytes();
  plan.stages = {plan.step()};
  for (auto& [name, num_bytes] : plan.host) {
    if (name == kRunTensors && num_bytes == whole) num_bytes = plan.num_bytes();
  }
  return plan;
}

std::string in_units(int64_t num_bytes) { return human_bytes(static_cast<double>(num_bytes)); }

std::string nothing_fits(const MemoryPlan& plan, const std::optional<Change>& training_less) {
  const std::string nothing = "no option that takes less memory makes it fit";
  if (!training_less) return nothing + ": train smaller pictures, or fewer layers";
  return fmt::format("{} as long as layers of {} train; where none does, it is computed ahead of training, and the run fits in {} with {}",
                     nothing, plan.movable.in_the_way, in_units(training_less->num_bytes), training_less->flags);
}

/// Tells whether a change saves something that whoever reads the plan can see: of the host's memory alone, where the device has no more for
/// it; of both together, where they are one memory.
bool saves(const Change& change, const MemoryPlan& plan, bool are_one) {
  auto is_less = [](int64_t now, int64_t before) { return now < before && in_units(now) != in_units(before); };
  if (are_one) return is_less(change.num_bytes + change.host_bytes, plan.num_bytes() + plan.host_bytes());
  if (is_less(change.num_bytes, plan.num_bytes())) return true;
  return plan.device != "cpu" && change.num_bytes <= plan.num_bytes() && is_less(change.host_bytes, plan.host_bytes());
}

/// Says which memory a run that does not fit has too little of.
std::string what_lacks(const MemoryPlan& plan, const Limits& limits) {
  const auto& largest = plan.largest();
  const auto of_device = in_units(plan.num_bytes()), of_host = in_units(plan.host_bytes());
  if (limits.device && plan.num_bytes() > *limits.device)
    return fmt::format("{} takes {} of {} at its peak ({}), and there is {}", largest.name, of_device, plan.device, largest.profile.place,
                       in_units(*limits.device));
  if (limits.are_one && limits.device)
    return fmt::format("{} takes {} of {} at its peak ({}) and {} of the host, which have one memory, and there is {}", largest.name,
                       of_device, plan.device, largest.profile.place, of_host, in_units(*limits.device));
  return fmt::format("the run takes {} of the host's memory, {} of it the run's tensors ({}), and there is {}", of_host,
                     in_units(plan.device == "cpu" ? plan.num_bytes() : 0), largest.profile.place, in_units(*limits.host));
}

/// Tries all levers together; without the one that the planner refuses beside the others, where there is one.
std::optional<Change> with_all(const Levers& levers, Tries& tries) {
  auto change = tries.with(levers);
  for (size_t i = 0; !change && i < levers.size(); ++i) {
    auto others = levers;
    others.erase(others.begin() + static_cast<int64_t>(i));
    change = tries.with(others);
  }
  return change;
}

}  // namespace

Limits limits_of(const Settings& settings) {
  const auto& says = settings.plan;
  Limits limits{.device = says.device_bytes, .host = says.host_bytes.value_or(memory::size_of_host() / says.processes_here)};
  const auto device = settings.model.options.device;
  if (device.is_cpu()) return limits;
  if (!limits.device) limits.device = memory::room_on(device);
  limits.are_one = says.is_unified || memory::is_unified(device);
  if (limits.are_one && !says.host_bytes) limits.host = limits.device;
  return limits;
}

bool fits(const MemoryPlan& plan, const Limits& limits) { return are_within(plan.num_bytes(), plan.host_bytes(), limits); }

std::vector<Change> changes(const Settings& settings, const MemoryPlan& plan, const Planner& planner) {
  Tries tries(settings, plan, planner);
  const bool are_one = limits_of(settings).are_one;
  std::vector<Change> all;
  for (const auto* lever : tries.those_that_can(/*may_accumulate=*/true)) {
    auto change = tries.with({lever});
    if (change && saves(*change, plan, are_one)) all.push_back(std::move(*change));
  }
  return all;
}

std::optional<Change> fit(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner) {
  if (fits(plan, limits)) return Change{"", plan.num_bytes(), plan.host_bytes()};
  Tries tries(settings, plan, planner);
  if (auto found = fit_with(/*may_accumulate=*/true, limits, tries)) return found;
  if (settings.course.batch_size == 1) return std::nullopt;
  return fit_with(/*may_accumulate=*/false, limits, tries);  // updates inside backward may save more than small batches
}

HowItFits how_it_fits(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner) {
  if (fits(plan, limits)) return HowItFits::as_it_is;
  Tries tries(settings, plan, planner);
  auto levers = tries.those_that_can(/*may_accumulate=*/true);
  const auto all = with_all(levers, tries);
  if (all && fits(*all, limits)) return HowItFits::with_options;
  const bool lacks_host = all && plan.device != "cpu" && are_within(all->num_bytes, 0, limits);
  if (!lacks_host) return HowItFits::not_at_all;
  levers.erase(std::ranges::find_if(levers, &Lever::pages), levers.end());
  const auto without_paging = with_all(levers, tries);
  if (without_paging && fits(*without_paging, limits)) return HowItFits::with_options;
  // Some blocks may wait there where all of them do not fit.
  const auto some_fit = [&](bool may_accumulate) { return !first_that_fit(tries.those_that_can(may_accumulate), limits, tries).empty(); };
  const bool has_fit = some_fit(/*may_accumulate=*/true) || (settings.course.batch_size > 1 && some_fit(/*may_accumulate=*/false));
  return has_fit ? HowItFits::with_options : HowItFits::not_at_all;
}

std::optional<Change> fit_training_less(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner) {
  if (plan.movable.other_targets.empty()) return std::nullopt;
  auto fewer = settings;
  fewer.trained.targets = plan.movable.other_targets;
  auto made = planned(fewer, planner);
  auto found = made ? fit(fewer, *made, limits, planner) : std::nullopt;
  if (found) found->flags = trim(fmt::format("{} {}", to_flags({{"lora_target_modules", *fewer.trained.targets}}), found->flags));
  return found;
}

std::string to_text(const Advice& advice) {
  auto text = to_text(advice.plan);
  bool on_cpu = advice.plan.device == "cpu";
  if (!advice.changes.empty()) text += "\nwhat would take less, in order of what it costs in speed:\n";
  for (const auto& change : advice.changes) {
    text += fmt::format("{:>14}", in_units(change.num_bytes));
    if (!on_cpu) text += fmt::format("{:>14} of the host", in_units(change.host_bytes));
    text += fmt::format("  {}\n", change.flags);
  }
  bool all_fits = fits(advice.plan, advice.limits);
  std::vector<std::string> there;
  const auto& limits = advice.limits;
  const bool are_one = limits.are_one && limits.device;
  if (are_one) there.push_back(fmt::format("{} of {} and the host together", in_units(*limits.device), advice.plan.device));
  else if (limits.device) there.push_back(fmt::format("{} of {}", in_units(*limits.device), advice.plan.device));
  if (limits.host && !are_one) there.push_back(fmt::format("{} of the host", in_units(*limits.host)));
  const auto table = advice.scaling.steps.empty() ? "" : to_text(advice.scaling);
  if (there.empty()) return text + table;
  text += fmt::format("\nthere is {}: the run {}\n", join(there, " and "), all_fits ? "fits" : "does not fit");
  if (all_fits || !advice.is_fit_sought) return text + table;
  if (!advice.fitting) return text + nothing_fits(advice.plan, advice.training_less) + "\n" + table;
  text += fmt::format("it fits in {} with {}\n", in_units(advice.fitting->num_bytes), advice.fitting->flags);
  return text + table;
}

std::string to_json(const Advice& advice) {
  auto json_of = [](const Change& change) {
    return nlohmann::json{{"flags", change.flags}, {"bytes", change.num_bytes}, {"host_bytes", change.host_bytes}};
  };
  auto json = to_json(advice.plan);
  json["changes"] = nlohmann::json::array();
  for (const auto& change : advice.changes) json["changes"].push_back(json_of(change));
  if (advice.limits.device) json["limit"] = *advice.limits.device;
  if (advice.limits.host) json["host"]["limit"] = *advice.limits.host;
  if (advice.limits.are_one) json["unified_memory"] = true;
  json["fits"] = fits(advice.plan, advice.limits);
  if (advice.fitting) json["fit"] = json_of(*advice.fitting);
  if (advice.training_less) json["fit_training_less"] = json_of(*advice.training_less);
  if (!advice.scaling.steps.empty()) json["scaling"] = to_json(advice.scaling);
  return json.dump(2) + "\n";
}

void check_fits(const Settings& settings, const MemoryPlan& plan, const Limits& limits, const Planner& planner) {
  if (fits(plan, limits)) return;
  auto found = fit(settings, plan, limits, planner);
  auto less = found ? std::nullopt : fit_training_less(settings, plan, limits, planner);
  throw Error(
      Exit::no_fit, "train",
      fmt::format("{}; {}, or train all the same with --plan off", what_lacks(plan, limits),
                  found ? fmt::format("it fits with {} ({})", found->flags, in_units(found->num_bytes)) : nothing_fits(plan, less)));
}

std::string explain(const NoMemory& missing, const Settings& settings, const std::optional<MemoryPlan>& plan, const Planner& planner) {
  auto saved = missing.saved_step < 0 ? std::string("nothing was saved yet")
                                      : fmt::format("the state of step {} is saved, to go on from with --resume", missing.saved_step);
  auto text = fmt::format("out of memory in step {} ({}), which was given up; {}; ", missing.step, missing.place, saved);
  if (!plan) return text + "it was not planned: `burnish plan` with these options says what takes less";
  auto steps = steps_of(*plan);
  text += fmt::format("the plan said {} of {} at the peak ({})", in_units(steps.num_bytes()), steps.device, steps.step().profile.place);
  try {
    auto found = fit(settings, steps, had(missing, settings, steps), [&](const auto& changed) { return steps_of(planner(changed)); });
    return text + (found ? fmt::format("; it takes {} with {}", in_units(found->num_bytes), found->flags)
                         : "; no option that takes less memory makes it fit in what there was: train smaller pictures, or fewer layers");
  } catch (const std::exception&) {  // for a plan memory may be missing too
    return text;
  }
}

}  // namespace burnish::train
