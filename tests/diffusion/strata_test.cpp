// Times that are spread evenly over a distribution.
#include "diffusion/strata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/random_key.h"
#include "diffusion/discrete_process.h"
#include "diffusion/flow_process.h"

using namespace burnish;
using namespace burnish::diffusion;

namespace {

const std::vector<std::string> kModes{"uniform",      "sigmoid", "shift",      "flux_shift", "ideogram4_shift", "logsnr",          "sigma",
                                      "logit_normal", "mode",    "heavy_tail", "cos_map",    "lognorm_blend",   "logit_normal_cut"};

std::vector<double> times(const Process& process, const TimestepOptions& options, int64_t count, const Stretch& stretch = {}) {
  const Strata strata{.key = 5, .count = count};
  std::vector<double> all;
  for (int64_t k = 0; k < count; ++k) {
    const double own = CounterRandom(static_cast<uint64_t>(k)).uniform();
    all.push_back(time_of_draws(stretch, process, options, strata.share(k, own), 1024));
  }
  return all;
}

}  // namespace

TEST(Strata, EachDrawHasAStratumOfItsOwn) {
  for (const int64_t count : {1, 2, 7, 64}) {
    const Strata strata{.key = 3, .count = count};
    std::set<int64_t> taken;
    for (int64_t k = 0; k < count; ++k) {
      EXPECT_NEAR(strata.share(k, 0.75) - strata.share(k, 0.25), 0.5 / static_cast<double>(count), 1e-12);
      taken.insert(static_cast<int64_t>(std::floor(strata.share(k, 0.5) * static_cast<double>(count))));
    }
    EXPECT_EQ(std::ssize(taken), count);
  }
  const Strata a{.key = 1, .count = 64}, b{.key = 2, .count = 64};
  bool differ = false;
  for (int64_t k = 0; k < 64; ++k) differ = differ || a.share(k, 0) != b.share(k, 0);
  EXPECT_TRUE(differ);
}

TEST(Strata, OfAFlowTimesAreQuantilesOfEveryDistribution) {
  const FlowProcess process{{}};
  for (const auto& mode : kModes) {
    const TimestepOptions options{.mode = mode};
    for (const double u : {0.001, 0.3, 0.5, 0.97}) {
      EXPECT_NEAR(time_of_draws({}, process, options, u, 1024), sigma_at(options, u, 1024), 1e-12) << mode << " " << u;
    }
    auto sorted = times(process, options, 20);
    std::ranges::sort(sorted);
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(sorted[i] >= sigma_at(options, std::max(1e-9, i / 20.0), 1024) - 1e-12 &&
                  sorted[i] <= sigma_at(options, std::min(1 - 1e-9, (i + 1) / 20.0), 1024) + 1e-12)
          << mode << " " << i;
  }
}

TEST(Strata, OfAGridAndOfDiscreteTimestepsEachPartIsVisitedOnce) {
  const FlowProcess flow{{}};
  const DiscreteProcess discrete{DiscreteConfig{}};
  auto of_grid = times(flow, {.mode = "diffsynth"}, 50), timesteps = times(discrete, {.mode = "uniform"}, 50);
  std::ranges::sort(of_grid), std::ranges::sort(timesteps);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(static_cast<int>(timesteps[i] / 20), i);
  std::vector<double> grid;
  for (int i = 0; i < 1000; ++i) grid.push_back(time_of_draws({}, flow, {.mode = "diffsynth"}, (i + 0.5) / 1000, 1024));
  std::ranges::sort(grid);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(of_grid[i] >= grid[20 * i] && of_grid[i] <= grid[20 * i + 19]) << i;
}

TEST(Strata, WithinAStretchTheyAreSpreadOverWhatIsDrawnThere) {
  const FlowProcess flow{{}};
  const DiscreteProcess discrete{DiscreteConfig{}};
  const TimestepOptions options{.mode = "uniform"};
  for (const Stretch stretch : {Stretch{0, 0.3}, Stretch{0.3, 0.875}, Stretch{0.875, 1}}) {
    auto sigmas = times(flow, options, 10, stretch), timesteps = times(discrete, options, 10, stretch);
    std::ranges::sort(sigmas), std::ranges::sort(timesteps);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(static_cast<int>((sigmas[i] - stretch.from) / (stretch.to - stretch.from) * 10), i);
      EXPECT_TRUE(stretch.has(discrete.share_of(timesteps[i]))) << timesteps[i];
      EXPECT_NEAR((discrete.share_of(timesteps[i]) - stretch.from) / (stretch.to - stretch.from) * 10, i + 0.5, 0.6);
    }
  }
  const TimestepOptions cut{.mode = "uniform", .max_t = 0.5};
  EXPECT_THROW(time_of_draws({0.875, 1}, flow, cut, 0.3, 1024), Error);
}
