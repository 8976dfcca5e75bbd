#include "pipeline/min_cut.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

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

double objective(const CutPlan& plan, double byte_price, double memory_price) {
  return plan.seconds + byte_price * plan.cache_bytes + memory_price * plan.weight_bytes;
}

double best_by_trying_all(const CutProblem& p, double byte_price, double memory_price) {
  double best = std::numeric_limits<double>::infinity();
  for (uint64_t mask = 0; mask < (uint64_t{1} << p.units.size()); ++mask) {
    std::vector<bool> runs;
    for (size_t i = 0; i < p.units.size(); ++i) runs.push_back((mask >> i & 1) != 0);
    best = std::min(best, objective(evaluate(p, runs), byte_price, memory_price));
  }
  return best;
}

}  // namespace

TEST(MinCut, EqualsExhaustiveSearchOnRandomGraphs) {
  Random random(11);
  int finite = 0;
  for (int i = 0; i < 2000; ++i) {
    auto p = random_problem(random);
    double byte_price = random.below(2) == 0 ? 0 : random.cost() / 4, memory_price = random.below(2) == 0 ? 0 : random.cost() / 4;
    auto best = best_by_trying_all(p, byte_price, memory_price);
    ASSERT_TRUE(std::isfinite(best));
    EXPECT_NEAR(objective(min_cut(p, byte_price, memory_price), byte_price, memory_price), best, 1e-6) << "graph " << i;
    finite += best > 0;
  }
  EXPECT_GT(finite, 1000) << "most graphs ask a question";
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

TEST(MinCut, CachesTheSmallValueAndDropsWhatMadeIt) {
  auto plan = min_cut(encoder(1, 0.01));
  EXPECT_EQ(plan.runs, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(plan.cached, (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(plan.weight_bytes, 0);
}

TEST(MinCut, RecomputesWhatIsCheaperThanLoading) {
  auto plan = min_cut(encoder(0.0001, 0.0001));
  EXPECT_EQ(plan.runs, (std::vector<bool>{true, true, true}));
  EXPECT_TRUE(min_cut(encoder(0.0001, 0.0001), 0, 1.0).cached[2]) << "unless its weights take memory that has a price";
}

TEST(MinCut, AFrozenEncoderBehindATrainedHeadIsCached) {
  auto p = encoder(1, 0.01);
  p.units[1].must_run = true;
  p.values[2].cacheable = false;
  auto plan = min_cut(p);
  EXPECT_EQ(plan.runs, (std::vector<bool>{false, true, true}));
  EXPECT_TRUE(plan.cached[1]);
}

TEST(MinCut, BudgetsAreKeptOrMissedByTheLeast) {
  auto p = encoder(1, 0.01);
  EXPECT_TRUE(min_cut_within(p, {.cache_bytes = 10}).cached[2]);
  auto plan = min_cut_within(p, {.cache_bytes = 5});
  EXPECT_EQ(plan.runs, (std::vector<bool>{true, true, true})) << "no room: everything runs";
  EXPECT_EQ(min_cut_within(encoder(0.0001, 0.0001), {.weight_bytes = 50}).weight_bytes, 0);
  EXPECT_TRUE(min_cut_within(p, {.cache_bytes = 5, .weight_bytes = 100}).runs[0]);
}
