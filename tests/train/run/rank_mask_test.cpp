// T-LoRA's rank mask in steps: what of an adapter learns from samples of some noise.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"
#include "train/step/step.h"

using namespace burnish;
using namespace burnish::train;
using test::SkeletonRun;

namespace {

constexpr int64_t kRank = 4;

class MaskedSteps : public testing::Test {
 protected:
  Settings settings(double share, int64_t least = 1) const {
    auto s = SkeletonRun::settings_in(scratch.path());
    s.trained.adapter.rank = kRank;
    s.trained.rank_rule = {.least = least};
    s.course.batch_size = 2;
    s.objective.timesteps = {.mode = "uniform", .min_t = share, .max_t = share + 0.05};
    return s;
  }

  /// The gradients of a batch; `steps` before it leave B other than 0.
  static std::map<std::string, at::Tensor> gradients_after(SkeletonRun& run, int64_t steps) {
    for (int64_t i = 0;; ++i) {
      BatchId id{false, i, 0};
      auto next_part = [&] {
        auto batch = run.feed.batch(run.schedule.live, id);
        id = next(id, batch.part);
        return batch;
      };
      auto gradients = compute_gradients(run.trainee, *run.objective, 1, next_part);
      if (i == steps) break;
      update(run.trainee, gradients, run.settings.step, 0.01, 1);
    }
    std::map<std::string, at::Tensor> all;
    for (const auto& p : run.trainee.optimizer->parameters()) all[p.name] = p.value.grad().clone();
    return all;
  }

  test::Scratch scratch;
};

}  // namespace

TEST_F(MaskedSteps, MuchNoiseTeachesTheFirstRanksAlone) {
  for (const auto& [share, ranks] : {std::pair{0.9, 1}, {0.45, 2}, {0.02, 3}}) {
    SkeletonRun run(settings(share));
    for (const auto& [name, gradient] : gradients_after(run, 2)) {
      const auto dim = name.find("lora_A") != name.npos ? 0 : 1;
      for (int64_t rank = 0; rank < kRank; ++rank)
        EXPECT_EQ(gradient.select(dim, rank).abs().max().item<double>() > 0, rank < ranks) << name << " " << share << " " << rank;
    }
  }
}

TEST_F(MaskedSteps, AreEqualWhenBlocksAreComputedAgainAndInParts) {
  auto of = [&](bool recomputes, int64_t batch_size) {
    auto s = settings(0.1);
    s.objective.timesteps.max_t = 1;  // samples of one batch have different ranks
    s.course.global_batch_size = 4;
    s.course.batch_size = batch_size;
    s.step.memory.recompute_every = recomputes ? 1 : 0;
    SkeletonRun run(std::move(s));
    return gradients_after(run, 2);
  };
  const auto expected = of(false, 4), recomputed = of(true, 4), in_parts = of(false, 1);
  for (const auto& [name, gradient] : expected) {
    EXPECT_TRUE(at::equal(gradient, recomputed.at(name))) << name;
    EXPECT_LT(((gradient - in_parts.at(name)).norm() / gradient.norm()).item<double>(), 1e-5) << name;
  }
}

TEST_F(MaskedSteps, JudgeHeldOutSamplesWithAllRanks) {
  auto loss_of = [&](int64_t least) {
    auto s = settings(0.9, least);
    SkeletonRun run(std::move(s), {.num_held_out = 1});
    at::NoGradGuard no_grad;
    for (const auto& p : run.trainee.optimizer->parameters()) p.value.fill_(0.1);
    return losses_of(run.trainee, run.feed.batch(run.schedule.live, {true, 0})).item<double>();
  };
  EXPECT_EQ(loss_of(1), loss_of(0));
}

TEST_F(MaskedSteps, RefuseAdaptersWithoutRanksToLeaveOut) {
  auto refused = [&](const std::string& type, int64_t least) {
    auto s = settings(0.5, least);
    s.trained.adapter.type = type;
    return test::error_of([&] { SkeletonRun run(std::move(s)); }, Exit::config);
  };
  EXPECT_THAT(refused("loha", 1), testing::HasSubstr("is of type loha"));
  EXPECT_THAT(refused("dora", 1), testing::HasSubstr("is of type dora"));
  EXPECT_THAT(refused("lora", kRank), testing::HasSubstr("leaves out none of the adapter's 4 ranks"));
}
