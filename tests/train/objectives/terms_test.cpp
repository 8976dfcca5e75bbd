// What a term compares under guidance and with class targets, and what terms add up to, against the formulas written out in fp64.
#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/golden.h"
#include "tests/train/objectives/small_objective.h"
#include "train/objectives/sft_terms.h"

namespace burnish::terms_test {
using namespace burnish::train;
using test::flow_model;
using test::random;
using test::with;

namespace {

/// The samples' own loss as these options have it.
Term own_term(const models::OptionValues& own) { return sft_terms({.own = own}).own; }

/// What is compared, after the unit that writes it was audited.
std::pair<at::Tensor, at::Tensor> judged(const models::OptionValues& own, const pipeline::Values& given) {
  auto term = own_term(own);
  term.class_target.has_own_rows = false;
  auto unit = term_units(flow_model(), term).at(0);
  EXPECT_THAT(pipeline::audit(unit, given), testing::IsEmpty());
  auto values = given;
  pipeline::run({unit}, values);
  return {std::get<at::Tensor>(values.at("judged_prediction")), std::get<at::Tensor>(values.at("judged_target"))};
}

double distance(const at::Tensor& found, const at::Tensor& expected) {
  return (found.to(at::kDouble) - expected).abs().max().item<double>();
}

}  // namespace

TEST(GuidedLoss, GuidesThePredictionOrMovesTheTarget) {
  auto p = random({2, 4, 2, 4, 4}, 1), v = random({2, 4, 2, 4, 4}, 2), u = random({2, 4, 2, 4, 4}, 3),
       g = at::tensor({1.5, 4.0}).to(at::kFloat);
  pipeline::Values given{{"prediction", p}, {"target", v}, {"negative_prediction", u}, {"training_cfg", g}};
  auto P = p.to(at::kDouble), V = v.to(at::kDouble), U = u.to(at::kDouble), G = g.to(at::kDouble).view({2, 1, 1, 1, 1});
  auto [prediction, target] = judged(with({{"training_cfg_scale", 2.0}}), given);
  EXPECT_LT(distance(prediction, (P + (G - 1) * U) / G), 1e-6);
  EXPECT_TRUE(at::equal(target, v));
  auto alpha = (U * V).flatten(1).sum(1) / (U * U).flatten(1).sum(1);
  auto away = U * alpha.view({2, 1, 1, 1, 1});
  std::tie(prediction, target) =
      judged(with({{"training_cfg_scale", 2.0}, {"training_cfg_loss", std::string("target")}, {"training_cfg_zero", true}}), given);
  EXPECT_TRUE(at::equal(prediction, p));
  EXPECT_LT(distance(target, away + G * (V - away)), 1e-5);
  // The prompt that is led away from may be another one than none.
  auto named = given;
  named.erase("negative_prediction");
  named["away_prediction"] = u;
  std::tie(prediction, target) =
      judged(with({{"training_cfg_scale", 2.0}, {"training_cfg_negative_prompt", std::string("a blurry picture")}}), named);
  EXPECT_LT(distance(prediction, (P + (G - 1) * U) / G), 1e-6);
  // Both compare the same, but for the factor g².
  std::tie(prediction, target) = judged(with({{"training_cfg_scale", 2.0}, {"training_cfg_loss", std::string("target")}}), given);
  EXPECT_LT(distance(p - target, G * ((P + (G - 1) * U) / G - V)), 1e-5);
}

TEST(GuidedLoss, IsDiffSynthStudiosLossUnderGuidance) {
  auto peer = test::golden("guided_loss.safetensors");
  for (double scale : {1.0, 1.5, 3.0}) {
    const auto name = fmt::format("loss.{:.1f}", scale);
    auto prediction = peer.tensor("prediction").clone().requires_grad_(true);
    pipeline::Values values{{"prediction", prediction},
                            {"target", peer.tensor("target")},
                            {"negative_prediction", peer.tensor("negative_prediction")},
                            {"training_cfg", training_scales({.scale = scale}, {}, {0.5})}};
    // With a scale of 1 there is no unit in a run; it changes nothing either.
    auto own = with({{"training_cfg_scale", scale}, {"training_cfg_scale_max", scale}});
    pipeline::run(term_units(flow_model(), own_term(own)), values);
    const auto& loss = std::get<at::Tensor>(values.at("loss"));
    EXPECT_NEAR(loss.item<double>() / peer.tensor(name).item<double>(), 1, 1e-6) << scale;
    torch::autograd::backward({loss.sum()}, {});
    EXPECT_TRUE(at::allclose(prediction.grad(), peer.tensor(name + ".grad"), 1e-5, 1e-8)) << scale;
  }
}

TEST(ClassTarget, SamplesOfAClassSetAreHeldToTheModel) {
  auto p = random({2, 4, 2, 4, 4}, 1), v = random({2, 4, 2, 4, 4}, 2), u = random({2, 4, 2, 4, 4}, 3), before = random({2, 4, 2, 4, 4}, 4);
  auto [prediction, target] =
      judged(with({{"training_cfg_scale", 2.0}, {"class_target", std::string("model")}}), {{"prediction", p},
                                                                                           {"target", v},
                                                                                           {"negative_prediction", u},
                                                                                           {"reference_prediction", before},
                                                                                           {"training_cfg", at::full({2}, 2.0)},
                                                                                           {"of_class_set", at::tensor({0.0f, 1.0f})}});
  EXPECT_TRUE(at::equal(target[0], v[0]));
  EXPECT_LT(distance(prediction[0], (p[0].to(at::kDouble) + u[0].to(at::kDouble)) / 2), 1e-6);
  EXPECT_TRUE(at::equal(target[1], before[1]));
  EXPECT_TRUE(at::equal(prediction[1], p[1])) << "without guidance";
}

TEST(ClassTarget, TheModelBeforeTrainingSeesTheClassSetAlone) {
  std::vector<int64_t> seen;
  pipeline::Units units{
      {"modulate", {"sigma"}, {"reference_modulation"}, {}, [](auto& s) { s.write("reference_modulation", s.tensor("sigma") * 2); }},
      {"denoise", {"noisy", "reference_modulation"}, {"reference_prediction"}, {}, [&](pipeline::Scope& s) {
         seen.push_back(s.tensor("noisy").size(0));
         s.write("reference_prediction", s.tensor("noisy") * s.tensor("reference_modulation").view({-1, 1, 1, 1, 1}));
       }}};
  for (auto& unit : units) unit.prefix = "reference_";
  auto own = with({{"class_target", std::string("model")}});
  units = run_for_class_set(units);
  const auto term = own_term(own);
  ASSERT_TRUE(term.class_target.has_own_rows);
  units.push_back(term_units(flow_model(), term).at(0));
  auto target_of = [&](const std::vector<float>& of_class) {
    pipeline::Values values{{"sigma", at::tensor({0.25f, 0.5f, 1.0f})},
                            {"noisy", random({3, 4, 2, 4, 4}, 1)},
                            {"prediction", random({3, 4, 2, 4, 4}, 2)},
                            {"target", random({3, 4, 2, 4, 4}, 3)},
                            {"of_class_set", at::tensor(of_class)}};
    pipeline::run(units, values);
    return std::get<at::Tensor>(values.at("judged_target"));
  };
  auto noisy = random({3, 4, 2, 4, 4}, 1), target = random({3, 4, 2, 4, 4}, 3);
  auto two = target_of({1, 0, 1});
  EXPECT_TRUE(at::equal(two[0], noisy[0] * 0.5));
  EXPECT_TRUE(at::equal(two[1], target[1]));
  EXPECT_TRUE(at::equal(two[2], noisy[2] * 2));
  EXPECT_TRUE(at::equal(target_of({0, 0, 0}), target));
  EXPECT_THAT(seen, testing::ElementsAre(2)) << "and in a batch without one it is not run";
}

TEST(GuidedLoss, ScalesFallWithTime) {
  auto drawn = at::tensor({3.0, 5.0}).to(at::kFloat);
  EXPECT_TRUE(at::equal(training_scales({.scale = 3}, {}, {0.2, 0.9}), at::tensor({3.0f, 3.0f})));
  EXPECT_TRUE(at::equal(training_scales({.scale = 3, .highest = 5}, drawn, {0.2, 0.9}), drawn));
  EXPECT_TRUE(at::allclose(training_scales({.scale = 3, .highest = 5, .by_time = true}, drawn, {0.25, 1}), at::tensor({1.5f, 5.0f})));
}

TEST(Terms, CountBySampleOrForThemselves) {
  ObjectiveSettings settings;
  settings.own = with({{"sft_loss_weight", 0.5},
                       {"drift_loss_weight", 2.0},
                       {"blank_prompt_preservation", true},
                       {"blank_prompt_preservation_multiplier", 3.0}});
  const auto terms = sft_terms(settings);
  EXPECT_TRUE(terms.have_total());
  EXPECT_FALSE(terms.own.class_target.has_own_rows) << "drift and the empty prompt ask the model before training about all samples";
  auto unit = total_unit("total", kTotalLoss, terms.all());
  pipeline::Values values{{"loss", at::tensor({1.0f, 2.0f})},
                          {kLossWeight, at::tensor({10.0f, 0.0f})},
                          {"drift_loss", at::tensor({0.25f, 4.0f})},
                          {"blank_preservation_loss", at::tensor({0.5f, 1.0f})}};
  EXPECT_THAT(pipeline::audit(unit, values), testing::IsEmpty());
  pipeline::run({unit}, values);
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(values.at(kTotalLoss)), at::tensor({10 * (0.5f + 0.5f) + 1.5f, 3.0f})));
  EXPECT_FALSE(sft_terms({}).have_total()) << "nothing is asked for";
}

