// What frozen layers make of the draws of batches before training. Here a text encoder, of captions that are shuffled at every visit.
#include "train/course/ahead.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <csignal>
#include <limits>

#include "base/error.h"
#include "base/interrupt.h"
#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"

using namespace burnish;
using namespace burnish::train;

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

class ComputeAhead : public testing::Test {
 protected:
  static Settings settings(const test::Scratch& scratch) {
    auto settings = test::SkeletonRun::settings_in(scratch.path());
    settings.course.max_steps = 12;
    return settings;
  }
  Ahead compute(data::Cache& cache, double limit = kNoLimit) {
    return compute_ahead(*run.subject, run.schedule, run.feed, batches(), cache, at::kCPU, limit);
  }
  std::vector<BatchId> batches() const {
    std::vector<BatchId> all;
    for (int64_t i = 0; i < run.course.num_batches(); ++i) all.push_back({false, i});
    return all;
  }
  /// How many captions all visits have between them.
  int64_t num_captions() const {
    std::set<std::string> captions;
    for (const auto& id : batches()) captions.insert(run.course.batch(id).picks.at(0).caption.value());
    return std::ssize(captions);
  }
  double bytes_of_one() {
    data::Cache cache("");
    return compute(cache).num_bytes / static_cast<double>(num_captions());
  }

  test::Scratch scratch;
  test::SkeletonRun run{settings(scratch), {.captions_vary = true}};
};

}  // namespace

TEST_F(ComputeAhead, GivesAStepTheBitsThatItWouldCompute) {
  data::Cache cache("");
  auto ahead = compute(cache);
  ASSERT_TRUE(ahead.done);
  auto live = nothing_ahead(run.schedule).live;
  EXPECT_EQ(pipeline::models_of(run.schedule.live.units), std::vector<std::string>{"dit"});
  for (const auto& name : pipeline::models_of(live.units)) run.subject.model->components().load(name);
  at::NoGradGuard no_grad;
  auto loss = [](const pipeline::Stage& stage, Batch batch) {
    return std::get<at::Tensor>(pipeline::run(stage, std::move(batch.samples), batch.draws).at("loss"));
  };
  for (const auto& id : batches()) {
    EXPECT_TRUE(
        at::equal(loss(run.schedule.live, run.feed.batch(run.schedule.live, id, &ahead.results)), loss(live, run.feed.batch(live, id))))
        << id.number;
  }
}

TEST_F(ComputeAhead, RunsOnceForWhatReadsTheSame) {
  data::Cache cache("");
  auto ahead = compute(cache);
  ASSERT_EQ(num_captions(), 2) << "of twelve visits";
  EXPECT_EQ(run.runs["encode_text"], 2);
  EXPECT_EQ(ahead.results.keys.size(), batches().size());
  EXPECT_EQ(ahead.results.section->keys().size(), 2u);
  for (const auto& part : {"text_encoder.body", "text_encoder.projector"})
    EXPECT_FALSE(run.subject.model->components().is_loaded(part)) << "in memory for as long as it runs";
}

TEST_F(ComputeAhead, FindsWhatIsInTheCache) {
  {
    data::Cache cache(scratch / "cache");
    compute(cache);
  }
  run.runs.clear();
  data::Cache cache(scratch / "cache");
  auto again = compute(cache);
  EXPECT_TRUE(again.done);
  EXPECT_TRUE(run.runs.empty());
  EXPECT_EQ(again.num_bytes, bytes_of_one() * 2);
}

TEST_F(ComputeAhead, StopsWhereItIsKnownThatAllOfItIsTooMuch) {
  auto all = 2 * bytes_of_one();
  run.runs.clear();
  data::Cache cache(scratch / "cache");
  auto stopped = compute(cache, all);
  EXPECT_FALSE(stopped.done);
  EXPECT_EQ(stopped.num_bytes, all);
  EXPECT_EQ(run.runs["encode_text"], 1);
  EXPECT_TRUE(compute(cache, all + 1).done);
  run.runs.clear();
  EXPECT_FALSE(compute(cache, all).done) << "by what is there";
  EXPECT_TRUE(run.runs.empty());
}

TEST_F(ComputeAhead, MayTakeAsMuchAsTheWeightsThatItFrees) {
  const auto& components = run.subject.model->components();
  auto weights = static_cast<double>(components.num_bytes("text_encoder"));
  auto limit = [&](AheadChoice choice, double cache_bytes) {
    run.settings.schedule.ahead = choice;
    run.settings.data.cache_bytes = cache_bytes;
    return ahead_limit(run.settings.schedule, run.settings.data.cache_bytes, *run.subject, run.schedule, 400);
  };
  EXPECT_GT(weights, 1000);
  EXPECT_EQ(limit(AheadChoice::if_smaller, 0), weights);
  EXPECT_EQ(limit(AheadChoice::on, 0), kNoLimit);
  EXPECT_EQ(limit(AheadChoice::with_first_blocks, 0), kNoLimit);
  EXPECT_EQ(limit(AheadChoice::on, 1000), 600) << "beside what is kept of the samples";
  EXPECT_EQ(limit(AheadChoice::if_smaller, 1000), 600);
  EXPECT_EQ(limit(AheadChoice::if_smaller, 1e9), weights);
}

TEST_F(ComputeAhead, LeavesNothingOutOfTheStepsThatDoWithout) {
  auto without = nothing_ahead(run.schedule);
  EXPECT_TRUE(without.ahead.units.empty());
  EXPECT_EQ(pipeline::models_of(without.live.units), (std::vector<std::string>{"text_encoder.body", "text_encoder.projector", "dit"}));
  EXPECT_EQ(without.once.kept, run.schedule.once.kept);
}

/// In a process of its own, which stays interrupted.
TEST_F(ComputeAhead, KeepsWhatItHasWhenItIsInterrupted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto interrupted_run = [&] {
    watch_for_interrupt("");
    auto& unit = run.schedule.ahead.units.front();
    unit.run = [inner = unit.run](pipeline::Scope& scope) {
      inner(scope);
      std::raise(SIGINT);
    };
    for (auto* units : {&run.schedule.ahead.each, &run.schedule.ahead.batch}) {
      for (auto& same : *units) same.run = same.name == unit.name ? unit.run : same.run;
    }
    data::Cache cache(scratch / "cache");
    auto error = test::error_of([&] { compute(cache); }, Exit::interrupted);
    data::Cache reopened(scratch / "cache");
    auto there = compute_ahead(*run.subject, run.schedule, run.feed, {}, reopened, at::kCPU, kNoLimit).results.section->keys().size();
    std::cerr << error << "; " << there << " kept\n";
    std::filesystem::remove_all(scratch.path());
    std::exit(0);
  };
  EXPECT_EXIT(interrupted_run(), testing::ExitedWithCode(0), "interrupted while computing text_embedding ahead.*; 1 kept");
}
