#pragma once
#include "pipeline/cut.h"
#include "train/samples/compute.h"
#include "train/samples/samples.h"

namespace burnish::train {

/// The rule for what a run may compute ahead for the draws of all its visits.
struct AheadRule {
  enum class When { never, if_smaller, always } when = When::never;  ///< if_smaller: than the weights that then leave memory
  double num_visits = 0;                                             ///< visits of all samples in the run
  c10::Device device = c10::Device(c10::DeviceType::CPU);
};

/// A plan of which units run once, ahead and at every visit: labels, and what running them on the first samples cost.
struct SplitPlan {
  pipeline::Schedule schedule;                     ///< the schedule in which everything fixed is computed once
  pipeline::CutProblem problem;                    ///< units and values in the order of the graph, with measured costs
  pipeline::CutPlan cheapest = {};                 ///< the cheapest plan within the budget
  double num_visits = 1;                           ///< visits of each sample in the run
  bool keeps_budget = true;                        ///< whether `cheapest` keeps the budget
  bool computes_ahead = false;                     ///< whether the schedule's ahead stage pays
  double num_ahead_visits = 0;                     ///< visits for which the ahead stage would run
  std::map<std::string, double> ahead_bytes = {};  ///< bytes a visit, by value
  double ahead_weight_bytes = 0;                   ///< bytes of the models that are then not in memory while training

  /// Returns the policy of `cheapest`: units that run at every visit though they could run once, and whether anything is computed ahead.
  pipeline::Policy policy() const;
  /// Counts the bytes that computing ahead keeps for all visits.
  double all_ahead_bytes() const;
};

/// Runs the units that can run once on up to `num_samples` samples, one model in memory at a time, to measure seconds and bytes. Units that
/// have to run at every step are not measured: they are in every plan. Units that can be computed ahead run once, for their bytes. Within
/// the budget, weights that only units computed ahead run do not count, and their results do.
SplitPlan plan_split(models::Model& model, const pipeline::Schedule& schedule, const Samples& samples, double num_visits,
                     const pipeline::CutBudget& budget, const AheadRule& rule, int64_t num_samples = 2);

/// Writes the plan as a table for people.
std::string to_text(const SplitPlan& plan);
/// Writes the graph in the language of graphviz: boxes are units (bold when they run at every step, dashed when ahead for all visits),
/// ellipses are values (blue when cached for each sample, green when computed ahead for each visit).
std::string to_dot(const SplitPlan& plan);

}  // namespace burnish::train
