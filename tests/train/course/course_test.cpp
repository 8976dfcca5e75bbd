// Which samples and draws a batch has: a function of its name alone.
#include "train/course/course.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "diffusion/flow_process.h"
#include "tests/scratch.h"
#include "train/objectives/objective_kind.h"

using namespace burnish;
using namespace burnish::train;

namespace {

/// Draws the visits' rows, so that a test sees what was asked.
class Rows final : public Objective {
 public:
  pipeline::Units units() const override { return {}; }
  pipeline::Values draws(const DrawRequest& request) const override {
    std::vector<int64_t> rows;
    for (const auto& visit : request.visits) rows.push_back(visit.row);
    for (size_t i = 0; i < request.samples.size(); ++i) EXPECT_EQ(request.samples[i]->number, rows[i]);
    return {{"rows", at::tensor(rows)}};
  }
  int64_t num_held_out_draws() const override { return 3; }
  pipeline::Values held_out_draws(const DrawRequest& request, int64_t number) const override {
    return {{"rows", at::tensor({request.samples.at(0)->number, number})}};
  }
  void complete(pipeline::Values& draws) const override { draws["completed"] = at::ones({1}); }
};

const diffusion::FlowProcess kProcess{diffusion::FlowSamplerConfig{}};

Samples ten(int64_t num_variants = 1) {
  Samples samples;
  samples.inputs = std::make_shared<InputTable>(input_table());
  for (int64_t row = 0; row < 10; ++row) samples.list.push_back({.number = 2 * row, .extent = {1, 8, 8}, .latent_shape = {4, 2, 2}});
  samples.num_variants = num_variants;
  return samples;
}

std::vector<int64_t> rows_of(const Course& course, const BatchId& id) {
  auto rows = std::get<at::Tensor>(course.draws(course.batch(id), {}).at("rows"));
  return {rows.data_ptr<int64_t>(), rows.data_ptr<int64_t>() + rows.numel()};
}

}  // namespace

TEST(Course, EveryEpochVisitsEverySampleOnceAndPicksAgreeWithDraws) {
  Rows objective;
  auto samples = ten();
  Course course({.batch_size = 3, .num_epochs = 2, .seed = 7}, kProcess, objective, samples, nullptr);
  EXPECT_EQ(course.num_steps(), 8);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::multiset<int64_t> seen;
    for (int64_t i = 4 * epoch; i < 4 * epoch + 4; ++i) {
      std::vector<int64_t> picked;
      for (const auto& pick : course.batch({false, i}).picks) picked.push_back(pick.row);
      EXPECT_EQ(picked, rows_of(course, {false, i}));
      seen.insert(picked.begin(), picked.end());
    }
    EXPECT_EQ(seen, (std::multiset<int64_t>{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}));
  }
}

TEST(Course, ABatchIsTheSameWhateverWasAskedBefore) {
  Rows objective;
  auto samples = ten();
  Course forward({.batch_size = 2, .max_steps = 9, .seed = 3}, kProcess, objective, samples, nullptr);
  Course other({.batch_size = 2, .max_steps = 9, .seed = 3}, kProcess, objective, samples, nullptr);
  for (int64_t i = 8; i >= 0; --i) EXPECT_EQ(rows_of(forward, {false, 8 - i}), rows_of(other, {false, 8 - i})) << i;
  EXPECT_EQ(rows_of(forward, {false, 2}), rows_of(other, {false, 2}));
}

