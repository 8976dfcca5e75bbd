// Which options a fit takes, of a run whose memory is made up.
#include "train/plan/fit.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "base/input_error.h"
#include "tests/scratch.h"
#include "tests/train/options/small_options.h"
#include "train/plan/levers.h"

using namespace burnish;
using namespace burnish::train;

namespace {

/// An encoder of 10 GiB that runs before a step of 20, which FP8 halves, and recomputation makes 4 smaller.
MemoryPlan made_up(const Settings& settings) {
  auto stored = split_list(settings.model.storage.fp8_models);
  auto stage = [](const char* name, int64_t gib) {
    StageMemory stage;
    stage.name = name;
    stage.profile.peak[memory::Kind::weights] = gib << 30;
    return stage;
  };
  MemoryPlan plan;
  plan.device = "cuda:0";
  plan.movable.storable = {"dit"};
  plan.movable.encoders = {"text_encoder_2"};
  plan.stages = {stage("encode_prompt_t5", contains(stored, "text_encoder_2") ? 5 : 10),
                 stage(kStepStage, (contains(stored, "dit") ? 10 : 20) - (settings.step.memory.recompute_every > 0 ? 4 : 0)),
                 stage("save", 1)};
  return plan;
}

Settings settings_of(const std::string& flags, const std::vector<std::string>& given = {}) {
  auto options = test::options_of(test::small_run("flux", flags));
  options.given = given;
  return settle(options);
}

std::string flags_for(int64_t gib, const std::string& given = "") {
  auto settings = settings_of("--lora_rank 4 --cache_path cache --optimizer adamw8bit " + given);
  auto found = fit(settings, made_up(settings), {.device = gib << 30, .host = {}}, made_up);
  return found ? found->flags : "nothing";
}

}  // namespace

TEST(Fit, StoresWhatTheFullestStageHolds) {
  EXPECT_EQ(flags_for(20), "");
  EXPECT_EQ(flags_for(16), "--fp8_models dit");
  EXPECT_EQ(flags_for(9), "--fp8_models text_encoder_2,dit --use_gradient_checkpointing --gradient_checkpointing_interval 2");
  EXPECT_EQ(flags_for(9, "--use_gradient_checkpointing --fp8_models dit"), "--fp8_models dit,text_encoder_2");
  EXPECT_EQ(flags_for(4), "nothing");
}

TEST(Fit, TakesBlocksByNumberWhereNoBudgetCanBeKept) {
  auto planner = [](const Settings& settings) {
    if (settings.step.memory.activation_bytes > 0)
      config_error("train", "activation_budget is {}; raise it", settings.step.memory.activation_bytes);
    return made_up(settings);
  };
  const auto settings = settings_of("--lora_rank 4 --cache_path cache --optimizer adamw8bit");
  const Limits limits{.device = int64_t{9} << 30, .host = {}};
  auto found = fit(settings, planner(settings), limits, planner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->flags, "--fp8_models text_encoder_2,dit --use_gradient_checkpointing --gradient_checkpointing_interval 2");
  EXPECT_THAT(test::error_of([&] { check_fits(settings, planner(settings), limits, planner); }, Exit::no_fit),
              testing::HasSubstr("it fits with --fp8_models text_encoder_2,dit --use_gradient_checkpointing"));
}

TEST(Fit, TakesAnotherOptimizerUnlessTheCommandLineNamesOne) {
  auto planner = [](const Settings& settings) {
    auto plan = made_up(settings);
    plan.stages[1].profile.peak[memory::Kind::optimizer] = (settings.step.optimizer.name == "adafactor" ? int64_t{0} : 30) << 30;
    return plan;
  };
  const auto settings = settings_of("--trainable_models dit --cache_path cache");
  const Limits limits{.device = int64_t{20} << 30, .host = {}};
  auto found = fit(settings, planner(settings), limits, planner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->flags, "--optimizer adafactor");
  const auto named = settings_of("--trainable_models dit --cache_path cache", {"optimizer"});
  EXPECT_FALSE(fit(named, planner(named), limits, planner));
}

