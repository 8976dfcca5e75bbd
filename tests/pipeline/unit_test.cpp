#include "pipeline/unit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "pipeline/schedule.h"

namespace burnish::unit_test {
using namespace burnish::pipeline;

namespace {

Unit pass(std::string name, std::vector<std::string> reads, std::vector<std::string> writes, std::vector<std::string> models = {}) {
  return {name, reads, writes, models, [reads, writes, models](Scope& scope) {
            for (auto& m : models) scope.uses(m);
            for (auto& w : writes) scope.write(w, scope.tensor(reads.front()));
          }};
}

/// What `draws` reach is drawn; nothing is computed ahead.
Schedule cut(const Units& units, const std::set<std::string>& draws, const std::set<std::string>& trained,
             const std::set<std::string>& at_every_visit = {}, bool ahead = false) {
  std::map<std::string, Labels> inputs;
  for (const auto& name : draws) inputs[name].timestep = true;
  return schedule(units, inputs, trained, {at_every_visit, ahead});
}

/// The same, with what can be computed ahead.
Schedule cut_ahead(const Units& units, const std::set<std::string>& trained) { return cut(units, {"noise", "sigma"}, trained, {}, true); }

Units flow() {
  return {pass("encode", {"image"}, {"latents"}, {"vae"}), pass("embed", {"caption"}, {"text"}, {"encoder"}),
          pass("noise", {"latents", "noise"}, {"noisy"}), pass("denoise", {"noisy", "text"}, {"prediction"}, {"dit"})};
}

}  // namespace

TEST(Unit, CutKeepsWhatDependsOnTheSampleAlone) {
  auto c = cut(flow(), {"noise"}, {"dit"});
  ASSERT_EQ(c.once.units.size(), 2u);
  EXPECT_EQ(c.once.kept, (std::vector<std::string>{"latents", "text"}));
  EXPECT_EQ(models_of(c.live.units), (std::vector<std::string>{"dit"}));
}

TEST(Unit, TrainedEncoderIsLive) {
  auto c = cut(flow(), {"noise"}, {"dit", "encoder"});
  ASSERT_EQ(c.once.units.size(), 1u);
  EXPECT_EQ(c.once.units[0].name, "encode");
}

TEST(Unit, CheckNamesTheMissingValue) {
  EXPECT_NO_THROW(check(flow(), {"image", "caption", "noise"}));
  EXPECT_THROW(check(flow(), {"image", "caption"}), std::logic_error);
}

TEST(Unit, ScopeRefusesWhatWasNotDeclared) {
  Values values{{"a", at::ones({1})}, {"secret", at::ones({1})}};
  auto unit = pass("honest", {"a"}, {"b"});
  EXPECT_NO_THROW(run({unit}, values));
  unit.run = [](Scope& s) { s.tensor("secret"); };
  EXPECT_THROW(run({unit}, values), std::logic_error);
  unit.run = [](Scope& s) { s.write("c", at::ones({1})); };
  EXPECT_THROW(run({unit}, values), std::logic_error);
  unit.run = [](Scope& s) { s.uses("vae"); };
  EXPECT_THROW(run({unit}, values), std::logic_error);
}

namespace {

std::vector<std::string> names(const Units& units) {
  std::vector<std::string> list;
  for (const auto& unit : units) list.push_back(unit.name);
  return list;
}
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

}  // namespace

TEST(Audit, AnHonestUnitHasNothingToAnswerFor) {
  EXPECT_THAT(audit(pass("honest", {"a"}, {"b"}, {"dit"}), {{"a", at::ones({2})}}), IsEmpty());
}

TEST(Audit, NamesEveryThingUndeclared) {
  Values values{{"a", at::ones({2})}, {"other", at::ones({2})}, {"caption", "cat"}};
  auto unit = pass("unit", {"a"}, {"b"});
  auto answer = [&](std::function<void(Scope&)> run) {
    unit.run = std::move(run);
    return audit(unit, values);
  };
  EXPECT_THROW(answer([](Scope& s) { s.write("b", s.tensor("other")); }), std::logic_error);
  EXPECT_THAT(answer([](Scope& s) { s.write("b", at::ones({2})); }), ElementsAre(HasSubstr("declares that it reads 'a' and does not")));
  EXPECT_THAT(answer([](Scope& s) { s.tensor("a"); }), ElementsAre(HasSubstr("declares that it writes 'b' and does not")));
  EXPECT_THAT(answer([](Scope& s) {
                s.tensor("a").add_(1);
                s.write("b", s.tensor("a"));
              }),
              ElementsAre(HasSubstr("changes 'a' in place")));
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(values.at("a")), at::ones({2}))) << "the caller's values are left alone";
  unit.models = {"vae"};
  EXPECT_THAT(answer([](Scope& s) { s.write("b", s.tensor("a")); }), ElementsAre(HasSubstr("declares that it runs 'vae'")));
}

