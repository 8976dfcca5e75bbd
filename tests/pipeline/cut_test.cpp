#include "pipeline/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>

namespace burnish::cut_test {
using namespace burnish::pipeline;

namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t bound) { return std::uniform_int_distribution<int64_t>(0, bound - 1)(engine_); }
  double cost() { return below(4) == 0 ? 0.0 : static_cast<double>(1 + below(20)) * 0.01; }

 private:
  std::mt19937_64 engine_;
};

/// Units in order, each reading values of earlier ones or of the dataset; labels grow along the graph as they do in a model.
CutProblem random_problem(Random& random) {
  CutProblem p;
  for (int64_t i = 0, n = random.below(3); i < n; ++i) p.weights.push_back({"w", 1.0 + static_cast<double>(random.below(9))});
  for (int i = 0; i < 2; ++i) p.values.push_back({"input", -1, i == 0, random.cost(), 0, 0});
  auto num_units = 2 + random.below(8);
  for (int64_t u = 0; u < num_units; ++u) {
    CutProblem::Unit unit{"u", random.cost(), random.below(6) == 0 || u + 1 == num_units, {}, {}};
    for (int64_t i = 0, n = 1 + random.below(3); i < n; ++i) unit.reads.push_back(random.below(std::ssize(p.values)));
    for (int64_t w = 0; w < std::ssize(p.weights); ++w) {
      if (random.below(3) == 0) unit.weights.push_back(w);
    }
    bool fixed = !unit.must_run;
    for (auto v : unit.reads) fixed = fixed && p.values[static_cast<size_t>(v)].cacheable;
    unit.must_not_run = fixed && random.below(8) == 0;
    p.units.push_back(unit);
    for (int64_t i = 0, n = 1 + random.below(2); i < n; ++i)
      p.values.push_back({"v", u, fixed, random.cost(), random.cost() / 8, 1.0 + static_cast<double>(random.below(5))});
  }
  return p;
}

constexpr auto kNever = std::numeric_limits<double>::infinity();

/// What `runs` costs, added up from nothing but the problem.
CutPlan costs_of(const CutProblem& p, const std::vector<bool>& runs) {
  CutPlan plan{runs, std::vector<bool>(p.values.size())};
  std::set<int64_t> needed, resident;
  for (size_t i = 0; i < p.units.size(); ++i) {
    if (runs[i] ? p.units[i].must_not_run : p.units[i].must_run) plan.seconds = kNever;
    if (!runs[i]) continue;
    plan.seconds += p.units[i].seconds;
    needed.insert(p.units[i].reads.begin(), p.units[i].reads.end());
    resident.insert(p.units[i].weights.begin(), p.units[i].weights.end());
  }
  for (auto i : needed) {
    const auto& value = p.values[static_cast<size_t>(i)];
    bool cached = value.writer >= 0 && !runs[static_cast<size_t>(value.writer)];
    plan.cached[static_cast<size_t>(i)] = cached;
    if (cached && !value.cacheable) plan.seconds = kNever;
    if (cached || value.writer < 0) plan.seconds += value.load_seconds;
    if (cached) plan.seconds += value.store_seconds, plan.cache_bytes += value.num_bytes;
  }
  for (auto i : resident) plan.weight_bytes += p.weights[static_cast<size_t>(i)].num_bytes;
  return plan;
}

double excess(const CutPlan& plan, const CutBudget& budget) {
  return std::max(0.0, plan.cache_bytes / budget.cache_bytes - 1) + std::max(0.0, plan.weight_bytes / budget.weight_bytes - 1);
}

CutPlan best_by_trying_all(const CutProblem& p, const CutBudget& budget) {
  CutPlan best{{}, {}, kNever};
  auto least = std::pair(kNever, kNever);
  for (uint64_t mask = 0; mask < (uint64_t{1} << p.units.size()); ++mask) {
    std::vector<bool> runs;
    for (size_t i = 0; i < p.units.size(); ++i) runs.push_back((mask >> i & 1) != 0);
    auto plan = costs_of(p, runs);
    auto cost = std::pair(excess(plan, budget), plan.seconds);
    if (plan.seconds == kNever || cost >= least) continue;
    best = plan, least = cost;
  }
  return best;
}

CutBudget random_budget(Random& random) {
  CutBudget budget;
  if (random.below(3) != 0) budget.cache_bytes = 1.0 + static_cast<double>(random.below(8));
  if (random.below(3) != 0) budget.weight_bytes = 1.0 + static_cast<double>(random.below(8));
  return budget;
}

}  // namespace

TEST(Cut, EqualsExhaustiveSearchOnRandomGraphs) {
  Random random(11);
  int num_bound = 0, num_over = 0;
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE(i);
    auto p = random_problem(random);
    auto budget = random_budget(random);
    auto best = best_by_trying_all(p, budget), plan = cheapest_cut(p, budget), again = costs_of(p, plan.runs);
    ASSERT_LT(best.seconds, kNever);
    EXPECT_NEAR(excess(plan, budget), excess(best, budget), 1e-9);
    EXPECT_NEAR(plan.seconds, best.seconds, 1e-9);
    EXPECT_NEAR(plan.seconds, again.seconds, 1e-9);
    EXPECT_EQ(plan.cached, again.cached);
    EXPECT_EQ(plan.cache_bytes, again.cache_bytes);
    EXPECT_EQ(plan.weight_bytes, again.weight_bytes);
    num_bound += plan.seconds > cheapest_cut(p).seconds;
    num_over += excess(plan, budget) > 0;
  }
  EXPECT_GT(num_bound, 100) << "budgets change plans";
  EXPECT_GT(num_over, 300) << "and many cannot be kept";
}