TEST(Fit, KeepsBatchesWholeWhereUpdatesInsideBackwardSaveMore) {
  auto planner = [](const Settings& settings) {
    auto plan = made_up(settings);
    plan.stages[1].profile.peak[memory::Kind::gradients] = (settings.step.memory.updates_in_backward ? int64_t{0} : 30) << 30;
    return plan;
  };
  const auto settings = settings_of("--trainable_models dit --cache_path cache --batch_size 4", {"optimizer"});
  auto found = fit(settings, planner(settings), {.device = int64_t{20} << 30, .host = {}}, planner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->flags, "--fused_backward_pass");
}

TEST(Fit, HoldsWhatIsOnItsWayInFp8) {
  auto planner = [](const Settings& settings) {  // of 4 GiB that stay and 16 of blocks, which FP8 halves
    auto plan = made_up(settings);
    plan.movable.num_blocks = 4;
    const int64_t each = contains(split_list(settings.model.storage.fp8_models), "dit") ? 2 : 4;
    plan.stages[1].profile.peak[memory::Kind::weights] = (4 + each * (4 - settings.step.memory.paged_blocks)) << 30;
    return plan;
  };
  auto options = test::options_of(test::small_run("flux", "--lora_rank 4 --cache_path cache --fp8_models text_encoder_2"));
  options.model.is_plan = true;
  options.model.device = "cuda";
  const auto settings = settle(options);
  auto flags_for = [&](int64_t gib) {
    auto found = fit(settings, planner(settings), {.device = gib << 30, .host = {}}, planner);
    return found ? found->flags : "nothing";
  };
  EXPECT_EQ(flags_for(13), "--fp8_models text_encoder_2,dit");
  EXPECT_EQ(flags_for(8), "--fp8_models text_encoder_2,dit --blocks_to_swap 2");
  EXPECT_EQ(flags_for(6), "--fp8_models text_encoder_2,dit --blocks_to_swap 4") << "the same in bf16, which is twice as long on its way";
}

TEST(Fit, SaysWhatFitsWhereLessTrains) {
  auto planner = [](const Settings& settings) {
    auto plan = made_up(settings);
    bool is_early = settings.trained.targets == "to_q,to_k";
    plan.stages[1].profile.peak[memory::Kind::gradients] = (is_early ? int64_t{0} : 30) << 30;
    if (!is_early) plan.movable.in_the_way = "dit.modulation", plan.movable.other_targets = "to_q,to_k";
    return plan;
  };
  const auto settings = settings_of("--lora_rank 4 --cache_path cache --optimizer adamw8bit");
  const auto plan = planner(settings);
  const Limits limits{.device = int64_t{16} << 30, .host = {}};
  EXPECT_FALSE(fit(settings, plan, limits, planner));
  const auto less = fit_training_less(settings, plan, limits, planner);
  ASSERT_TRUE(less);
  EXPECT_EQ(less->flags, "--lora_target_modules to_q,to_k --fp8_models dit");
  EXPECT_FALSE(fit_training_less(settings, plan, {.device = int64_t{4} << 30, .host = {}}, planner));
  const std::string said =
      "as long as layers of dit.modulation train; where none does, it is computed ahead of training, and the run fits in 10";
  EXPECT_THAT(to_text(Advice{.plan = plan, .limits = limits, .is_fit_sought = true, .training_less = less}), testing::HasSubstr(said));
  EXPECT_THAT(test::error_of([&] { check_fits(settings, plan, limits, planner); }, Exit::no_fit), testing::HasSubstr(said));
}

