// Losses that count where a mask says so, against the formulas written out in fp64.
#include "train/objectives/sample_loss.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "data/image.h"
#include "tests/rows.h"
#include "tests/scratch.h"
#include "tests/train/objectives/small_objective.h"
#include "train/objectives/objective_kind.h"
#include "train/samples/open_samples.h"

namespace burnish::sample_loss_test {
using namespace burnish::train;
using test::flow_model;
using test::random;
using testing::HasSubstr;

namespace {

/// What the units make of these values.
at::Tensor loss_of(const SampleLoss& loss, pipeline::Values values) {
  pipeline::run(loss_units(flow_model(), loss), values);
  return std::get<at::Tensor>(values.at("loss"));
}

RobustLoss huber() { return parse_robust_loss("huber", "snr", 0.1, 1); }

/// Halves of a picture, the left one counts.
at::Tensor left_half(int64_t count) {
  auto mask = at::zeros({count, 1, 4, 6});
  mask.narrow(3, 0, 3).fill_(1);
  return mask;
}

}  // namespace

TEST(MaskedLoss, IsTheWeightedMeanOfErrors) {
  auto prediction = random({3, 5, 4, 6}, 1), target = random({3, 5, 4, 6}, 2), sigma = at::tensor({0.2, 0.5, 0.9}).to(at::kFloat);
  auto mask = random({3, 1, 4, 6}, 3).sigmoid();
  for (bool robust : {false, true}) {
    for (bool per_area : {false, true}) {
      SampleLoss loss{robust ? huber() : RobustLoss{}, {true, 0.3, per_area}};
      auto found = loss_of(loss, {{"prediction", prediction}, {"target", target}, {"sigma", sigma}, {"mask", mask}});
      auto d = prediction.to(at::kDouble) - target.to(at::kDouble), error = d.square();
      if (robust) {
        auto s = sigma.to(at::kDouble).view({3, 1, 1, 1}), c = 0.9 / (1 + s / (1 - s)).square() + 0.1;
        error = 2 * c * ((error + c * c).sqrt() - c);
      }
      auto weight = at::where(mask > 0.3, mask.to(at::kDouble), 0.3);
      auto expected = (error * weight).mean({1, 2, 3});
      if (per_area) expected = expected / weight.mean({1, 2, 3});
      EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected, 1e-6, 0)) << robust << per_area;
    }
  }
}

TEST(MaskedLoss, WhatLiesOutsideTouchesNothing) {
  auto target = random({2, 5, 4, 6}, 2), changed = target.clone();
  changed.narrow(3, 3, 3).add_(100);
  auto loss_and_gradient = [&](const at::Tensor& goal) {
    auto prediction = random({2, 5, 4, 6}, 1).requires_grad_();
    auto loss = loss_of({.masked = {.on = true}}, {{"prediction", prediction}, {"target", goal}, {"mask", left_half(2)}});
    torch::autograd::backward({loss.sum()}, {});
    return std::pair(loss.detach(), prediction.grad());
  };
  auto [loss, gradient] = loss_and_gradient(target);
  auto [other_loss, other_gradient] = loss_and_gradient(changed);
  EXPECT_TRUE(at::equal(loss, other_loss));
  EXPECT_TRUE(at::equal(gradient, other_gradient));
  EXPECT_TRUE((gradient.narrow(3, 3, 3) == 0).all().item<bool>());
  EXPECT_TRUE((gradient.narrow(3, 0, 3) != 0).any().item<bool>());
}

TEST(MaskedLoss, AWholeMaskChangesNothingAndAnEmptyOneIsNoLoss) {
  pipeline::Values values{{"prediction", random({2, 5, 4, 6}, 1)}, {"target", random({2, 5, 4, 6}, 2)}, {"sigma", at::full({2}, 0.4)}};
  for (bool per_area : {false, true}) {
    values["mask"] = at::ones({2, 1, 4, 6});
    EXPECT_TRUE(at::equal(loss_of({huber(), {true, 0, per_area}}, values), loss_of({huber(), {}}, values)));
    values["mask"] = at::zeros({2, 1, 4, 6});
    EXPECT_TRUE(at::equal(loss_of({.masked = {true, 0, per_area}}, values), at::zeros({2}))) << "and is finite";
  }
}