TEST(Course, HeldOutBatchesHaveNamesOfTheirOwn) {
  Rows objective;
  auto samples = ten(), held_out = ten();
  held_out.list.resize(2);
  Course course({.max_steps = 1}, kProcess, objective, samples, &held_out);
  EXPECT_EQ(course.num_held_out(), 6);
  EXPECT_EQ(rows_of(course, {true, 0}), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(rows_of(course, {true, 5}), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(course.batch({true, 4}).picks.at(0).row, 2);
  EXPECT_TRUE(course.draws(course.batch({true, 4}), {}).contains("completed"));
}

TEST(Course, VariantAndCaptionAreChosenByTheirOwnKeys) {
  Rows objective;
  auto less = ten(4), more = ten(4);
  auto course = [&](Samples& samples, double dropout) {
    samples.sets = {{.captions = {.dropout = dropout}}};
    return std::make_unique<Course>(CourseSettings{.max_steps = 1, .num_epochs = 1, .seed = 7}, kProcess, objective, samples, nullptr);
  };
  auto some = course(less, 0.1), most = course(more, 0.9);
  int num_empty = 0;
  std::map<int64_t, int> variants;
  for (int64_t i = 0; i < 4000; ++i) {
    auto a = some->batch({false, i}).picks.at(0), b = most->batch({false, i}).picks.at(0);
    EXPECT_EQ(a.variant, b.variant) << "whatever the dropout";
    EXPECT_TRUE(b.empty_caption || !a.empty_caption);
    num_empty += a.empty_caption;
    ++variants[a.variant];
  }
  EXPECT_NEAR(num_empty, 400, 80);
  EXPECT_EQ(variants.size(), 4u);
  for (const auto& [variant, count] : variants) EXPECT_NEAR(count, 1000, 120) << variant;
}

TEST(Course, ACaptionIsDrawnForEachVisitWhateverTheBatch) {
  Rows objective;
  auto samples = ten();
  samples.sets = {{}, {.captions = {.shuffle = true}}};
  for (auto& sample : samples.list) {
    sample.row.captions = {{"a, b, c, d, e"}};
    sample.row.subset = sample.number >= 10;
  }
  auto captions = [&](int64_t batch_size) {
    Course course({.batch_size = batch_size, .num_epochs = 6, .seed = 7}, kProcess, objective, samples, nullptr);
    std::map<int64_t, std::multiset<std::string>> found;
    for (int64_t i = 0; i < course.num_batches(); ++i) {
      for (const auto& pick : course.batch({false, i}).picks) found[pick.row].insert(pick.caption.value_or("as it is"));
    }
    return found;
  };
  auto one = captions(1);
  EXPECT_EQ(one, captions(3));
  EXPECT_EQ(one[0].count("as it is"), 6u);
  EXPECT_EQ(one[10].count("as it is"), 0u);
  EXPECT_GT(std::set(one[10].begin(), one[10].end()).size(), 3u);
  EXPECT_NE(one[10], one[12]);
}

TEST(Course, ADrawnCaptionHasTheTriggerWord) {
  Rows objective;
  auto samples = ten();
  samples.sets = {{.captions = {.shuffle = true, .tag_dropout = 0.5}, .trigger_word = "sks"}};
  for (auto& sample : samples.list) sample.row.captions = {{"a, b, [trigger] c"}};
  Course course({.batch_size = 5, .num_epochs = 3, .seed = 5}, kProcess, objective, samples, nullptr);
  int64_t num_before = 0;
  for (int64_t i = 0; i < course.num_steps(); ++i) {
    for (const auto& pick : course.batch({false, i}).picks) {
      EXPECT_THAT(pick.caption.value(), testing::HasSubstr("sks"));
      EXPECT_THAT(pick.caption.value(), testing::Not(testing::HasSubstr("[trigger]")));
      num_before += pick.caption->starts_with("sks ");
    }
  }
  EXPECT_GT(num_before, 0) << "where the tag that held it was left out";
}

TEST(Course, EveryBatchHasTheWeightsOfItsSamples) {
  Rows objective;
  auto samples = ten();
  samples.sets = {{}, {.of_class_set = true}};
  for (auto& sample : samples.list) {
    sample.row.subset = sample.number >= 10;
    sample.row.loss_weight = sample.number == 4 || sample.number == 14 ? 3 : 1;
  }
  Course course({.batch_size = 3, .num_epochs = 4, .seed = 7, .prior_loss_weight = 0.5}, kProcess, objective, samples, nullptr);
  std::map<int64_t, int> visits;
  for (int64_t i = 0; i < course.num_batches(); ++i) {
    auto rows = rows_of(course, {false, i});
    auto weight_B = std::get<at::Tensor>(course.draws(course.batch({false, i}), {}).at(kLossWeight));
    ASSERT_EQ(weight_B.numel(), std::ssize(rows));
    for (size_t j = 0; j < rows.size(); ++j) {
      ++visits[rows[j]];
      auto expected = (rows[j] >= 10 ? 0.5 : 1) * (rows[j] == 4 || rows[j] == 14 ? 3 : 1);
      EXPECT_EQ(weight_B[static_cast<int64_t>(j)].item<double>(), expected) << rows[j];
    }
  }
  EXPECT_EQ(visits.size(), 10u);
  for (const auto& [row, count] : visits) EXPECT_EQ(count, 4) << row;
}

TEST(Course, AWeightForAClassSetThatIsNotThereIsRefused) {
  Rows objective;
  auto samples = ten();
  EXPECT_THAT(
      test::error_of([&] { Course({.max_steps = 1, .prior_loss_weight = 0.5}, kProcess, objective, samples, nullptr); }, Exit::config),
      testing::HasSubstr("class_metadata_path"));
}

TEST(Course, RecordedDrawsDecideTheSampleToo) {
  test::Scratch scratch;
  io::NamedTensors tensors;
  for (int64_t i = 0; i < 2; ++i) {
    auto name = "step." + std::to_string(i) + ".";
    tensors.emplace_back(name + "noise", at::full({4, 2, 2}, static_cast<double>(i)));
    tensors.emplace_back(name + "sigma", at::full({1}, 0.25 * static_cast<double>(i + 1)));
    tensors.emplace_back(name + "sample", at::tensor({4 * (i + 1)}));
  }
  io::save_safetensors(scratch / "replay.safetensors", tensors);
  Rows objective;
  auto samples = ten();
  CourseSettings settings{.max_steps = 2, .replay = (scratch / "replay.safetensors").string()};
  Course course(settings, kProcess, objective, samples, nullptr);
  course.check();
  EXPECT_EQ(course.batch({false, 1}).picks.at(0).row, 8);
  auto draws = course.draws(course.batch({false, 1}), {"noise"});
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(draws.at("noise")), at::ones({1, 4, 2, 2})));
  EXPECT_FLOAT_EQ(std::get<at::Tensor>(draws.at("sigma")).item<float>(), 0.5F);
  settings.max_steps = 3;
  EXPECT_THAT(test::error_of([&] { Course(settings, kProcess, objective, samples, nullptr).check(); }), testing::HasSubstr("ends early"));
  samples.list[4].row.loss_weight = 0.125;
  EXPECT_FLOAT_EQ(std::get<at::Tensor>(course.draws(course.batch({false, 1}), {"noise"}).at(kLossWeight)).item<float>(), 0.125F);
  samples.list[4].latent_shape = {4, 2, 4};
  EXPECT_THAT(test::error_of([&] { course.check(); }), testing::HasSubstr("the latents of row 8"));
}