TEST(Terms, AreWeighedByAValueEachOrAllByTheirSamples) {
  const std::vector<Term> terms{{.name = "first", .weight = 2},
                                {.name = "second", .weight = 0.5, .weighed_by = "anchor_strength"},
                                {.name = "third", .weight = 3, .weighed_by = kLossWeight}};
  auto unit = total_unit("loss", "loss", terms);
  EXPECT_THAT(unit.reads, testing::ElementsAre("first", "second", "anchor_strength", "third", kLossWeight));
  pipeline::Values values{{"first", at::tensor({1.0f, 2.0f})},
                          {"second", at::tensor({4.0f, 8.0f})},
                          {"anchor_strength", at::tensor({0.0f, 0.25f})},
                          {"third", at::tensor({1.0f, 1.0f})},
                          {kLossWeight, at::tensor({1.0f, 0.5f})}};
  EXPECT_THAT(pipeline::audit(unit, values), testing::IsEmpty());
  pipeline::run({unit}, values);
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(values.at("loss")), at::tensor({2.0f + 3.0f, 4.0f + 1.0f + 1.5f})));
}

TEST(Terms, APassThatIsHeldToAnotherIsComparedWithItAndOneThatIsHeldToASumWithThat) {
  Term term{.name = "held", .pass = {.prompt = "class_"}, .held_to = PassSum{.base = {.prompt = "class_", .before_training = true}}};
  auto units = term_units(flow_model(), term);
  ASSERT_EQ(units.size(), 1u);
  EXPECT_THAT(units[0].reads, testing::ElementsAre("class_prediction", "reference_class_prediction"));
  term.held_to->directions = {{{.prompt = "positive_"}, {.prompt = "negative_"}, 2, "amount"}};
  units = term_units(flow_model(), term);
  ASSERT_EQ(units.size(), 2u);
  EXPECT_THAT(units[0].reads, testing::ElementsAre("amount", "negative_prediction", "positive_prediction", "reference_class_prediction"));
  EXPECT_THAT(units[1].reads, testing::ElementsAre("class_prediction", "held_of_target"));
  std::vector<std::string> passes;
  for (const auto& pass : passes_of({{.name = "loss"}, term})) passes.push_back(pass.prefix());
  EXPECT_THAT(passes, testing::ElementsAre("class_", "reference_class_", "positive_", "negative_")) << "the trained one is not listed";
}

