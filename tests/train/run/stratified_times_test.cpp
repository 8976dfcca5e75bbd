// Times of an optimizer step that are spread evenly: over its batches, their parts and processes, and over the stretch of an expert.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"

using namespace burnish;
using namespace burnish::train;
using test::SkeletonRun;

namespace {

class StratifiedTimes : public testing::Test {
 protected:
  Settings settings(bool stratified = true) const {
    auto s = SkeletonRun::settings_in(scratch.path());
    s.objective.timesteps.mode = "uniform";
    s.course.global_batch_size = 2;
    s.course.batch_size = 2;
    s.course.batches_per_step = 3;
    s.course.num_repeats = 3;
    s.course.stratified_times = stratified;
    return s;
  }

  /// All that this process draws of a step, in the order of its batches and their parts.
  static std::vector<double> times(const Course& course, int64_t step) {
    std::vector<double> all;
    for (BatchId id{false, step * 3, 0}; id.number < (step + 1) * 3;) {
      const auto batch = course.batch(id);
      const auto sigma = std::get<at::Tensor>(course.draws(batch, {"noise", "sigma"}).at("sigma"));
      if (batch.part.counts) all.insert(all.end(), sigma.const_data_ptr<float>(), sigma.const_data_ptr<float>() + sigma.numel());
      id = next(id, batch.part);
    }
    return all;
  }

  static void expect_even(std::vector<double> times, double from = 0, double to = 1) {
    std::ranges::sort(times);
    for (size_t i = 0; i < times.size(); ++i)
      EXPECT_EQ(static_cast<size_t>(std::floor((times[i] - from) / (to - from) * static_cast<double>(times.size()))), i);
  }

  test::Scratch scratch;
};

}  // namespace

TEST_F(StratifiedTimes, AreSpreadOverAllBatchesOfAStep) {
  SkeletonRun run(settings());
  for (int64_t step = 0; step < 4; ++step) {
    const auto drawn = times(run.course, step);
    ASSERT_EQ(drawn.size(), 6u);
    expect_even(drawn);
    if (step > 0) {
      EXPECT_NE(drawn, times(run.course, step - 1));
    }
  }
  SkeletonRun plain(settings(false));
  EXPECT_NE(times(plain.course, 0), times(run.course, 0));
}

TEST_F(StratifiedTimes, AreEqualInPartsAndOnSeveralProcesses) {
  SkeletonRun whole(settings());
  const auto expected = times(whole.course, 1);
  auto in_parts = settings();
  in_parts.course.batch_size = 1;
  EXPECT_EQ(times(SkeletonRun(std::move(in_parts)).course, 1), expected);
  std::vector<std::vector<double>> of_process;
  for (int64_t number = 0; number < 2; ++number) {
    auto s = settings();
    s.course.batch_size = 1;
    s.course.portion = {2, number};
    of_process.push_back(times(SkeletonRun(std::move(s)).course, 1));
  }
  std::vector<double> together;
  for (size_t i = 0; i < of_process[0].size(); ++i) together.insert(together.end(), {of_process[0][i], of_process[1].at(i)});
  EXPECT_EQ(together, expected);
}

TEST_F(StratifiedTimes, LieInTheStretchOfAnExpertThatTrainsAlone) {
  test::save_skeleton(scratch / "model.safetensors");
  auto s = settings();
  s.trained.adapted = {"dit_2"};
  SkeletonRun run(std::move(s));
  for (int64_t step = 0; step < 3; ++step) expect_even(times(run.course, step), 0, 0.5);
}