TEST(Audit, RandomNumbersAreDeclared) {
  Values values{{"a", at::ones({2})}};
  auto unit = pass("crop", {"a"}, {"b"});
  auto draw = [](Scope& s) { s.write("b", s.tensor("a") + at::rand({2})); };
  unit.run = draw;
  EXPECT_THAT(audit(unit, values), ElementsAre(HasSubstr("draws random numbers without declaring it")));
  unit.run = [](Scope& s) {
    at::rand({1});
    s.write("b", s.tensor("a"));
  };
  EXPECT_THAT(audit(unit, values), ElementsAre(HasSubstr("draws"))) << "another unit's draw would change with it";
  unit.run = [count = 0.0](Scope& s) mutable { s.write("b", s.tensor("a") + (count += 1)); };
  EXPECT_THAT(audit(unit, values), ElementsAre(HasSubstr("draws"))) << "numbers of its own count as well";
  unit.draws = true;
  unit.run = draw;
  EXPECT_THAT(audit(unit, values), IsEmpty());
  unit.run = [](Scope& s) { s.write("b", s.tensor("a")); };
  EXPECT_THAT(audit(unit, values), ElementsAre(HasSubstr("declares that it draws")));
}

TEST(Unit, AUnitThatDrawsIsLiveAndNothingBehindItIsComputedAhead) {
  auto units = flow();
  units[0].draws = true;
  EXPECT_EQ(label(units, {{"image", {.sample = true}}}, {}).values.at("latents").text(), "DA");
  auto c = cut(units, {"noise"}, {"dit"});
  EXPECT_THAT(names(c.once.units), ElementsAre("embed"));
  EXPECT_THAT(names(cut_ahead(units, {"dit"}).ahead.units), IsEmpty());
}

TEST(Unit, UnitsKeptLiveTakeTheirReadersAlong) {
  auto c = cut(flow(), {"noise"}, {"dit"}, {"encode"});
  EXPECT_THAT(names(c.once.units), ElementsAre("embed"));
  EXPECT_THAT(c.once.kept, ElementsAre("text"));
}

TEST(Unit, ARewrittenValueIsReadAsItsAuthorMeant) {
  // "sharpen" rewrites what it reads; "preview" reads it before, "encode" after.
  auto add = [](const std::string& name, const std::string& from, const std::string& to, double more) {
    return Unit{name, {from}, {to}, {}, [=](Scope& s) { s.write(to, s.tensor(from) + more); }};
  };
  Units units{add("preview", "image", "small", 1), add("sharpen", "image", "image", 10), add("encode", "image", "latents", 100)};
  EXPECT_NO_THROW(check(units, {"image"}));
  Values whole{{"image", at::ones({1})}};
  run(units, whole);
  EXPECT_EQ(std::get<at::Tensor>(whole.at("small")).item<double>(), 2);
  EXPECT_EQ(std::get<at::Tensor>(whole.at("latents")).item<double>(), 111);
  for (const std::set<std::string>& live : {std::set<std::string>{}, {"preview"}, {"encode"}, {"preview", "encode"}}) {
    auto c = cut(units, {}, {}, live);
    Values values{{"image", at::ones({1})}};
    run(c.once.units, values);
    Values kept;
    for (const auto& name : c.once.kept) kept[name] = values.at(name);
    kept.insert({"image", at::ones({1})});
    run(c.live.units, kept);
    for (const auto& unit : c.live.units) {
      const auto& name = unit.writes[0];
      if (name == "image") continue;
      EXPECT_TRUE(at::equal(std::get<at::Tensor>(kept.at(name)), std::get<at::Tensor>(whole.at(name)))) << name;
    }
  }
}