TEST(MaskedLoss, AMaskCountsForAllFramesOfAVideo) {
  auto prediction = random({1, 2, 3, 4, 6}, 1), target = at::zeros({1, 2, 3, 4, 6});
  auto found = loss_of({.masked = {.on = true}}, {{"prediction", prediction}, {"target", target}, {"mask", left_half(1)}});
  EXPECT_NEAR(found.item<double>() / prediction.narrow(4, 0, 3).square().mean().item<double>(), 0.5, 1e-6);
}

TEST(MaskedLoss, UnitsDeclareWhatTheyTouch) {
  pipeline::Values values{
      {"prediction", random({1, 5, 4, 6}, 1)}, {"target", random({1, 5, 4, 6}, 2)}, {"sigma", at::full({1}, 0.4)}, {"mask", left_half(1)}};
  for (const auto& loss : {SampleLoss{{}, {.on = true}}, SampleLoss{huber(), {.on = true}}, SampleLoss{huber(), {}}}) {
    auto given = values;
    for (const auto& unit : loss_units(flow_model(), loss)) {
      EXPECT_THAT(pipeline::audit(unit, given), testing::IsEmpty());
      pipeline::run({unit}, given);
    }
  }
}

namespace {

/// A picture whose mask is a gray picture, in eight ways of cutting it.
class MaskInput : public testing::Test {
 protected:
  MaskInput() {
    data::write_png(scratch / "picture.png", at::full({40, 56, 3}, 90, at::kByte));
    gray = (random({40, 56, 1}, 4).sigmoid() * 255).to(at::kByte);
    data::write_png(scratch / "mask.png", gray.expand({-1, -1, 3}));
    metadata = scratch.write("metadata.csv", "image,prompt,mask\npicture.png,a,mask.png\npicture.png,b,\n");
  }
  Samples open(const Column& mask) const {
    data::DatasetOptions o{.subsets = {{scratch.path(), metadata.string(), {.height = 32, .width = 32}}}};
    o.subsets[0].augmentation = {.random_crop = true, .random_flip = true, .num_variants = 8};
    o.columns = {mask};
    Samples samples;
    samples.pictures = std::make_unique<data::Dataset>(o);
    samples.columns = o.columns;
    for (int64_t row : {0, 1}) samples.list.push_back({.number = row, .extent = {1, 32, 32}, .latent_shape = {4, 4, 4}});
    return samples;
  }
  std::string content(const Samples& samples, int64_t variant, const std::string& hash = "h") const {
    return input.content(samples, {0, variant}, {{"", "p"}, {"mask", hash}});
  }
  test::Scratch scratch;
  std::filesystem::path metadata;
  at::Tensor gray;
  const InputTable inputs = input_table();
  const Input& input = *inputs.find("mask");
};

}  // namespace

TEST_F(MaskInput, IsTheAreaMeanOfTheMaskCutAsItsPicture) {
  auto samples = open(mask_column("mask"));
  for (int64_t v = 0; v < 8; ++v) {
    auto cut = data::resize_and_crop(gray, data::crop_of(*samples.pictures, 0, v)).to(at::kDouble) / 255;
    auto expected = cut.view({4, 8, 4, 8}).mean({1, 3});
    auto found = std::get<at::Tensor>(input.load(samples, {0, v}));
    ASSERT_EQ(found.sizes(), (std::vector<int64_t>{1, 1, 4, 4}));
    EXPECT_LT((found.to(at::kDouble).view({4, 4}) - expected).abs().max().item<double>(), 1e-7) << v;
  }
}

TEST_F(MaskInput, ASampleWithoutOneCountsWhole) {
  auto samples = open(mask_column("mask"));
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(input.load(samples, {1})), at::ones({1, 1, 4, 4})));
  EXPECT_NE(input.content(samples, {1}, {{"", "p"}}), "") << "what is made of it is kept as well";
}

TEST_F(MaskInput, ItsContentNamesMaskCutAndGrid) {
  auto samples = open(mask_column("mask")), by_alpha = open(opacity_column());
  std::set<std::string> contents{content(by_alpha, 0), content(samples, 0), content(samples, 0, "other"), content(samples, 1)};
  samples.list[0].latent_shape = {4, 2, 2};
  contents.insert(content(samples, 0));
  EXPECT_EQ(contents.size(), 5u);
}

}  // namespace burnish::sample_loss_test
