#pragma once
#include "data/dataset.h"
#include "models/family.h"
#include "pipeline/labels.h"
#include "pipeline/min_cut.h"

namespace burnish::train {

/// What is known of a run's units before it starts: labels, and what running them on the first samples cost.
struct SplitPlan {
  pipeline::Units units;
  std::map<std::string, pipeline::Labels> labels;  ///< by value
  pipeline::Cut cut;                               ///< what training does: everything fixed is computed once
  pipeline::CutProblem problem;                    ///< units and values in the order of the graph, with measured costs
  pipeline::CutPlan cheapest;                      ///< the minimum cut within the budget
  double num_visits = 1;                           ///< of each sample in the run
  bool keeps_budget = true;                        ///< whether `cheapest` does
  std::set<std::string> ahead = {};                ///< units that can be computed ahead for the draws of all visits

  /// Units that `cheapest` runs at every visit though they could be computed once.
  std::set<std::string> keep_live() const;
};

/// Labels the units, and runs those that can be prepared on up to `num_samples` samples, one model in memory at a time, to measure
/// seconds and bytes. Costs of units that have to run at every step are not measured: they are in every plan.
SplitPlan plan_split(models::Model& model, const pipeline::Units& units, const std::set<std::string>& trained_models,
                     const data::Dataset& dataset, double num_visits, const pipeline::CutBudget& budget, int64_t num_samples = 2);

/// The plan as a table for people.
std::string to_text(const SplitPlan& plan);
/// The graph in the language of graphviz: boxes are units (bold when they run at every step), ellipses are values (filled when cached).
std::string to_dot(const SplitPlan& plan);

}  // namespace burnish::train