TEST(Terms, WhatAMaskLeavesOutIsHeldToTheModel) {
  auto p = random({2, 5, 4, 6}, 1), before = random({2, 5, 4, 6}, 2), mask = random({2, 1, 4, 6}, 3).sigmoid();
  ObjectiveSettings settings;
  settings.own = with({{"masked_prior_preservation_weight", 0.7}});
  for (bool per_area : {false, true}) {
    settings.sample_loss.masked = {.on = true, .unmasked_weight = 0.1, .per_area = per_area};
    const auto terms = sft_terms(settings);
    pipeline::Values values{{"prediction", p}, {"reference_prediction", before}, {"loss_mask", mask}};
    pipeline::run(term_units(flow_model(), terms.added.at(0)), values);
    auto outside = 1 - mask.to(at::kDouble).clamp(0.1, 1);
    auto expected = ((p.to(at::kDouble) - before.to(at::kDouble)).square() * outside).mean({1, 2, 3});
    if (per_area) expected = expected / outside.mean({1, 2, 3});
    EXPECT_TRUE(at::allclose(std::get<at::Tensor>(values.at("masked_prior_loss")).to(at::kDouble), expected, 1e-6, 0)) << per_area;
  }
}

TEST(Terms, TheClassTakesTheTriggerWordsPlaceWhateverIsDropped) {
  Samples samples;
  samples.sets = {{.trigger_word = "sks"}, {.of_class_set = true}};
  for (size_t set : {0, 1})
    samples.list.push_back({.number = static_cast<int64_t>(set), .row = {.prompt = "a photo of sks", .subset = set}});
  EXPECT_EQ(class_prompt("dog", samples, {0}), "a photo of dog");
  EXPECT_EQ(class_prompt("dog", samples, {.row = 0, .empty_caption = true}), "a photo of dog");
  EXPECT_EQ(class_prompt("dog", samples, {.row = 0, .caption = "sks, red"}), "dog, red");
  EXPECT_EQ(class_prompt("dog", samples, {1}), "a photo of sks") << "it has no trigger word";
}

}  // namespace burnish::terms_test
