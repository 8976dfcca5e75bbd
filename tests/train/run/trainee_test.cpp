// What is in memory once training can start, and what a saved state puts back.
#include "train/step/trainee.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "checkpoint/state.h"
#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"

using namespace burnish;
using namespace burnish::train;
using testing::HasSubstr;

namespace {

class LoadTrainee : public testing::Test {
 protected:
  std::vector<std::string> names(const Trainee& trainee) const {
    std::vector<std::string> list;
    for (const auto& p : trainee.optimizer->parameters()) list.push_back(p.name);
    return list;
  }
  void save(const test::SkeletonRun& run) const {
    checkpoint::save_state(run.settings.output.state(),
                           checkpoint::state_of({*run.trainee.optimizer, run.trainee.ema.get()}, run.trainee.progress));
  }
  /// A run that has taken two steps with a moving average.
  std::unique_ptr<test::SkeletonRun> two_steps() {
    settings.course.max_steps = 2;
    settings.step.ema_decay = 0.9;
    auto run = std::make_unique<test::SkeletonRun>(settings);
    run->loop({});
    return run;
  }

  test::Scratch scratch;
  Settings settings = test::SkeletonRun::settings_in(scratch.path());
};

}  // namespace

TEST_F(LoadTrainee, HoldsWhatEveryVisitRunsAndTrainsWhatWasChosen) {
  test::SkeletonRun lora(settings);
  const auto& components = lora.subject.model->components();
  EXPECT_TRUE(components.is_loaded("dit"));
  for (const char* frozen : {"vae", "text_encoder", "text_encoder.body", "text_encoder.projector"})
    EXPECT_FALSE(components.is_loaded(frozen)) << frozen;
  EXPECT_EQ(lora.trainee.optimizer->parameters().size(), 8u) << "A and B of two layers in two blocks";
  EXPECT_THAT(names(lora.trainee), testing::Each(testing::ContainsRegex("^dit\\.blocks\\.[01]\\.to_[qv]\\.")));
  EXPECT_TRUE(lora.trainee.attached->dropout());
  for (const auto& [path, weight] : lora.subject.model->components().module("dit").parameters())
    EXPECT_FALSE(weight->requires_grad()) << path << " is frozen beneath the adapters";

  settings.trained.adapted.clear();
  settings.trained.whole = {"text_encoder.projector"};
  test::SkeletonRun projector(settings);
  EXPECT_THAT(names(projector.trainee),
              testing::UnorderedElementsAre("text_encoder.projector.norm.weight", "text_encoder.projector.norm.bias",
                                            "text_encoder.projector.linear.weight", "text_encoder.projector.linear.bias"));
  EXPECT_TRUE(projector.subject.model->components().is_loaded("text_encoder.projector"));
  EXPECT_FALSE(projector.subject.model->components().is_loaded("text_encoder.body")) << "it runs once a caption";
  EXPECT_FALSE(projector.trainee.attached->dropout()) << "only adapters drop inputs";
}

TEST_F(LoadTrainee, BeginsAtTheBeginning) {
  test::SkeletonRun run(settings);
  EXPECT_EQ(run.trainee.progress.step, 0);
  EXPECT_EQ(run.trainee.progress.batch, 0);
  EXPECT_EQ(run.trainee.progress.fingerprint, "test");
  EXPECT_EQ(run.trainee.saved_step, -1);
  EXPECT_FALSE(run.trainee.progress.loss_scale.in_use());
  EXPECT_FALSE(run.trainee.ema || run.trainee.execution.host || run.trainee.ownership);
  settings.step.scales_loss = true;
  settings.step.ema_decay = 0.9;
  settings.step.memory.optimizer_in_host = true;
  test::SkeletonRun more(settings);
  EXPECT_TRUE(more.trainee.progress.loss_scale.in_use());
  EXPECT_TRUE(more.trainee.ema && more.trainee.execution.host);
}

TEST_F(LoadTrainee, HasBlocksKeepForBackwardWhatIsAskedFor) {
  auto runners = [&](const KeptForBackward& kept = {}) {
    test::SkeletonRun run(settings, kept);
    std::vector<std::pair<std::string, bool>> found;
    for (const auto& [name, block] : named_blocks(run.subject.model->components(), "dit"))
      found.emplace_back(name, block->runner != nullptr);
    return found;
  };
  auto are = [](bool first, bool second) {
    return testing::ElementsAre(std::pair("dit.blocks.0", first), std::pair("dit.blocks.1", second));
  };
  EXPECT_THAT(runners(), are(false, false));
  settings.step.memory.recompute_every = 1;
  EXPECT_THAT(runners(), are(true, true));
  settings.step.memory.recompute_every = 2;
  EXPECT_THAT(runners(), are(true, false));
  settings.step.memory.recompute_every = 0;
  EXPECT_THAT(runners({.again = {{"dit.blocks.1", {.whole = true}}}}), are(false, true));
}

TEST_F(LoadTrainee, TakesTheSameStepsWhateverSavesMemory) {
  auto trained = [&](const MemorySettings& memory, const KeptForBackward& kept = {}) {
    auto own = settings;
    own.step.memory = memory;
    test::SkeletonRun run(own, kept);
    run.loop({});
    return run.values();
  };
  auto plain = trained({});
  for (const auto& memory :
       {MemorySettings{.recompute_every = 1}, MemorySettings{.recompute_every = 2, .checkpoints_in_host = true},
        MemorySettings{.updates_in_backward = true}, MemorySettings{.optimizer_in_host = true}, MemorySettings{.paged_blocks = 2}})
    EXPECT_TRUE(test::all_equal(trained(memory), plain))
        << memory.recompute_every << memory.updates_in_backward << memory.optimizer_in_host << memory.paged_blocks;
  EXPECT_TRUE(test::all_equal(trained({}, {.values = true}), plain));
}

TEST_F(LoadTrainee, GoesOnFromASavedStateBitForBit) {
  auto saved = two_steps();
  save(*saved);
  settings.output.resume = true;
  test::SkeletonRun resumed(settings);
  EXPECT_EQ(resumed.trainee.progress.step, 2);
  EXPECT_EQ(resumed.trainee.progress.batch, 2);
  EXPECT_EQ(resumed.trainee.saved_step, 2);
  EXPECT_TRUE(test::all_equal(resumed.values(), saved->values()));
  auto expected = saved->trainee.optimizer->state(), found = resumed.trainee.optimizer->state();
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(expected[i].second, found[i].second)) << expected[i].first;
  for (size_t i = 0; i < resumed.values().size(); ++i)
    EXPECT_TRUE(at::equal(saved->trainee.ema->average(i), resumed.trainee.ema->average(i)));
}

TEST_F(LoadTrainee, RefusesAStateOfAnotherRun) {
  auto saved = two_steps();
  saved->trainee.progress.fingerprint = "another";
  save(*saved);
  settings.output.resume = true;
  auto error = test::error_of([&] { test::SkeletonRun resumed(settings); });
  EXPECT_THAT(error, testing::AllOf(HasSubstr("another"), HasSubstr("test")));
  std::filesystem::remove_all(settings.output.state());
  EXPECT_THAT(test::error_of([&] { test::SkeletonRun resumed(settings); }), HasSubstr((scratch / "run").string()));
}
