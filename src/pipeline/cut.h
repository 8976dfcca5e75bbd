#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/schedule.h"

namespace burnish::pipeline {

/// The question of split training with its costs: for every unit, run it at each visit of a sample, or keep what is needed of its
/// results in the cache. Costs are seconds a visit.
struct CutProblem {
  struct Unit {
    std::string name;
    double seconds = 0;          ///< to run it once
    bool must_run = false;       ///< it runs a trained parameter, or makes the loss
    std::vector<int64_t> reads;  ///< indices of values
    std::vector<int64_t> weights;
    bool must_not_run = false;  ///< whether what the unit writes has to be kept
  };
  struct Value {
    std::string name;
    int64_t writer = -1;       ///< index of a unit; -1 for what comes from the dataset or a draw
    bool cacheable = false;    ///< it is the same at every visit
    double load_seconds = 0;   ///< to read it from the cache, or an input from the dataset
    double store_seconds = 0;  ///< to compute and write it once, divided by the visits that a cache serves
    double num_bytes = 0;      ///< a sample
  };
  struct Weights {
    std::string name;
    double num_bytes = 0;
  };
  std::vector<Unit> units;
  std::vector<Value> values;
  std::vector<Weights> weights;
};

/// The units of a schedule in their order as a problem without costs yet: values that they read from outside come first, then every write
/// of a value as one of its own. The last unit makes the loss.
CutProblem cut_problem(const Schedule& schedule);

/// An answer: which units run at every visit, and which values are loaded from the cache for them.
struct CutPlan {
  std::vector<bool> runs;    ///< whether a unit runs, by unit
  std::vector<bool> cached;  ///< whether a value is cached, by value
  double seconds = 0;        ///< a visit
  double cache_bytes = 0;    ///< a sample
  double weight_bytes = 0;   ///< bytes of the models that stay in memory
};

struct CutBudget {
  double cache_bytes = 1e30;   ///< a sample
  double weight_bytes = 1e30;  ///< resident during training
};

/// The number of units between whose running and loading one plan may choose. All combinations of so many are tried.
constexpr int kMostChoices = 20;

/// The cheapest plan that keeps the budget; when none does, the one that exceeds it least, relative to the budget. No unit runs in vain. Of
/// more than `kMostChoices` units the last ones are chosen, and what the others write is loaded. A problem without any plan is a
/// logic_error.
CutPlan cheapest_cut(const CutProblem& problem, const CutBudget& budget = {});

}  // namespace burnish::pipeline
