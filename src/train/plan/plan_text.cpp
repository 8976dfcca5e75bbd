#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "train/objectives/nft.h"
#include "train/plan/budget.h"

namespace burnish::train {

/// Tells whether a unit runs ahead of training and not during it.
static bool runs_ahead_alone(const SplitPlan& plan, const std::string& unit) {
  return plan.computes_ahead && has_unit(plan.schedule.ahead.units, unit) && !has_unit(plan.schedule.live.units, unit);
}

static std::string ahead_text(const SplitPlan& plan) {
  if (plan.ahead_bytes.empty()) return "";
  std::string text;
  for (const auto& [name, bytes] : plan.ahead_bytes) text += fmt::format("ahead: {:<17} {:>12} a visit\n", name, human_bytes(bytes));
  auto all = human_bytes(plan.all_ahead_bytes()), weights = human_bytes(plan.ahead_weight_bytes);
  if (plan.computes_ahead)
    return text +
           fmt::format("ahead: {} of all {:.0f} visits, {} of weights not in memory while training\n", all, plan.num_ahead_visits, weights);
  return text + fmt::format("not ahead: {} of all {:.0f} visits, {} of weights\n", all, plan.num_ahead_visits, weights);
}

/// Returns how often a batch runs each model at every step.
static std::string passes_text(const pipeline::Stage& live) {
  std::vector<std::string> all;
  for (const auto& model : pipeline::models_of(live.units)) {
    int64_t passes = 0, with_gradient = 0;
    for (const auto& unit : live.units) {
      if (!contains(unit.models, model)) continue;
      ++passes;
      if (live.with_gradient.contains(unit.name)) ++with_gradient;
    }
    all.push_back(fmt::format("{} {} ({} with gradients)", model, passes, with_gradient));
  }
  const bool has_old_policy = std::ranges::any_of(live.units, [](const auto& unit) { return contains(unit.reads, kOldPrediction); });
  return fmt::format("passes at every step: {}{}\n", join(all),
                     has_old_policy ? "; and one without gradients as far as predictions, by the policy that draws" : "");
}

std::string to_text(const SplitPlan& plan) {
  const auto& p = plan.problem;
  size_t width = 22;
  for (const auto& unit : p.units) width = std::max(width, unit.name.size());
  std::string text = fmt::format("{:<{}} {:<16} {:>12}  {}\n", "unit", width, "runs", "ms a sample", "reads -> writes (labels)");
  for (size_t i = 0; i < p.units.size(); ++i) {
    std::vector<std::string> writes;
    for (const auto& name : plan.schedule.units[i].writes)
      writes.push_back(fmt::format("{} ({})", name, plan.schedule.labels.values.at(name).text()));
    bool prepared = has_unit(plan.schedule.once.units, p.units[i].name);
    const auto* runs = prepared ? "once" : runs_ahead_alone(plan, p.units[i].name) ? "ahead" : "every step";
    text += fmt::format("{:<{}} {:<16} {:>12}  {} -> {}\n", p.units[i].name, width, runs,
                        prepared ? fmt::format("{:.2f}", p.units[i].seconds * 1e3) : "", join(plan.schedule.units[i].reads), join(writes));
  }
  text += passes_text(plan.computes_ahead ? plan.schedule.live : pipeline::with_policy(plan.schedule, {{}, false}).live);
  double bytes = 0, seconds = 0, evicted = 0;
  for (const auto& value : p.values) {
    if (!contains(plan.schedule.once.kept, value.name)) continue;
    bytes += value.num_bytes;
    text += fmt::format("kept: {:<18} {:>12} a sample\n", value.name, human_bytes(value.num_bytes));
  }
  auto live_models = pipeline::models_of(plan.schedule.after_once());
  for (const auto& weights : p.weights) {
    if (!contains(live_models, weights.name)) evicted += weights.num_bytes;
  }
  for (const auto& unit : plan.schedule.once.units) {
    for (const auto& measured : p.units) seconds += measured.name == unit.name ? measured.seconds : 0;
  }
  text +=
      fmt::format("cut: {} a sample in the cache, {:.2f} ms saved at each visit of a sample, {} of weights not in memory while training\n",
                  human_bytes(bytes), seconds * 1e3, human_bytes(evicted));
  text += ahead_text(plan);
  std::vector<std::string> loaded, rerun;
  for (const auto& name : plan.policy().at_every_visit) rerun.push_back(name);
  for (size_t i = 0; i < p.values.size(); ++i) {
    if (plan.cheapest.cached[i]) loaded.push_back(p.values[i].name);
  }
  text += fmt::format("cheapest by measured costs (visits of a sample: {:.0f}): cache {}; run at every step besides what must: {}\n",
                      plan.num_visits, loaded.empty() ? "nothing" : join(loaded), rerun.empty() ? "nothing" : join(rerun));
  return text;
}

std::string to_dot(const SplitPlan& plan) {
  const auto& p = plan.problem;
  std::string text = "digraph split {\n  rankdir=LR;\n";
  for (size_t i = 0; i < p.values.size(); ++i) {
    bool made = p.values[i].writer >= 0;
    bool carried = made && contains(plan.schedule.once.kept, p.values[i].name);
    bool ahead = made && plan.computes_ahead && contains(plan.schedule.ahead.kept, p.values[i].name);
    text += fmt::format("  v{} [label=\"{}\\n{}\"{}];\n", i, p.values[i].name, plan.schedule.labels.values.at(p.values[i].name).text(),
                        ahead     ? ", style=filled, fillcolor=palegreen"
                        : carried ? ", style=filled, fillcolor=lightblue"
                                  : "");
    if (p.values[i].writer >= 0) text += fmt::format("  u{} -> v{};\n", p.values[i].writer, i);
  }
  for (size_t i = 0; i < p.units.size(); ++i) {
    const auto& name = p.units[i].name;
    const auto* style = runs_ahead_alone(plan, name) ? ", style=dashed" : !has_unit(plan.schedule.once.units, name) ? ", style=bold" : "";
    text += fmt::format("  u{} [shape=box, label=\"{}\\n{}\"{}];\n", i, p.units[i].name, join(plan.schedule.units[i].models), style);
    for (auto value : p.units[i].reads) text += fmt::format("  v{} -> u{};\n", value, i);
  }
  return text + "}\n";
}

}  // namespace burnish::train
