#include "train/plan/budget.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/text.h"
#include "train/objectives/objective_kind.h"
#include "train/samples/compute.h"
#include "train/samples/pixels.h"

namespace burnish::train {

namespace {

using pipeline::CutProblem;

template <class F>
double seconds_of(F action) {
  auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double bytes_of(const pipeline::Value& value) { return static_cast<double>(pipeline::num_bytes(value)); }

/// Seconds to put cached tensors into memory, by copying them.
double load_seconds(pipeline::Value value) {
  return seconds_of([&] { pipeline::change_tensors(value, [](const at::Tensor& tensor) { return tensor.clone(); }); });
}

/// Draws of the shapes that a visit has; what they are does not matter.
pipeline::Values any_draws(const models::Model& model, const Sample& sample) {
  auto shape = sample.latent_shape;
  shape.insert(shape.begin(), 1);
  auto noise = at::zeros(shape, at::kFloat);
  pipeline::Values draws{
      {"noise", noise}, {"latent_noise", noise}, {model.process().time_name(), at::full({1}, model.process().time_at(0.5), at::kFloat)}};
  draws[kLossWeight] = at::zeros({1}, at::kFloat);
  draws[kOfClassSet] = at::ones({1}, at::kFloat);  // such samples cost what there is to cost
  draws[kSliderStrength] = at::full({}, 1, at::kFloat);
  draws[kPhase] = at::zeros({}, at::kLong);
  for (auto* kind : kObjectives) {
    for (const auto& drawn : kind().drawn) draws[drawn.name] = drawn.is_noise ? noise : at::zeros({1}, at::kLong);
  }
  for (const auto& drawn : kLearnedByStream) draws[drawn] = noise;
  for (const auto& [stream, shape_of_stream] : sample.further_latents) {
    for (const auto* names : {&kDrawnByStream, &kLearnedByStream}) {
      for (const auto& drawn : *names) draws[models::stream_value(stream, drawn)] = at::zeros(shape_of_stream, at::kFloat).unsqueeze(0);
    }
  }
  return draws;
}

/// A piece of work of this many items that Ctrl-C ends.
Work measurement(const std::vector<std::string>& models, const std::string& name, size_t num_items) {
  return {.models = models, .name = "measure " + name, .num_items = static_cast<int64_t>(num_items), .interrupted = [] {
            throw Error(Exit::interrupted, "train", "interrupted while measuring what units cost; nothing was trained yet");
          }};
}

/// Runs units on the first samples, for what they cost.
class Measurement {
 public:
  Measurement(models::Model& model, SplitPlan& plan, const Samples& samples, int64_t num_samples)
      : model_(model), plan_(plan), samples_(samples.list.begin(), samples.list.begin() + std::min(num_samples, std::ssize(samples.list))) {
    values_.resize(samples_.size());
    for (const auto& input : samples.inputs->rows()) {
      if (values_named(input.name).empty()) continue;  // no unit reads it
      for (size_t i = 0; i < samples_.size(); ++i) {
        auto seconds = seconds_of([&] { values_[i][input.name] = input.load(samples, {samples_[i].number}); });
        for (auto* value : values_named(input.name)) value->load_seconds += share() * seconds;
      }
    }
    for (auto& values : values_) values = in_model_range(std::move(values), model_.device());
  }

  /// A unit that runs once a sample.
  void measure(size_t index) {
    const auto& unit = plan_.schedule.units[index];
    auto& seconds = plan_.problem.units[index].seconds;
    auto work = measurement(unit.models, unit.name, samples_.size());
    work.run = [&](int64_t i) {
      auto& sample = values_[static_cast<size_t>(i)];
      if (i == 0) {
        auto warm = sample;
        pipeline::run({unit}, warm);
      }
      seconds += share() * seconds_of([&] { pipeline::run({unit}, sample); });
      for (auto& value : plan_.problem.values) {
        if (value.writer != static_cast<int64_t>(index)) continue;
        value.num_bytes += share() * bytes_of(sample.at(value.name));
        value.load_seconds += share() * load_seconds(sample.at(value.name));
      }
      return true;
    };
    compute(model_, work);
    for (auto& value : plan_.problem.values) {
      if (value.writer == static_cast<int64_t>(index)) value.store_seconds = seconds / plan_.num_visits;
    }
  }

  /// What can be computed ahead, on one sample, for the bytes of a visit.
  void measure_ahead(const AheadRule& rule) {
    const auto& ahead = plan_.schedule.ahead;
    auto live = pipeline::models_of(plan_.schedule.live.units);
    auto models = pipeline::models_of(ahead.units);
    for (const auto& name : models) {
      if (!contains(live, name)) plan_.ahead_weight_bytes += static_cast<double>(model_.components().num_bytes(name));
    }
    auto work = measurement(models, join(ahead.kept), 1);
    work.run = [&](int64_t) {
      auto values = pipeline::run(ahead, {pipeline::moved(values_.front(), rule.device)},
                                  pipeline::moved(any_draws(model_, samples_.front()), rule.device));
      for (const auto& name : ahead.kept) plan_.ahead_bytes[name] = bytes_of(values.at(name));
      return true;
    };
    compute(model_, work);
    bool pays = plan_.all_ahead_bytes() < plan_.ahead_weight_bytes;
    plan_.computes_ahead = rule.when == AheadRule::When::always || pays;
  }

 private:
  double share() const { return 1.0 / static_cast<double>(samples_.size()); }
  std::vector<CutProblem::Value*> values_named(const std::string& name) {
    std::vector<CutProblem::Value*> found;
    for (auto& value : plan_.problem.values) {
      if (value.writer < 0 && value.name == name) found.push_back(&value);
    }
    return found;
  }

  models::Model& model_;
  SplitPlan& plan_;
  std::vector<Sample> samples_;
  std::vector<pipeline::Values> values_;
};

/// The problem once results computed ahead take the place of their units: these need no weights, and all that they read is cached.
CutProblem with_ahead(CutProblem problem, const pipeline::Schedule& schedule) {
  for (auto& unit : problem.units) {
    if (!has_unit(schedule.ahead.units, unit.name)) continue;
    unit.weights.clear();
    for (auto read : unit.reads) {
      auto writer = problem.values[static_cast<size_t>(read)].writer;
      if (writer < 0) continue;
      auto& from = problem.units[static_cast<size_t>(writer)];
      from.must_not_run = has_unit(schedule.once.units, from.name);
    }
  }
  return problem;
}

void solve(SplitPlan& plan, const pipeline::CutBudget& budget, const AheadRule& rule) {
  auto own = budget;
  // Of the results computed ahead, what falls to a sample.
  auto ahead = plan.computes_ahead ? plan.all_ahead_bytes() / std::max(1.0, rule.num_visits / plan.num_visits) : 0;
  own.cache_bytes = std::max(1.0, budget.cache_bytes - ahead);
  plan.cheapest = pipeline::cheapest_cut(plan.computes_ahead ? with_ahead(plan.problem, plan.schedule) : plan.problem, own);
  plan.cheapest.cache_bytes += ahead;
  plan.keeps_budget = plan.cheapest.cache_bytes <= budget.cache_bytes && plan.cheapest.weight_bytes <= budget.weight_bytes;
  if (plan.keeps_budget || !plan.computes_ahead || rule.when == AheadRule::When::always) return;
  plan.computes_ahead = false;
  solve(plan, budget, rule);
}

}  // namespace

SplitPlan plan_split(models::Model& model, const pipeline::Schedule& schedule, const Samples& samples, double num_visits,
                     const pipeline::CutBudget& budget, const AheadRule& rule, int64_t num_samples) {
  SplitPlan plan{.schedule = schedule, .problem = pipeline::cut_problem(schedule), .num_visits = num_visits};
  plan.num_ahead_visits = rule.num_visits;
  Measurement measurement(model, plan, samples, num_samples);
  for (size_t i = 0; i < schedule.units.size(); ++i) {
    if (has_unit(schedule.once.units, schedule.units[i].name)) measurement.measure(i);
  }
  for (auto& weights : plan.problem.weights) weights.num_bytes = static_cast<double>(model.components().num_bytes(weights.name));
  if (rule.when != AheadRule::When::never && !schedule.ahead.units.empty()) measurement.measure_ahead(rule);
  solve(plan, budget, rule);
  return plan;
}

double SplitPlan::all_ahead_bytes() const {
  double bytes = 0;
  for (const auto& [name, a_visit] : ahead_bytes) bytes += a_visit * num_ahead_visits;
  return bytes;
}

pipeline::Policy SplitPlan::policy() const {
  pipeline::Policy policy{{}, computes_ahead};
  for (size_t i = 0; i < problem.units.size(); ++i) {
    const auto& name = problem.units[i].name;
    if (cheapest.runs[i] && has_unit(schedule.once.units, name)) policy.at_every_visit.insert(name);
  }
  return policy;
}

}  // namespace burnish::train
