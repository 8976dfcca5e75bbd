#include "pipeline/cut.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace burnish::pipeline {

namespace {

constexpr auto kNever = std::numeric_limits<double>::infinity();

/// Tries the units from the last to the first, so that who reads what a unit writes is known when its turn comes.
class Enumeration {
 public:
  Enumeration(const CutProblem& problem, const CutBudget& budget) : problem_(problem), budget_(budget), runs_(problem.units.size()) {
    try_units(runs_.size(), 0);
    if (least_.second == kNever) throw std::logic_error("no choice gives every unit what it reads");
  }
  const CutPlan& best() const { return best_; }

 private:
  /// Tries every choice for the first `num_left` units, unless the others cost as much already as the best plan does.
  void try_units(size_t num_left, int num_choices) {
    auto plan = evaluate(num_left);
    auto cost = std::pair(excess(plan), plan.seconds);
    if (plan.seconds == kNever || cost >= least_) return;
    if (num_left == 0) {
      best_ = std::move(plan);
      least_ = cost;
      return;
    }
    auto index = num_left - 1;
    const auto& unit = problem_.units[index];
    bool may_run = unit.must_run || (!unit.must_not_run && is_read(index));
    if (may_run && !unit.must_run && can_load(index) && ++num_choices > kMostChoices) may_run = false;
    if (!unit.must_run) try_units(index, num_choices);
    if (!may_run) return;
    runs_[index] = true;
    try_units(index, num_choices);
    runs_[index] = false;
  }

  bool is_read(size_t unit) const {
    for (size_t i = unit + 1; i < runs_.size(); ++i) {
      for (auto value : problem_.units[i].reads) {
        if (runs_[i] && problem_.values[static_cast<size_t>(value)].writer == static_cast<int64_t>(unit)) return true;
      }
    }
    return false;
  }

  bool can_load(size_t unit) const {
    return std::all_of(problem_.values.begin(), problem_.values.end(),
                       [&](const auto& value) { return value.cacheable || value.writer != static_cast<int64_t>(unit); });
  }

  /// The plan while the first `num_left` units are open, which count nothing; its seconds are infinite where it lacks a value.
  CutPlan evaluate(size_t num_left) const {
    CutPlan plan{runs_, std::vector<bool>(problem_.values.size())};
    std::vector<bool> needed(problem_.values.size()), resident(problem_.weights.size());
    for (size_t i = num_left; i < runs_.size(); ++i) {
      if (!runs_[i]) continue;
      plan.seconds += problem_.units[i].seconds;
      for (auto value : problem_.units[i].reads) needed[static_cast<size_t>(value)] = true;
      for (auto weights : problem_.units[i].weights) resident[static_cast<size_t>(weights)] = true;
    }
    for (size_t i = 0; i < needed.size(); ++i) {
      const auto& value = problem_.values[i];
      auto writer = static_cast<size_t>(value.writer);
      if (!needed[i] || (value.writer >= 0 && (writer < num_left || runs_[writer]))) continue;
      plan.seconds += value.load_seconds;
      if (value.writer < 0) continue;
      plan.cached[i] = true;
      plan.seconds += value.cacheable ? value.store_seconds : kNever;
      plan.cache_bytes += value.num_bytes;
    }
    for (size_t i = 0; i < resident.size(); ++i) plan.weight_bytes += resident[i] ? problem_.weights[i].num_bytes : 0;
    return plan;
  }

  double excess(const CutPlan& plan) const {
    return std::max(0.0, plan.cache_bytes / budget_.cache_bytes - 1) + std::max(0.0, plan.weight_bytes / budget_.weight_bytes - 1);
  }

  const CutProblem& problem_;
  const CutBudget& budget_;
  std::vector<bool> runs_;
  CutPlan best_;
  std::pair<double, double> least_{kNever, kNever};
};

}  // namespace

CutProblem cut_problem(const Schedule& schedule) {
  CutProblem problem;
  std::map<std::string, int64_t> latest;  // value by name
  auto add_value = [&](const std::string& name, int64_t writer, const Labels& labels) {
    latest[name] = std::ssize(problem.values);
    problem.values.push_back({name, writer, labels.fixed(), 0, 0, 0});
  };
  auto weights_of = [&](const std::string& model) {
    auto it = std::find_if(problem.weights.begin(), problem.weights.end(), [&](const auto& w) { return w.name == model; });
    if (it != problem.weights.end()) return it - problem.weights.begin();
    problem.weights.push_back({model, 0});
    return std::ssize(problem.weights) - 1;
  };
  std::set<std::string> read;
  for (const auto& unit : schedule.units) read.insert(unit.reads.begin(), unit.reads.end());
  for (const auto& [name, labels] : schedule.inputs) {
    if (read.contains(name)) add_value(name, -1, labels);
  }
  for (const auto& unit : schedule.units) {
    CutProblem::Unit added{unit.name, 0, &unit == &schedule.units.back(), {}, {}};
    added.must_not_run = unit.weights == Weights::initial && schedule.labels.units.at(unit.name).fixed();
    for (const auto& name : unit.reads) added.reads.push_back(latest.at(name));
    for (const auto& model : unit.models) {
      added.must_run = added.must_run || (unit.weights == Weights::trained && is_trained(model, schedule.trained));
      added.weights.push_back(weights_of(model));
    }
    problem.units.push_back(added);
    for (const auto& name : unit.writes) add_value(name, std::ssize(problem.units) - 1, schedule.labels.units.at(unit.name));
  }
  return problem;
}

CutPlan cheapest_cut(const CutProblem& problem, const CutBudget& budget) { return Enumeration(problem, budget).best(); }

}  // namespace burnish::pipeline