namespace {

/// What levers change of a run.
std::string text_of(const Settings& s) {
  const auto& m = s.step.memory;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}", s.data.cache_folder, s.data.pictures.checks_folder,
                     s.model.options.get<int64_t>("vae_tile_size"), s.model.storage.fp8_models, s.step.optimizer.name, s.course.batch_size,
                     s.course.batches_per_step, m.updates_in_backward, m.recompute_every, m.checkpoints_in_host, m.optimizer_in_host,
                     m.paged_blocks, m.blocks_on_disk) +
         fmt::format(" {} {}", m.activation_bytes, m.feed_forward_tokens);
}

}  // namespace

/// Whoever pastes what a lever says behind the command has the run that was planned.
TEST(Levers, SayTheOptionsOfTheSettingsThatTheyMake) {
  MemoryPlan plan;
  plan.movable = {.storable = {"dit"}, .encoders = {"text_encoder_2"}, .num_blocks = 4, .from_disk = true};
  auto settle_on_gpu = [](const std::string& flags) {
    auto options = test::options_of(test::small_run("flux", flags + " --device cpu"));
    options.model.is_plan = true;
    options.model.device = "cuda";
    return settle(options);
  };
  std::set<std::string> pulled;
  for (const std::string run :
       {"--lora_rank 4", "--trainable_models dit --batch_size 4",
        "--lora_rank 4 --use_gradient_checkpointing --gradient_checkpointing_interval 2",
        "--lora_rank 4 --enable_model_cpu_offload --fp8_models text_encoder_2", "--lora_rank 4 --activation_budget 1MiB",
        "--trainable_models dit --optimizer_args betas=0.9,0.99 --zero_stage 2", "--lora_rank 4 --precompute none"}) {
    const auto settings = settle_on_gpu(run);
    for (const auto& lever : levers()) {
      if (!lever.can(settings, plan)) continue;
      const auto changed = pull({&lever}, settings, plan);
      const auto flags = to_flags(changed.says());
      pulled.insert(lever.rows.front().option);
      EXPECT_EQ(text_of(changed.settings), text_of(settle_on_gpu(run + " " + flags))) << run << " and " << flags;
      EXPECT_NE(text_of(changed.settings), text_of(settings)) << flags;
      EXPECT_EQ(changed.settings.given.cache.path, settings.given.cache.path) << "what was given stays";
      if (auto within = with_budget(changed, 3)) {
        EXPECT_EQ(text_of(within->settings), text_of(settle_on_gpu(run + " " + to_flags(within->says()))));
      }
    }
  }
  TrainOptions options;
  config::Fields rows;
  fields(rows, options);
  for (const auto& lever : levers()) {
    EXPECT_TRUE(pulled.contains(lever.rows.front().option)) << lever.rows.front().option;
    for (const auto& row : lever.rows) EXPECT_TRUE(contains(rows.names(), row.option)) << row.option;
  }
}

TEST(Fit, SaysThatNothingFits) {
  const auto settings = settings_of("--lora_rank 4");
  Advice advice{.plan = made_up(settings), .limits = {.device = int64_t{4} << 30, .host = {}}};
  EXPECT_THAT(to_text(advice), testing::Not(testing::HasSubstr("train smaller pictures")));
  advice.is_fit_sought = true;
  EXPECT_THAT(to_text(advice),
              testing::HasSubstr("the run does not fit\nno option that takes less memory makes it fit: train smaller pictures"));
}

