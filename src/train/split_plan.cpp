#include "train/split_plan.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "pipeline/visit.h"
#include "train/draws.h"
#include "train/preparation.h"
#include "train/prepared.h"

namespace burnish::train {

namespace {

using pipeline::CutProblem;

const std::map<std::string, pipeline::Labels> kInputs{
    {"prompt", {.sample = true}},  {"image", {.sample = true}},      {"size_conditioning", {.sample = true}}, {"noise", {.timestep = true}},
    {"sigma", {.timestep = true}}, {"timestep", {.timestep = true}}, {"latent_noise", {.timestep = true}}};

template <class F>
double seconds_of(F action) {
  auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double bytes_of(const pipeline::Value& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  return tensor ? static_cast<double>(tensor->nbytes()) : static_cast<double>(std::get<std::string>(value).size());
}

/// Turns units with named values into a CutProblem, each write of a name being a value of its own.
class Builder {
 public:
  explicit Builder(SplitPlan& plan) : plan_(plan) {
    for (const auto& [name, labels] : kInputs) add_value(name, -1, labels);
  }

  void add(const pipeline::Unit& unit, const std::set<std::string>& trained_models, bool is_last) {
    auto& problem = plan_.problem;
    CutProblem::Unit added{unit.name, 0, is_last, {}, {}};
    pipeline::Labels labels;
    for (const auto& name : unit.reads) {
      added.reads.push_back(value_.at(name));
      labels |= labels_.at(name);
    }
    for (const auto& model : unit.models) {
      added.must_run = added.must_run || pipeline::is_trained(model, trained_models);
      added.weights.push_back(weights(model));
    }
    labels.trained |= added.must_run && !is_last;
    problem.units.push_back(added);
    for (const auto& name : unit.writes) add_value(name, std::ssize(problem.units) - 1, labels);
  }

  int64_t value(const std::string& name) const { return value_.at(name); }

 private:
  void add_value(const std::string& name, int64_t writer, pipeline::Labels labels) {
    value_[name] = std::ssize(plan_.problem.values);
    labels_[name] = labels;
    plan_.problem.values.push_back({name, writer, labels.fixed(), 0, 0, 0});
  }
  int64_t weights(const std::string& model) {
    auto& list = plan_.problem.weights;
    auto it = std::find_if(list.begin(), list.end(), [&](const auto& w) { return w.name == model; });
    if (it != list.end()) return it - list.begin();
    list.push_back({model, 0});
    return std::ssize(list) - 1;
  }
  SplitPlan& plan_;
  std::map<std::string, int64_t> value_;
  std::map<std::string, pipeline::Labels> labels_;
};

/// Seconds to put a cached tensor into memory, by copying it.
double load_seconds(const at::Tensor& tensor) {
  return seconds_of([&] { tensor.clone(); });
}

/// Draws of the shapes that a visit has; what they are does not matter.
pipeline::Values any_draws(const models::Model& model, const pipeline::Values& sample, const data::Size& size) {
  auto shape = latent_shape_of(sample);
  if (shape.empty()) shape = model.latent_shape(size.height, size.width);
  shape.insert(shape.begin(), 1);
  auto noise = at::zeros(shape, at::kFloat);
  return {
      {"noise", noise}, {"latent_noise", noise}, {model.process().time_name(), at::full({1}, model.process().time_at(0.5), at::kFloat)}};
}

/// Runs what can be computed ahead on one sample, for the bytes of a visit.
void measure_ahead(SplitPlan& plan, models::Model& model, const pipeline::Values& sample, const data::Size& size, const AheadRule& rule) {
  auto models = pipeline::models_of(plan.ahead.prepare), live = pipeline::models_of(plan.ahead.live);
  for (const auto& name : models) {
    model.load(name);
    if (!contains(live, name)) plan.ahead_weight_bytes += static_cast<double>(model.num_bytes(name));
  }
  auto values = pipeline::Visit({plan.cut.prepare, plan.ahead.prepare, plan.cut.carried}, kDrawn, {})
                    .run({pipeline::moved(sample, rule.device)}, pipeline::moved(any_draws(model, sample, size), rule.device));
  for (const auto& name : plan.ahead.carried) plan.ahead_bytes[name] = bytes_of(values.at(name));
  for (const auto& name : models) model.unload(name);
  bool pays = plan.all_ahead_bytes() < plan.ahead_weight_bytes;
  plan.computes_ahead = rule.when == AheadRule::When::always || pays;
}

/// The problem once results computed ahead take the place of their units: these need no weights, and all that they read is cached.
CutProblem with_ahead(CutProblem problem, const SplitPlan& plan) {
  for (auto& unit : problem.units) {
    if (!has_unit(plan.ahead.prepare, unit.name)) continue;
    unit.weights.clear();
    for (auto read : unit.reads) {
      auto writer = problem.values[static_cast<size_t>(read)].writer;
      if (writer < 0) continue;
      auto& from = problem.units[static_cast<size_t>(writer)];
      from.must_not_run = has_unit(plan.cut.prepare, from.name);
    }
  }
  return problem;
}

void solve(SplitPlan& plan, const pipeline::CutBudget& budget, const AheadRule& rule) {
  auto own = budget;
  // Of the results computed ahead, what falls to a sample.
  auto ahead = plan.computes_ahead ? plan.all_ahead_bytes() / std::max(1.0, rule.num_visits / plan.num_visits) : 0;
  own.cache_bytes = std::max(1.0, budget.cache_bytes - ahead);
  plan.cheapest = pipeline::min_cut_within(plan.computes_ahead ? with_ahead(plan.problem, plan) : plan.problem, own);
  plan.cheapest.cache_bytes += ahead;
  plan.keeps_budget = plan.cheapest.cache_bytes <= budget.cache_bytes && plan.cheapest.weight_bytes <= budget.weight_bytes;
  if (plan.keeps_budget || !plan.computes_ahead || rule.when == AheadRule::When::always) return;
  plan.computes_ahead = false;
  solve(plan, budget, rule);
}

}  // namespace

SplitPlan plan_split(models::Model& model, const pipeline::Units& units, const std::set<std::string>& trained_models,
                     const data::Dataset& dataset, double num_visits, const pipeline::CutBudget& budget, const AheadRule& rule,
                     int64_t num_samples) {
  at::NoGradGuard no_grad;
  SplitPlan plan{units, pipeline::label(units, kInputs, trained_models), pipeline::cut(units, kDrawn, trained_models), {}, {}, num_visits};
  Builder builder(plan);
  auto rows = dataset.rows();
  rows.resize(std::min(rows.size(), static_cast<size_t>(num_samples)));
  auto share = 1.0 / static_cast<double>(rows.size());
  std::vector<pipeline::Values> samples(rows.size());
  auto& values = plan.problem.values;
  for (size_t i = 0; i < rows.size(); ++i) {
    auto& image = values[static_cast<size_t>(builder.value("image"))];
    image.load_seconds += share * seconds_of([&] { samples[i]["image"] = dataset.load(rows[i]).image_3HW.unsqueeze(0); });
    samples[i]["prompt"] = dataset.prompt(rows[i]);
    samples[i]["size_conditioning"] = size_conditioning(dataset, rows[i]);
  }
  size_t next_prepared = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    const auto& unit = units[u];
    builder.add(unit, trained_models, u + 1 == units.size());
    if (next_prepared >= plan.cut.prepare.size() || plan.cut.prepare[next_prepared].name != unit.name) continue;
    ++next_prepared;
    for (const auto& name : unit.models) model.load(name);
    auto warm = samples.front();
    pipeline::run({unit}, warm);
    auto& seconds = plan.problem.units[u].seconds;
    for (auto& sample : samples) {
      seconds += share * seconds_of([&] { pipeline::run({unit}, sample); });
      for (const auto& name : unit.writes) {
        auto& value = values[static_cast<size_t>(builder.value(name))];
        value.num_bytes += share * bytes_of(sample.at(name));
        if (const auto* tensor = std::get_if<at::Tensor>(&sample.at(name))) value.load_seconds += share * load_seconds(*tensor);
      }
    }
    for (const auto& name : unit.writes) values[static_cast<size_t>(builder.value(name))].store_seconds = seconds / num_visits;
    for (const auto& name : unit.models) model.unload(name);
  }
  for (auto& weights : plan.problem.weights) weights.num_bytes = static_cast<double>(model.num_bytes(weights.name));
  plan.ahead.live = plan.cut.live;
  plan.num_ahead_visits = rule.num_visits;
  if (rule.when != AheadRule::When::never) plan.ahead = pipeline::cut_ahead(plan.cut.live, trained_models);
  if (!plan.ahead.prepare.empty()) measure_ahead(plan, model, samples.front(), dataset.size(rows.front()), rule);
  solve(plan, budget, rule);
  return plan;
}

double SplitPlan::all_ahead_bytes() const {
  double bytes = 0;
  for (const auto& [name, a_visit] : ahead_bytes) bytes += a_visit * num_ahead_visits;
  return bytes;
}

std::set<std::string> SplitPlan::keep_live() const {
  std::set<std::string> names;
  for (size_t i = 0; i < problem.units.size(); ++i) {
    const auto& name = problem.units[i].name;
    bool fixed = std::any_of(cut.prepare.begin(), cut.prepare.end(), [&](const auto& unit) { return unit.name == name; });
    if (cheapest.runs[i] && fixed) names.insert(name);
  }
  return names;
}

/// Whether a unit runs ahead of training and not during it.
static bool runs_ahead_alone(const SplitPlan& plan, const std::string& unit) {
  return plan.computes_ahead && has_unit(plan.ahead.prepare, unit) && !has_unit(plan.ahead.live, unit);
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

std::string to_text(const SplitPlan& plan) {
  const auto& p = plan.problem;
  std::string text = fmt::format("{:<22} {:<16} {:>12}  {}\n", "unit", "runs", "ms a sample", "reads -> writes (labels)");
  for (size_t i = 0; i < p.units.size(); ++i) {
    std::vector<std::string> writes;
    for (const auto& name : plan.units[i].writes) writes.push_back(fmt::format("{} ({})", name, plan.labels.at(name).text()));
    bool prepared = has_unit(plan.cut.prepare, p.units[i].name);
    const auto* runs = prepared ? "once" : runs_ahead_alone(plan, p.units[i].name) ? "ahead" : "every step";
    text += fmt::format("{:<22} {:<16} {:>12}  {} -> {}\n", p.units[i].name, runs,
                        prepared ? fmt::format("{:.2f}", p.units[i].seconds * 1e3) : "", join(plan.units[i].reads), join(writes));
  }
  double bytes = 0, seconds = 0, evicted = 0;
  for (const auto& value : p.values) {
    if (!contains(plan.cut.carried, value.name)) continue;
    bytes += value.num_bytes;
    text += fmt::format("kept: {:<18} {:>12} a sample\n", value.name, human_bytes(value.num_bytes));
  }
  auto live_models = pipeline::models_of(plan.cut.live);
  for (const auto& weights : p.weights) {
    if (!contains(live_models, weights.name)) evicted += weights.num_bytes;
  }
  for (const auto& unit : plan.cut.prepare) {
    for (const auto& measured : p.units) seconds += measured.name == unit.name ? measured.seconds : 0;
  }
  text +=
      fmt::format("cut: {} a sample in the cache, {:.2f} ms saved at each visit of a sample, {} of weights not in memory while training\n",
                  human_bytes(bytes), seconds * 1e3, human_bytes(evicted));
  text += ahead_text(plan);
  std::vector<std::string> loaded, rerun;
  for (const auto& name : plan.keep_live()) rerun.push_back(name);
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
    bool carried = made && contains(plan.cut.carried, p.values[i].name);
    bool ahead = made && plan.computes_ahead && contains(plan.ahead.carried, p.values[i].name);
    text += fmt::format("  v{} [label=\"{}\\n{}\"{}];\n", i, p.values[i].name, plan.labels.at(p.values[i].name).text(),
                        ahead     ? ", style=filled, fillcolor=palegreen"
                        : carried ? ", style=filled, fillcolor=lightblue"
                                  : "");
    if (p.values[i].writer >= 0) text += fmt::format("  u{} -> v{};\n", p.values[i].writer, i);
  }
  for (size_t i = 0; i < p.units.size(); ++i) {
    const auto& name = p.units[i].name;
    const auto* style = runs_ahead_alone(plan, name) ? ", style=dashed" : has_unit(plan.cut.live, name) ? ", style=bold" : "";
    text += fmt::format("  u{} [shape=box, label=\"{}\\n{}\"{}];\n", i, p.units[i].name, join(plan.units[i].models), style);
    for (auto value : p.units[i].reads) text += fmt::format("  v{} -> u{};\n", value, i);
  }
  return text + "}\n";
}

}  // namespace burnish::train