TEST(Course, ProcessesThatNeedEachOtherRunAsManyParts) {
  Rows objective;
  auto samples = ten();
  for (int64_t size : {1, 3, 4, 7}) {
    for (int64_t processes : {2, 3, 5}) {
      Course whole({.batch_size = size, .max_steps = 1, .seed = 7}, kProcess, objective, samples, nullptr);
      std::set<int64_t> counts;
      std::multiset<int64_t> visits;
      for (int64_t process = 0; process < processes; ++process) {
        Course course({.batch_size = 1, .global_batch_size = size, .max_steps = 1, .seed = 7, .portion = {processes, process, 1, 0, true}},
                      kProcess, objective, samples, nullptr);
        int64_t num_parts = 0;
        for (BatchId id; id.number == 0; id = next(id, course.batch(id).part), ++num_parts) {
          auto part = course.batch(id).part;
          if (part.share > 0) visits.insert(part.first);
        }
        counts.insert(num_parts);
      }
      EXPECT_EQ(counts.size(), 1u) << size << " visits, " << processes << " processes";
      EXPECT_EQ(std::ssize(visits), whole.batch({}).part.count) << "none is left out";
      EXPECT_EQ(std::set<int64_t>(visits.begin(), visits.end()).size(), visits.size()) << "or run twice";
    }
  }
}

TEST(Course, WhatIsGivenAtAShareOfVisitsIsDrawnForABatch) {
  Rows objective;
  auto samples = ten(), held_out = ten();
  auto course = [&](double first, double last, int64_t process = 0, int64_t num_processes = 1) {
    CourseSettings settings{.batch_size = 1, .max_steps = 2000, .seed = 7};
    settings.global_batch_size = 2;
    settings.portion = {.num_processes = num_processes, .process_index = process};
    return Course(settings, kProcess, objective, samples, &held_out, {{models::kGivesFirst, first}, {models::kGivesLast, last}});
  };
  const std::set<std::string> names{models::kGivesFirst, models::kGivesLast};
  auto drawn = [&](const Course& from, const BatchId& id) {
    const auto draws = from.draws(from.batch(id), names);
    auto number = [&](const std::string& name) { return std::get<at::Tensor>(draws.at(name)).item<double>(); };
    return std::pair(number(models::kGivesFirst), number(models::kGivesLast));
  };
  const auto some = course(0.25, 0.25), more = course(0.75, 0.25), other = course(0.25, 0.25, 1, 2);
  double num_first = 0, num_both = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    const auto [first, last] = drawn(some, {false, i});
    EXPECT_EQ(drawn(some, {false, i, 1}), std::pair(first, last)) << "parts of a batch";
    EXPECT_EQ(drawn(other, {false, i}), std::pair(first, last)) << "another process's portion of it";
    EXPECT_GE(drawn(more, {false, i}).first, first) << "a larger share gives them at the same visits and more";
    num_first += first;
    num_both += first * last;
  }
  EXPECT_NEAR(num_first, 500, 60);
  EXPECT_NEAR(num_both, 125, 40) << "each by a key of its own";
  double num_held_out = 0;
  for (int64_t i = 0; i < some.num_held_out(); ++i) {
    num_held_out += drawn(some, {true, i}).first;
    EXPECT_EQ(drawn(course(0.25, 0.25, 1, 2), {true, i}), drawn(some, {true, i}));
  }
  EXPECT_GT(num_held_out, 0);
  EXPECT_LT(num_held_out, static_cast<double>(some.num_held_out()));
  EXPECT_FALSE(some.draws(some.batch({false, 0}), {}).contains(models::kGivesFirst)) << "where no unit reads it";
}