/// Blocks that wait in the host's memory leave the device's, where both are one memory too, and then nothing is won.
TEST(Fit, CountsBothTogetherWhereTheyAreOneMemory) {
  const auto planner = [](const Settings& settings) {
    auto plan = made_up(settings);
    plan.movable.num_blocks = 4;
    plan.stages[1].profile.peak[memory::Kind::weights] -= settings.step.memory.paged_blocks << 30;
    plan.host = {{"this program", int64_t{3} << 30}, {"what waits for the device", settings.step.memory.paged_blocks << 30}};
    return plan;
  };
  auto options = test::options_of(
      test::small_run("flux", "--lora_rank 4 --cache_path cache --optimizer adamw8bit --device_memory 22GiB --unified_memory"));
  options.model.is_plan = true;
  options.model.device = "cuda";
  const auto settings = settle(options);
  const auto limits = limits_of(settings);
  EXPECT_TRUE(limits.are_one);
  EXPECT_EQ(limits.host, limits.device);
  const auto plan = planner(settings);
  EXPECT_TRUE(fits(plan, {.device = limits.device, .host = limits.host})) << "20 GiB and 3, each within 22";
  EXPECT_FALSE(fits(plan, limits)) << "23 together";
  const auto waits = testing::AnyOf(testing::HasSubstr("blocks_to_swap"), testing::HasSubstr("enable_model_cpu_offload"));
  for (const auto& change : changes(settings, plan, planner)) EXPECT_THAT(change.flags, testing::Not(waits));
  const auto found = fit(settings, plan, limits, planner);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->flags, testing::Not(waits));
  EXPECT_LE(found->num_bytes + found->host_bytes, *limits.device);
  EXPECT_THAT(test::error_of([&] { check_fits(settings, plan, limits, planner); }, Exit::no_fit),
              testing::HasSubstr("takes 20.00 GiB of cuda:0 at its peak () and 3.00 GiB of the host, which have one memory, and there is "
                                 "22.00 GiB; it fits with"));
  EXPECT_THAT(to_text(Advice{.plan = plan, .limits = limits}),
              testing::HasSubstr("there is 22.00 GiB of cuda:0 and the host together: the run does not fit"));
}

TEST(Fit, IsForetoldByFewPlans) {
  int num_plans = 0;
  const auto planner = [&](const Settings& settings) {
    ++num_plans;
    return made_up(settings);
  };
  const auto settings = settings_of("--lora_rank 4 --cache_path cache --optimizer adamw8bit");
  std::set<HowItFits> said;
  for (int64_t gib = 1; gib <= 21; ++gib) {
    const Limits limits{.device = gib << 30, .host = {}};
    num_plans = 0;
    const auto how = how_it_fits(settings, made_up(settings), limits, planner);
    EXPECT_LE(num_plans, 1);
    const auto found = fit(settings, made_up(settings), limits, planner);
    EXPECT_EQ(how != HowItFits::not_at_all, found.has_value()) << gib;
    EXPECT_EQ(how == HowItFits::as_it_is, found && found->flags.empty()) << gib;
    said.insert(how);
  }
  EXPECT_EQ(said.size(), 3u);
}

TEST(Fit, IsForetoldWhereBlocksHaveNoRoomToWait) {
  const auto planner = [](const Settings& settings) {  // a block of 1 GiB takes as much where it waits
    auto plan = made_up(settings);
    plan.movable.num_blocks = 4;
    plan.stages[1].profile.peak[memory::Kind::weights] -= settings.step.memory.paged_blocks << 30;
    plan.host = {{"what waits for the device", settings.step.memory.paged_blocks << 30}};
    return plan;
  };
  auto options = test::options_of(test::small_run("flux", "--lora_rank 4 --cache_path cache --optimizer adamw8bit"));
  options.model.is_plan = true;
  options.model.device = "cuda";
  const auto settings = settle(options);
  std::set<HowItFits> said;
  for (int64_t device = 1; device <= 21; ++device) {
    for (int64_t host = 0; host <= 4; ++host) {
      const Limits limits{.device = device << 30, .host = host << 30};
      const auto how = how_it_fits(settings, planner(settings), limits, planner);
      const auto found = fit(settings, planner(settings), limits, planner);
      EXPECT_TRUE(how == HowItFits::not_at_all || found) << device << " GiB and " << host;
      EXPECT_TRUE(host > 0 || how != HowItFits::not_at_all || !found) << device << " GiB and nothing of the host";
      said.insert(how);
    }
  }
  EXPECT_EQ(said.size(), 3u);
}