TEST(Unit, PositiveAndNegativeValuesAreSeparate) {
  Units units{pass("encode", {"prompt"}, {"text"}, {"encoder"}),
              pass("encode_negative", {"negative_prompt"}, {"negative_text"}, {"encoder"}),
              pass("denoise", {"noisy", "text"}, {"prediction"}, {"dit"}),
              pass("denoise_negative", {"noisy", "negative_text"}, {"negative_prediction"}, {"dit"})};
  auto c = cut(units, {"noisy"}, {"dit"});
  EXPECT_THAT(c.once.kept, ElementsAre("text", "negative_text"));
  auto labels = label(units, {{"prompt", {.sample = true}}, {"noisy", {.timestep = true}}}, {"dit"}).values;
  EXPECT_EQ(labels.at("text").text(), "D");
  EXPECT_EQ(labels.at("negative_text").text(), "-") << "the same for all samples";
}

TEST(CutAhead, TakesWhatFreesAModelAndWhatThatReads) {
  Units live{pass("noise", {"latents", "noise"}, {"noisy"}), pass("scale", {"sigma"}, {"scaled"}),
             pass("modulate", {"scaled"}, {"modulation"}, {"dit.modulation"}),
             pass("denoise", {"noisy", "modulation"}, {"out"}, {"dit.body"}), pass("loss", {"out"}, {"loss"})};
  auto c = cut_ahead(live, {"dit.body"});
  EXPECT_THAT(names(c.ahead.units), ElementsAre("scale", "modulate"));
  EXPECT_THAT(names(c.live.units), ElementsAre("noise", "denoise", "loss"));
  EXPECT_THAT(c.ahead.kept, ElementsAre("modulation"));
  EXPECT_THAT(names(cut_ahead(live, {"dit"}).ahead.units), IsEmpty()) << "all of the model trains";
  EXPECT_THAT(names(cut_ahead(live, {"dit.modulation"}).ahead.units), IsEmpty());
  live[3].models.push_back("dit.modulation");
  EXPECT_THAT(names(cut_ahead(live, {"dit.body"}).ahead.units), IsEmpty()) << "the model stays in memory for another unit";
}

TEST(CutAhead, WhatBothSidesNeedAndNoModelMakesRunsOnBoth) {
  Units live{pass("noise", {"latents", "noise"}, {"noisy", "target"}), pass("start", {"noisy", "text"}, {"hidden"}, {"dit.first"}),
             pass("shape", {"hidden"}, {"size"}), pass("denoise", {"noisy", "hidden", "size"}, {"out"}, {"dit.last"}),
             pass("loss", {"out", "target"}, {"loss"})};
  auto c = cut_ahead(live, {"dit.last"});
  EXPECT_THAT(names(c.ahead.units), ElementsAre("noise", "start"));
  EXPECT_THAT(names(c.live.units), ElementsAre("noise", "shape", "denoise", "loss"));
  EXPECT_THAT(c.ahead.kept, ElementsAre("hidden"));
  live[0].models.emplace_back("scaler");
  c = cut_ahead(live, {"dit.last"});
  EXPECT_THAT(names(c.live.units), ElementsAre("shape", "denoise", "loss")) << "its model is not in memory";
  EXPECT_THAT(c.ahead.kept, ElementsAre("hidden", "noisy", "target"));
}

TEST(Models, HaveAPartInCommon) {
  EXPECT_EQ(common_part({"dit.last.body"}), "dit.last.body");
  EXPECT_EQ(common_part({"dit.last.body", "dit.last.modulation"}), "dit.last");
  EXPECT_EQ(common_part({"dit.last.body", "dit.las"}), "dit");
  EXPECT_EQ(common_part({"dit", "dit.body"}), "dit");
}

TEST(CutAhead, AFrozenModelBehindAFrozenModelIsTakenWithItsReader) {
  Units live{pass("first", {"sigma"}, {"a"}, {"one"}), pass("second", {"a"}, {"b"}, {"two"}), pass("denoise", {"b"}, {"out"}, {"dit"})};
  auto c = cut_ahead(live, {"dit"});
  EXPECT_THAT(names(c.ahead.units), ElementsAre("first", "second"));
  EXPECT_THAT(c.ahead.kept, ElementsAre("b"));
}

}  // namespace burnish::unit_test
