// What the passes of a slider and of an erased concept are held to, against the formulas written out in fp64.
#include "train/objectives/concept.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/train/objectives/small_objective.h"

namespace burnish::concept_test {
using namespace burnish::train;
using test::flow_model;
using test::with;

namespace {

at::Tensor random(uint64_t seed) { return test::random({2, 4, 2, 4, 4}, seed); }

/// What the term's pass is compared with.
at::Tensor target_of(const Term& term, const pipeline::Values& before_training) {
  const auto units = term_units(flow_model(), term);
  const auto compared = units.back().reads.at(1);
  pipeline::Values values;
  for (const auto& [name, value] : before_training) {
    if (name == compared || std::ranges::find(units[0].reads, name) != units[0].reads.end()) values[name] = value;
  }
  if (units.size() > 1) {
    EXPECT_THAT(pipeline::audit(units[0], values), testing::IsEmpty());
    pipeline::run({units[0]}, values);
  }
  return std::get<at::Tensor>(values.at(compared)).to(at::kDouble);
}

Concept slider_with(std::initializer_list<std::pair<const std::string, models::OptionValue>> options) {
  return slider_of(concepts_of(with(options)), {});
}
Concept erased_with(std::initializer_list<std::pair<const std::string, models::OptionValue>> options) {
  return erased_of(concepts_of(with(options)), {});
}

double distance(const at::Tensor& found, const at::Tensor& expected) { return (found - expected).abs().max().item<double>(); }

}  // namespace

TEST(Concept, ASlidersEndsLieApartAndAreSpreadAsItsMiddle) {
  const pipeline::Values before{{"reference_target_prediction", random(1)},
                                {"reference_positive_prediction", random(2)},
                                {"reference_opposite_prediction", random(3)},
                                {"guidance_strength", at::full({2}, 2.5)}};
  auto slider = slider_with({{"guidance_strength", 2.5}});
  ASSERT_EQ(slider.terms.size(), 2u);
  auto e0 = random(1).to(at::kDouble), d = random(2).to(at::kDouble) - random(3).to(at::kDouble);
  auto spread = [&](at::Tensor t) {
    for (int64_t i = 0; i < 2; ++i) t[i] = (t[i] - t[i].mean()) / t[i].std() * e0[i].std() + e0[i].mean();
    return t;
  };
  for (const auto& term : slider.terms) {
    EXPECT_EQ(term.pass.prompt, "target_");
    EXPECT_NEAR(term.weight, 2.0 / 3, 1e-12);
    EXPECT_LT(distance(target_of(term, before), spread(e0 + term.pass.strength * 2.5 * d)), 1e-5);
  }
  EXPECT_EQ(slider.terms[0].pass.strength, 1);
  EXPECT_EQ(slider.terms[1].pass.strength, -1);
  EXPECT_EQ(slider.drawn_strength, 0);
}

TEST(Concept, AnErasedOneIsLedAwayFromWhatItWas) {
  const pipeline::Values before{{"reference_neutral_prediction", random(1)},
                                {"reference_erased_prediction", random(2)},
                                {"reference_negative_prediction", random(3)},
                                {"erase_strength", at::full({2}, 1.5)}};
  auto erased = erased_with({{"erase_strength", 1.5}});
  ASSERT_EQ(erased.terms.size(), 1u);
  auto expected = random(1).to(at::kDouble) - 1.5 * (random(2).to(at::kDouble) - random(3).to(at::kDouble));
  EXPECT_LT(distance(target_of(erased.terms[0], before), expected), 1e-5);
  EXPECT_EQ(erased.terms[0].pass.prefix(), "target_");
  auto plain = erased_with({{"erase_strength", 0.0}});
  EXPECT_LT(distance(target_of(plain.terms[0], before), random(1).to(at::kDouble)), 1e-12) << "what is made instead";
  EXPECT_EQ(passes_of(plain.terms).size(), 2u);
}

TEST(Concept, AnAnchorStaysAsItWasAtEveryEnd) {
  auto slider = slider_with({{"anchor_class", std::string("a dog")}, {"anchor_strength", 0.6}});
  ASSERT_EQ(slider.terms.size(), 4u);
  std::set<std::string> prefixes;
  for (const auto& term : slider.terms) {
    prefixes.insert(term.pass.prefix());
    if (term.pass.prompt != "anchor_") continue;
    EXPECT_NEAR(term.weight, 1.0 / 3, 1e-12);
    EXPECT_EQ(term.weighed_by, "anchor_strength");
    EXPECT_LT(distance(target_of(term, {{"reference_anchor_prediction", random(5)}}), random(5).to(at::kDouble)), 1e-12);
  }
  EXPECT_THAT(prefixes, testing::ElementsAre("anchor_", "at_-1_anchor_", "at_-1_target_", "target_"));
}

}  // namespace burnish::concept_test
