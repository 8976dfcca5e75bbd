// What a batch brings to a stage, and pictures that are decoded before they are asked for.
#include "train/course/feed.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "data/image.h"
#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"
#include "train/objectives/objective_kind.h"

using namespace burnish;
using namespace burnish::train;
using testing::HasSubstr;

namespace {

at::Tensor tensor_of(const pipeline::Values& values, const std::string& name) { return std::get<at::Tensor>(values.at(name)); }

std::vector<std::string> names_of(const pipeline::Values& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

int64_t num_threads() {
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// Six pictures, each of one colour, in batches of two; a stage that reads them and their captions.
class PicturesTest : public testing::Test {
 protected:
  Samples make_samples() const {
    std::string rows = "image,prompt\n";
    for (int i = 0; i < 6; ++i) {
      data::write_png(picture(i), at::full({8, 8, 3}, 40 * i + 5, at::kByte));
      rows += std::to_string(i) + ".png,caption " + std::to_string(i) + "\n";
    }
    data::DatasetOptions options{.subsets = {{scratch.path(), scratch.write("metadata.csv", rows).string()}}, .num_workers = 2};
    options.subsets[0].size.division = 4;
    Samples samples;
    samples.inputs = std::make_shared<InputTable>(input_table());
    samples.pictures = std::make_unique<data::Dataset>(options);
    for (auto row : samples.pictures->rows()) {
      samples.list.push_back({.number = row, .extent = samples.pictures->extent(row), .row = samples.pictures->row(row)});
      samples.list.back().latent_shape = {4, 2, 2};
    }
    return samples;
  }
  Kept nothing_kept() const {
    Kept kept;
    for (const auto& sample : samples.list) kept.by_row[sample.number] = {{}};
    return kept;
  }
  static pipeline::Stage reads_pictures() {
    pipeline::Stage stage;
    stage.of_sample = {"image", "prompt"};
    return stage;
  }

  std::filesystem::path picture(int64_t row) const { return scratch / (std::to_string(row) + ".png"); }
  /// Each picture's row by its colour, and its caption.
  std::vector<std::string> seen(const Batch& batch) const {
    std::vector<std::string> rows;
    for (const auto& sample : batch.samples) {
      auto colour = tensor_of(sample, "image").to(at::kDouble).mean().item<double>();
      rows.push_back(std::to_string(std::lround((colour - 5) / 40)) + " " + std::get<std::string>(sample.at("prompt")));
    }
    return rows;
  }
  std::vector<std::string> expected(const BatchId& id) const {
    std::vector<std::string> rows;
    for (const auto& pick : course.batch(id).picks) rows.push_back(std::to_string(pick.row) + " caption " + std::to_string(pick.row));
    return rows;
  }
  /// Prefetches, until its threads have made all there is.
  void prefetch_whole(const BatchId& id) const {
    auto before = num_threads();
    feed.prefetch(stage, id);
    for (int i = 0; i < 20000 && num_threads() > before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  test::Scratch scratch;
  Samples samples = make_samples();
  Kept kept = nothing_kept();
  pipeline::Stage stage = reads_pictures();
  test::SkeletonRun any{test::SkeletonRun::settings_in(scratch.path())};  // for an objective
  Course course{{.batch_size = 2, .num_epochs = 2, .seed = 3}, any.subject.model->process(), *any.objective, samples, nullptr};
  Feed feed{course, {samples, kept}, std::nullopt};
};

}  // namespace

TEST(FeedTest, BringsWhatTheStageReadsOfTheSamplesThatAreVisited) {
  test::Scratch scratch;
  auto settings = test::SkeletonRun::settings_in(scratch.path());
  settings.course.batch_size = 3;
  test::SkeletonRun run(settings, {.num_held_out = 2});
  for (const auto& [id, kept] : {std::pair(BatchId{false, 1}, &run.samples.listed.kept), {BatchId{true, 7}, &run.samples.held_out.kept}}) {
    auto batch = run.feed.batch(run.schedule.live, id);
    auto picks = run.course.batch(id).picks;
    ASSERT_EQ(batch.samples.size(), picks.size());
    for (size_t i = 0; i < picks.size(); ++i) {
      EXPECT_THAT(names_of(batch.samples[i]), testing::ElementsAre("latents", "text_embedding")) << "no prompt, no picture";
      EXPECT_TRUE(at::equal(tensor_of(batch.samples[i], "latents"), tensor_of(kept->values(picks[i], {"latents"}), "latents")));
    }
    auto draws = run.course.draws(run.course.batch(id), {"noise", "sigma"});
    EXPECT_EQ(names_of(batch.draws), names_of(draws));
    for (const auto& [name, value] : draws) EXPECT_TRUE(at::equal(tensor_of(batch.draws, name), std::get<at::Tensor>(value))) << name;
  }
  EXPECT_EQ(run.feed.batch(run.schedule.live, {false, 0}).part.count, 2) << "four samples in batches of at most three";
}

TEST(FeedTest, BringsWhatWasComputedAheadOfABatchByItsName) {
  test::Scratch scratch;
  test::SkeletonRun run(test::SkeletonRun::settings_in(scratch.path()));
  AheadResults ahead{&run.samples.cache.section("ahead", nlohmann::json::object()), {{{false, 2}, "key"}}};
  ahead.section->add("key", {{"modulation", at::full({1, 3}, 7.0)}});
  EXPECT_TRUE(at::equal(tensor_of(run.feed.batch(run.schedule.live, {false, 2}, &ahead).draws, "modulation"), at::full({1, 3}, 7.0)));
  EXPECT_FALSE(run.feed.batch(run.schedule.live, {false, 2}).draws.contains("modulation"));
  EXPECT_THROW(run.feed.batch(run.schedule.live, {false, 1}, &ahead), std::logic_error);
}

TEST_F(PicturesTest, AreTheSameWhetherPrefetchedOrNot) {
  for (int64_t number : {0, 1, 5, 2}) {
    BatchId id{false, number};
    EXPECT_EQ(seen(feed.batch(stage, id)), expected(id));
    feed.prefetch(stage, id);
    EXPECT_EQ(seen(feed.batch(stage, id)), expected(id));
    feed.prefetch(stage, {false, 3});
    EXPECT_EQ(seen(feed.batch(stage, id)), expected(id)) << "another batch than the one that is under way";
  }
}

TEST_F(PicturesTest, AreDecodedBeforeTheyAreAskedFor) {
  prefetch_whole({false, 1});
  for (int row = 0; row < 6; ++row) std::filesystem::remove(picture(row));
  EXPECT_EQ(seen(feed.batch(stage, {false, 1})), expected({false, 1}));
  EXPECT_THAT(test::error_of([&] { feed.batch(stage, {false, 1}); }), HasSubstr(".png")) << "once";
}

TEST_F(PicturesTest, ThatCannotBeReadSayItWhereTheirBatchIsAskedFor) {
  auto bytes = test::content(picture(course.batch({false, 1}).picks[1].row));
  auto name = std::to_string(course.batch({false, 1}).picks[1].row) + ".png";
  scratch.write(name, bytes.substr(0, 40));
  prefetch_whole({false, 1});
  EXPECT_THAT(test::error_of([&] { feed.batch(stage, {false, 1}); }), HasSubstr(name));
  scratch.write(name, bytes);
  EXPECT_EQ(seen(feed.batch(stage, {false, 1})), expected({false, 1}));
}

/// As where a run is interrupted: what trains goes, and with it the stage, while threads still load the next batch.
TEST_F(PicturesTest, AreLoadedThoughTheStageIsGone) {
  std::promise<void> gone;
  auto is_gone = gone.get_future().share();
  std::atomic<int64_t> begun = 0;
  auto load = [&](const Samples&, const Pick&) -> pipeline::Value {
    ++begun;
    is_gone.wait();
    return at::zeros({1});
  };
  auto no_content = [](const Samples&, const Pick&, const data::RowHashes&) { return std::string("slow"); };
  samples.inputs = std::make_shared<InputTable>(Columns{}, std::vector<std::string>{},
                                                std::vector<Input>{{"slow", false, no_content, load}}, std::set<std::string>{});
  Course six{{.batch_size = 6, .num_epochs = 1, .seed = 3}, any.subject.model->process(), *any.objective, samples, nullptr};
  Feed of_six{six, {samples, kept}, std::nullopt};
  pipeline::Stage passing;
  passing.of_sample = {"slow"};
  of_six.prefetch(passing, {false, 0});
  auto come_to = [&](int64_t count) {
    for (int i = 0; i < 20000 && begun < count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return begun.load();
  };
  EXPECT_EQ(come_to(2), 2) << "one on each thread";
  passing.of_sample = {"what stands where a stage was"};
  gone.set_value();
  EXPECT_EQ(come_to(4), 4) << "two a thread are loaded ahead";
  passing.of_sample = {"slow"};
  EXPECT_EQ(of_six.batch(passing, {false, 0}).samples.size(), 6u);
}
