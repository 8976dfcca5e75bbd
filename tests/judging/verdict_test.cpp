// What pictures of a step are scored by, where overfitting begins, and in which order saves stand.
#include "judging/verdict.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <cmath>

namespace burnish::judging {

namespace {

/// A unit vector at an angle in degrees: pictures are alike by the cosine of the angle between them.
at::Tensor at_angle(double degrees) { return at::tensor({std::cos(degrees * M_PI / 180), std::sin(degrees * M_PI / 180)}); }
at::Tensor at_angles(const std::vector<double>& degrees) {
  std::vector<at::Tensor> rows;
  for (auto one : degrees) rows.push_back(at_angle(one));
  return at::stack(rows);
}
double alike(double degrees) { return std::cos(degrees * M_PI / 180); }

Judged save(int64_t step, std::optional<double> loss, std::optional<double> likeness = {}, int64_t num_copies = 0) {
  Judged judged{.step = step, .validation_loss = loss};
  if (likeness) {
    judged.scores = Scores{.likeness = *likeness};
    judged.scores->num_copies = num_copies;
  }
  return judged;
}

std::vector<int64_t> order(std::vector<Judged> saves, const std::optional<Overfitting>& overfitting = {}) {
  rank(saves, overfitting);
  std::vector<int64_t> steps;
  for (const auto& one : saves) steps.push_back(one.step);
  return steps;
}

}  // namespace

TEST(Scores, CompareWithTrainingPicturesPromptsEachOtherAndBefore) {
  const auto training = at_angles({0, 30, 60});
  EXPECT_NEAR(copy_from(training), (alike(30) + 1) / 2, 1e-6);
  EXPECT_EQ(copy_from(at_angles({10})), 0.9);
  const Drawn before{.step = 0, .numbers = {0, 1}, .pictures_ND = at_angles({90, 80})};
  const Drawn drawn{.step = 5,
                    .numbers = {0, 1},
                    .pictures_ND = at_angles({45, 29}),
                    .answers_ND = at_angles({45, 29}),
                    .prompts_ND = at_angles({55, 29})};
  const auto s = scores_of(drawn, {.training_ND = training, .copies_from = copy_from(training)}, &before);
  EXPECT_NEAR(s.likeness, (alike(45) + alike(15) + alike(15) + alike(29) + alike(1) + alike(31)) / 6, 1e-6);
  EXPECT_NEAR(*s.answer, (alike(10) + 1) / 2, 1e-6);
  EXPECT_NEAR(*s.variety, 1 - alike(16), 1e-6);
  EXPECT_NEAR(*s.counted_variety, 1 - alike(16), 1e-6);
  EXPECT_NEAR(*s.drift, 1 - (alike(45) + alike(51)) / 2, 1e-6);
  EXPECT_NEAR(s.nearest, alike(1), 1e-6);
  EXPECT_EQ(s.nearest_preview, 1);
  EXPECT_EQ(s.nearest_row, 1);
  EXPECT_EQ(s.num_copies, 2) << "15 and 1 degrees are nearer than halfway between 30 degrees and none";
  EXPECT_EQ(scores_of(drawn, {.training_ND = training, .copies_from = alike(5)}, nullptr).num_copies, 1);
  EXPECT_FALSE(scores_of(drawn, {.training_ND = training, .copies_from = alike(5)}, nullptr).drift);
}

TEST(Scores, PreviewsOfOtherNumbersSayNothingOfDrift) {
  const Drawn before{.step = 0, .numbers = {1}, .pictures_ND = at_angles({80})};
  const Drawn drawn{.step = 5, .numbers = {0, 1}, .pictures_ND = at_angles({0, 60})};
  EXPECT_NEAR(*scores_of(drawn, {.training_ND = at_angles({0, 30}), .copies_from = 0.99}, &before).drift, 1 - alike(20), 1e-6);
}

TEST(Scores, VarietyCountsUpToThatOfTheTrainingPictures) {
  const Drawn drawn{.step = 5, .numbers = {0, 1}, .pictures_ND = at_angles({0, 80})};
  const auto s = scores_of(drawn, {.training_ND = at_angles({10, 40})}, nullptr);
  EXPECT_NEAR(*s.variety, 1 - alike(80), 1e-6);
  EXPECT_NEAR(*s.counted_variety, 1 - alike(30), 1e-6);
  EXPECT_EQ(scores_of(drawn, {.training_ND = at_angles({10})}, nullptr).counted_variety, s.variety) << "of one picture nothing is known";
}

TEST(Scores, TheLargestOfSomeIsAMeanOverAllChoices) {
  const auto numbers = at::tensor({0.5, -1.0, 2.0, 0.25}, at::kDouble);
  EXPECT_NEAR(mean_largest_of(numbers, 4), 2, 1e-12);
  EXPECT_NEAR(mean_largest_of(numbers, 1), 1.75 / 4, 1e-12);
  EXPECT_NEAR(mean_largest_of(numbers, 2), (0.5 + 2 + 0.5 + 2 + 0.25 + 2) / 6, 1e-12);
}

TEST(Scores, MemoryIsHowMuchNearerTrainingPicturesAreThanHeldOutOnes) {
  const Beside beside{.training_ND = at_angles({0, 40, 80, 120}), .held_out_ND = at_angles({20, 60, 100})};
  const Drawn before{.step = 0, .numbers = {0, 1, 2, 3}, .pictures_ND = at_angles({10, 50, 90, 110})};
  const Drawn by_heart{.step = 5, .numbers = {0, 1, 2, 3}, .pictures_ND = at_angles({1, 41, 79, 119})};
  const Drawn between{.step = 5, .numbers = {0, 1, 2, 3}, .pictures_ND = at_angles({10, 50, 90, 110})};
  const auto known = scores_of(by_heart, beside, &before), learned = scores_of(between, beside, &before);
  EXPECT_NEAR(*learned.held_out, at::matmul(between.pictures_ND, beside.held_out_ND.t()).mean().item<double>(), 1e-6);
  EXPECT_TRUE(known.memorises);
  EXPECT_FALSE(learned.memorises);
  EXPECT_GT(*known.memory, *learned.memory + 0.02);
  EXPECT_FALSE(scores_of(by_heart, beside, &by_heart).memorises) << "as it was before training";
  EXPECT_FALSE(scores_of(by_heart, {.training_ND = beside.training_ND}, &before).memory);
  const Beside as_alike{.training_ND = at_angles({0, 30, 60, 90, 120, 150}), .held_out_ND = at_angles({15, 75, 135})};
  const Drawn anywhere{.step = 5, .numbers = {0, 1, 2}, .pictures_ND = at_angles({22.5, 67.5, 127.5})};
  const auto row = at::matmul(at_angle(22.5), as_alike.training_ND.t());
  EXPECT_LT(*scores_of(anywhere, as_alike, nullptr).memory, 0.02) << "of six pictures one is nearer than of three, which is no memory";
  EXPECT_LT(mean_largest_of(row, 3), row.max().item<double>());
}

TEST(Verdict, OverfittingBeginsAfterTheLowestLossThatThreeLooksStayAbove) {
  const std::vector<records::ValidationLoss> rising{{0, 1}, {10, 0.8}, {20, 0.7}, {30, 0.75}, {40, 0.72}, {50, 0.8}};
  const auto found = find_overfitting({}, rising);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->after, 20);
  EXPECT_TRUE(found->by_validation);
  EXPECT_FALSE(find_overfitting({}, {rising.begin(), rising.end() - 1})) << "two looks may be chance";
  EXPECT_FALSE(find_overfitting({}, {{0, 1}, {10, 0.9}, {20, 0.8}}));
}

