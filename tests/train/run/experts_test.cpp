// A model of two experts: which of them a batch is for, at what times, and what of them a step changes.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"
#include "train/step/step.h"

using namespace burnish;
using namespace burnish::train;
using test::SkeletonRun;

namespace {

constexpr double kBoundary = 0.5;  // the skeleton's

class Experts : public testing::Test {
 protected:
  Experts() { test::save_skeleton(scratch / "model.safetensors"); }
  Settings settings(const std::vector<std::string>& adapted, int64_t num_steps) const {
    auto s = SkeletonRun::settings_in(scratch.path());
    s.trained.adapted = adapted;
    s.course.max_steps = num_steps;
    s.course.batch_size = 2;
    return s;
  }
  static pipeline::Values draws(const Course& course, int64_t number, int64_t part = 0) {
    return course.draws(course.batch({false, number, part}), {"noise", "sigma"});
  }
  static std::vector<float> times(const pipeline::Values& draws) {
    const auto& sigma = std::get<at::Tensor>(draws.at("sigma"));
    return {sigma.const_data_ptr<float>(), sigma.const_data_ptr<float>() + sigma.numel()};
  }
  static int64_t expert(const pipeline::Values& draws) { return std::get<at::Tensor>(draws.at(models::kExpert)).item<int64_t>(); }

  test::Scratch scratch;
};

}  // namespace

TEST_F(Experts, EachGetsTheBatchesThatItsTimesAreOfTheDistribution) {
  constexpr int64_t kBatches = 2000;
  auto s = settings({}, kBatches);
  s.objective.timesteps.mode = "logit_normal";
  s.objective.timesteps.logit_mean = -1;
  SkeletonRun run(std::move(s));
  EXPECT_EQ(run.subject.chosen.experts.size(), 2u);
  int64_t num_high = 0, num_drawn_high = 0;
  const auto& process = run.subject.model->process();
  for (int64_t i = 0; i < kBatches; ++i) {
    auto drawn = draws(run.course, i);
    const bool is_high = expert(drawn) == 0;
    num_high += is_high ? 1 : 0;
    for (auto time : times(drawn)) EXPECT_EQ(time >= kBoundary, is_high) << "batch " << i;
    auto any = process.draw_time(run.settings.objective.timesteps, static_cast<uint64_t>(i), 32);
    num_drawn_high += any >= kBoundary ? 1 : 0;
  }
  const auto share = static_cast<double>(num_drawn_high) / kBatches;
  EXPECT_GT(share, 0.7);
  EXPECT_NEAR(static_cast<double>(num_high) / kBatches, share, 5 * std::sqrt(2 * share * (1 - share) / kBatches));
}

TEST_F(Experts, AllProcessesTakeTheSameOne) {
  auto of_process = [&](int64_t number) {
    auto s = settings({}, 40);
    s.course.portion = {2, number};
    s.course.batch_size = 1;
    return std::make_unique<SkeletonRun>(std::move(s));
  };
  auto first = of_process(0), second = of_process(1);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 40; ++i) {
    seen.insert(expert(draws(first->course, i)));
    EXPECT_EQ(expert(draws(first->course, i)), expert(draws(second->course, i))) << i;
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(Experts, OneThatTrainsAloneHasAllTimesInItsStretch) {
  SkeletonRun run(settings({"dit_2"}, 50));
  EXPECT_EQ(pipeline::components_of(run.schedule.live.units), std::vector<std::string>{"dit_2"});
  EXPECT_FALSE(run.subject.model->components().is_loaded("dit"));
  for (int64_t i = 0; i < 50; ++i) {
    auto drawn = draws(run.course, i);
    EXPECT_FALSE(drawn.contains(models::kExpert));
    for (auto time : times(drawn)) EXPECT_LT(time, kBoundary);
  }
  auto named = settings({}, 4);
  named.trained.experts = {"low_noise"};
  EXPECT_EQ(SkeletonRun(std::move(named)).subject.chosen.experts.front().component, "dit_2");
}

TEST_F(Experts, HeldOutSamplesAreJudgedWhereTheTrainedOnesPredict) {
  auto shares = [&](const std::vector<std::string>& experts) {
    auto of_experts = settings({}, 4);
    of_experts.trained.experts = experts;
    SkeletonRun run(std::move(of_experts), {.num_held_out = 1});
    std::vector<float> all;
    for (int64_t i = 0; i < run.course.num_held_out(); ++i) {
      auto drawn = run.course.draws(run.course.batch({true, i}), {"noise", "sigma"});
      all.push_back(times(drawn).at(0));
      if (drawn.contains(models::kExpert)) {
        EXPECT_EQ(expert(drawn), all.back() >= kBoundary ? 0 : 1);
      }
    }
    return all;
  };
  EXPECT_THAT(shares({}), testing::ElementsAre(0.1F, 0.25F, 0.4F, 0.55F, 0.7F, 0.85F));
  EXPECT_THAT(shares({"high_noise"}), testing::ElementsAre(0.55F, 0.625F, 0.7F, 0.775F, 0.85F, 0.925F));
}

TEST_F(Experts, AStepLeavesTheOtherAsItWas) {
  SkeletonRun run(settings({}, 12));
  auto& trainee = run.trainee;
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 12; ++i) {
    const auto number = expert(draws(run.course, i));
    const auto other = number == 0 ? "dit_2." : "dit.";
    seen.insert(number);
    const auto before = run.values();
    auto next = [&] { return run.feed.batch(run.schedule.live, {false, i}); };
    auto gradients = compute_gradients(trainee, *run.objective, 1, next);
    update(trainee, gradients, run.settings.step, 0.01, 1);
    const auto after = run.values();
    int64_t num_changed = 0;
    for (size_t k = 0; k < before.size(); ++k) {
      const bool is_same = at::equal(before[k], after[k]);
      if (trainee.optimizer->parameters()[k].name.starts_with(other)) EXPECT_TRUE(is_same) << trainee.optimizer->parameters()[k].name;
      else num_changed += is_same ? 0 : 1;
    }
    EXPECT_GT(num_changed, 0);
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(Experts, NamesThatMeanNothingAreRefused) {
  auto s = settings({}, 4);
  s.trained.experts = {"medium_noise"};
  EXPECT_THAT(test::error_of([&] { SkeletonRun run(std::move(s)); }, Exit::config),
              testing::HasSubstr("experts names 'medium_noise', and this model has high_noise, low_noise"));
}