TEST(Cut, RunsNoUnitInVain) {
  Random random(13);
  for (int i = 0; i < 1000; ++i) {
    auto p = random_problem(random);
    auto plan = cheapest_cut(p);
    for (size_t u = 0; u < p.units.size(); ++u) {
      bool read = p.units[u].must_run;
      for (size_t reader = 0; reader < p.units.size(); ++reader) {
        for (auto v : p.units[reader].reads)
          read = read || (plan.runs[reader] && p.values[static_cast<size_t>(v)].writer == static_cast<int64_t>(u));
      }
      EXPECT_TRUE(read || !plan.runs[u]) << "graph " << i;
    }
  }
}

namespace {

/// An encoder with a large result, a small projection of it, and a trained denoiser.
CutProblem encoder(double encoder_seconds, double project_seconds) {
  CutProblem p;
  p.weights = {{"encoder", 100}, {"projector", 1}};
  p.values = {{"image", -1, true, 0.001, 0, 0},
              {"hidden", 0, true, 0.05, 0.001, 1000},
              {"projected", 1, true, 0.001, 0.001, 10},
              {"prediction", 2, false, 0, 0, 0}};
  p.units = {{"encode", encoder_seconds, false, {0}, {0}}, {"project", project_seconds, false, {1}, {1}}, {"denoise", 1, true, {2}, {}}};
  return p;
}

}  // namespace

TEST(Cut, CachesTheSmallValueAndDropsWhatMadeIt) {
  auto plan = cheapest_cut(encoder(1, 0.01));
  EXPECT_EQ(plan.runs, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(plan.cached, (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(plan.weight_bytes, 0);
}

TEST(Cut, RecomputesWhatIsCheaperThanLoading) {
  auto plan = cheapest_cut(encoder(0.0001, 0.0001));
  EXPECT_EQ(plan.runs, (std::vector<bool>{true, true, true}));
  EXPECT_TRUE(cheapest_cut(encoder(0.0001, 0.0001), {.weight_bytes = 50}).cached[2]) << "unless there is no room for its weights";
}

TEST(Cut, AFrozenEncoderBehindATrainedHeadIsCached) {
  auto p = encoder(1, 0.01);
  p.units[1].must_run = true;
  p.values[2].cacheable = false;
  auto plan = cheapest_cut(p);
  EXPECT_EQ(plan.runs, (std::vector<bool>{false, true, true}));
  EXPECT_TRUE(plan.cached[1]);
}

TEST(Cut, BudgetsAreKeptOrMissedByTheLeast) {
  auto p = encoder(1, 0.01);
  EXPECT_TRUE(cheapest_cut(p, {.cache_bytes = 10}).cached[2]);
  auto plan = cheapest_cut(p, {.cache_bytes = 5});
  EXPECT_EQ(plan.runs, (std::vector<bool>{true, true, true})) << "no room: everything runs";
  EXPECT_TRUE(cheapest_cut(p, {.cache_bytes = 5, .weight_bytes = 100}).runs[0]);
}

TEST(Cut, ABudgetKeepsWhatFitsThoughOtherBytesSaveMore) {
  CutProblem p;
  p.values = {{"image", -1, true, 0, 0, 0}, {"a", 0, true, 0, 0, 10}, {"b", 1, true, 0, 0, 6}, {"loss", 2, false, 0, 0, 0}};
  p.units = {{"a", 10, false, {0}, {}}, {"b", 3, false, {0}, {}}, {"loss", 0, true, {1, 2}, {}}};
  EXPECT_EQ(cheapest_cut(p, {.cache_bytes = 9}).runs, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(cheapest_cut(p, {.cache_bytes = 10}).runs, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(cheapest_cut(p, {.cache_bytes = 16}).runs, (std::vector<bool>{false, false, true}));
}

namespace {

/// Units of which the loss reads all. The first and the last one are cheaper to run, those between cheaper to load.
CutProblem side_by_side(int64_t num_units) {
  CutProblem p;
  p.values.push_back({"image", -1, true, 0, 0, 0});
  CutProblem::Unit loss{"loss", 0, true, {}, {}};
  for (int64_t i = 0; i < num_units; ++i) {
    bool cheap = i == 0 || i + 1 == num_units;
    p.units.push_back({"encode", cheap ? 0.0 : 10.0, false, {0}, {}});
    p.values.push_back({"encoded", i, true, cheap ? 1.0 : 0.0, 0, 1});
    loss.reads.push_back(i + 1);
  }
  p.units.push_back(loss);
  return p;
}

}  // namespace

TEST(Cut, OfTooManyUnitsTheFirstAreLoaded) {
  auto plan = cheapest_cut(side_by_side(kMostChoices));
  EXPECT_TRUE(plan.runs.front());
  EXPECT_EQ(plan.seconds, 0);
  plan = cheapest_cut(side_by_side(kMostChoices + 1));
  EXPECT_FALSE(plan.runs.front());
  EXPECT_TRUE(plan.runs[kMostChoices]);
  EXPECT_EQ(plan.seconds, 1);
}

TEST(Cut, ThereHasToBeAPlan) {
  auto p = encoder(1, 0.01);
  p.values[2].cacheable = false;
  p.units[1].must_not_run = true;
  EXPECT_THROW(cheapest_cut(p), std::logic_error);
}

}  // namespace burnish::cut_test