TEST(Verdict, CopiesOfAllLastSavesAreOverfittingToo) {
  std::vector<Judged> saves{save(10, {}, 0.5, 1), save(20, {}, 0.6), save(30, {}, 0.7, 1), save(40, {}, 0.8, 2)};
  const auto found = find_overfitting(saves, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->after, 20);
  EXPECT_TRUE(found->by_copies);
  saves.back().scores->num_copies = 0;
  EXPECT_FALSE(find_overfitting(saves, {})) << "a copy that is gone later was chance";
}

TEST(Verdict, WhatIsKnownByHeartUpToTheLastSaveIsOverfittingToo) {
  std::vector<Judged> saves{save(10, {}, 0.5), save(20, {}, 0.6), save(30, {}, 0.7), save(40, {}, 0.8, 1)};
  saves[2].scores->memorises = saves[3].scores->memorises = true;
  const auto found = find_overfitting(saves, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->after, 20);
  EXPECT_TRUE(found->by_held_out);
  EXPECT_FALSE(found->by_copies) << "that began later";
  saves[1].scores->num_copies = saves[2].scores->num_copies = 1;
  EXPECT_EQ(find_overfitting(saves, {})->after, 10);
  EXPECT_FALSE(find_overfitting(saves, {})->by_held_out);
}

TEST(Verdict, LikenessToHeldOutPicturesDecidesWhereThereAreSome) {
  std::vector<Judged> saves{save(10, {}, 0.5), save(20, {}, 0.9)};
  saves[0].scores->held_out = 0.6;
  saves[1].scores->held_out = 0.5;
  rank(saves, {});
  EXPECT_EQ(saves[0].step, 10);
  EXPECT_THAT(why_first(saves), testing::HasSubstr("its likeness to held-out pictures is the best of all"));
}

TEST(Verdict, SavesStandByMarksBehindThemOverfittedOnesAndCopies) {
  EXPECT_THAT(order({save(10, 0.76), save(20, 0.7), save(30, 0.72)}), testing::ElementsAre(20, 30, 10));
  EXPECT_THAT(order({save(10, 0.9), save(20, 0.7), save(30, 0.8)}, Overfitting{.after = 10, .by_validation = true}),
              testing::ElementsAre(10, 20, 30));
  EXPECT_THAT(order({save(10, 0.9, 0.5), save(20, 0.8, 0.9, 1), save(30, 0.85, 0.6)}), testing::ElementsAre(30, 10, 20));
  EXPECT_THAT(order({save(10, 0.8, 0.9), save(20, 0.8, 0.9)}), testing::ElementsAre(10, 20)) << "of equal ones the earlier";
  EXPECT_THAT(order({save(10, 0.8, 0.2), save(20, 0.8, 0.6)}), testing::ElementsAre(20, 10));
}

TEST(Verdict, DifferencesThatAreNextToNothingDecideNothing) {
  std::vector<Judged> saves{save(10, 0.8001, 0.6), save(20, 0.8, 0.5)};
  rank(saves, {});
  EXPECT_EQ(saves[0].step, 10);
  EXPECT_GT(saves[0].mark, 0.95) << "a hundredth of a percent of the loss is no reason";
}

TEST(Verdict, OneThatIsWorseByFarHidesNoDifferencesOfTheOthers) {
  std::vector<Judged> saves{save(10, 0.8, 0.75), save(20, 0.804, 0.8), save(30, 0.81, 0.1)};
  rank(saves, {});
  EXPECT_EQ(saves[0].step, 20) << "0.05 of a likeness are more than half a percent of the loss";
  EXPECT_EQ(saves[2].step, 30);
}

TEST(Verdict, SaysWhy) {
  std::vector<Judged> saves{save(10, 0.9, 0.5), save(20, 0.7, 0.8), save(30, 0.8, 0.85, 1)};
  rank(saves, Overfitting{.after = 20, .by_copies = true});
  EXPECT_EQ(
      why_first(saves),
      "its validation loss is the best of all; its likeness is 0.800, and 0.850 the best; overfitting had not begun; no preview of it "
      "is a copy of a training picture");
  EXPECT_EQ(why_first({save(10, 0.9)}), "it is the only one");
}

}  // namespace burnish::judging
