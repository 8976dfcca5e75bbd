// A stage over a batch of samples: which run sample by sample, what is joined, and what records gradients.
#include "pipeline/schedule.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <stdexcept>

namespace burnish::schedule_test {
using namespace burnish::pipeline;
using testing::ElementsAre;

namespace {

const std::map<std::string, Labels> kInputs{{"prompt", {.sample = true}}, {"image", {.sample = true}}, {"noise", {.timestep = true}}};

/// body: prompt -> hidden; head: hidden -> text; vae: image -> latents; noisy: latents, noise -> noisy; loss: noisy, text -> loss.
struct Program {
  at::Tensor weight = at::ones({2}).set_requires_grad(true);
  std::map<std::string, int> runs;
  std::map<std::string, bool> recorded;

  Unit unit(const std::string& name, std::vector<std::string> reads, const std::string& writes, const std::string& model,
            const std::function<at::Tensor(Scope&)>& compute) {
    return {name, reads, {writes}, model.empty() ? std::vector<std::string>{} : std::vector{model}, [=, this](Scope& s) {
              ++runs[name];
              auto value = compute(s);
              recorded[name] = value.requires_grad();
              s.write(writes, value);
            }};
  }
  Units units() {
    return {unit("body", {"prompt"}, "hidden", "encoder.body",
                 [this](Scope& s) {
                   return weight * at::full({1, 2}, static_cast<double>(s.text("prompt").size()));
                 }),
            unit("head", {"hidden"}, "text", "encoder.head", [this](Scope& s) { return s.tensor("hidden") * weight; }),
            unit("vae", {"image"}, "latents", "vae", [](Scope& s) { return s.tensor("image") * 2; }),
            unit("add_noise", {"latents", "noise"}, "noisy", "", [](Scope& s) { return s.tensor("latents") + s.tensor("noise"); }),
            unit("loss", {"noisy", "text"}, "loss", "dit", [](Scope& s) { return (s.tensor("noisy") * s.tensor("text")).sum(1); })};
  }
};

Values sample(const std::string& prompt, double pixel) { return {{"prompt", prompt}, {"image", at::full({1, 2}, pixel)}}; }

/// Everything at every visit.
Stage all_live(Program& program, const std::set<std::string>& trained) {
  Policy policy{{}, false};
  for (const auto& unit : program.units()) policy.at_every_visit.insert(unit.name);
  return schedule(program.units(), kInputs, trained, policy).live;
}

}  // namespace

TEST(Stage, RunsWhatNoDrawReachesSampleBySampleAndJoins) {
  Program program;
  auto stage = all_live(program, {"encoder.head"});
  EXPECT_THAT(stage.of_sample, ElementsAre("prompt", "image"));
  EXPECT_THAT(stage.drawn, ElementsAre("noise"));
  EXPECT_THAT(stage.joined, ElementsAre("latents", "text"));
  auto values = run(stage, {sample("a", 1), sample("bbb", 2)}, {{"noise", at::ones({2, 2})}});
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(values.at("loss")), at::tensor({6.0f, 30.0f})));
  EXPECT_EQ(program.runs["body"], 2);
  EXPECT_EQ(program.runs["vae"], 2);
  EXPECT_EQ(program.runs["add_noise"], 1);
}

TEST(Stage, RecordsGradientsFromTheFirstTrainedPartOn) {
  Program program;
  run(all_live(program, {"encoder.head"}), {sample("a", 1)}, {{"noise", at::ones({1, 2})}});
  EXPECT_FALSE(program.recorded["body"]);
  EXPECT_TRUE(program.recorded["head"]);
  EXPECT_FALSE(program.recorded["add_noise"]);
  EXPECT_TRUE(program.recorded["loss"]);
}

TEST(Schedule, TakesFromWhatRunsOnceAllThatItKeeps) {
  Program program;
  auto two = schedule(program.units(), kInputs, {"encoder.head", "dit"});
  EXPECT_THAT(two.once.kept, ElementsAre("hidden", "latents"));
  EXPECT_THAT(two.live.of_sample, ElementsAre("hidden", "latents"));
  EXPECT_THAT(two.sample_inputs(), ElementsAre());
  EXPECT_THAT(schedule(program.units(), kInputs, {"encoder"}).sample_inputs(), ElementsAre("prompt"));
}

TEST(Schedule, ThreeStagesComputeWhatOneDoes) {
  Program program;
  auto units = program.units();
  units.insert(units.begin() + 4, {"scale", {"noise"}, {"scaled"}, {"dit.scale"}, [](Scope& s) {
                                     s.uses("dit.scale");
                                     s.write("scaled", s.tensor("noise") * 3);
                                   }});
  units.back().reads.emplace_back("scaled");
  units.back().models = {"dit.body"};
  units.back().run = [](Scope& s) {
    s.uses("dit.body");
    s.write("loss", (s.tensor("noisy") * s.tensor("text") * s.tensor("scaled")).sum(1));
  };
  auto s = schedule(units, kInputs, {"dit.body"});
  EXPECT_THAT(s.ahead.kept, ElementsAre("scaled"));
  EXPECT_THAT(s.live.drawn, ElementsAre("noise", "scaled"));
  Values draws{{"noise", at::full({2, 2}, 0.5)}};
  std::vector<Values> samples{sample("a", 1), sample("bbb", 2)}, kept(2);
  for (size_t i = 0; i < 2; ++i) {
    auto values = samples[i];
    pipeline::run(s.once.units, values);
    for (const auto& name : s.once.kept) kept[i][name] = values.at(name);
  }
  auto given = draws;
  given["scaled"] = run(s.ahead, kept, draws).at("scaled");
  auto staged = std::get<at::Tensor>(run(s.live, kept, given).at("loss"));
  for (size_t i = 0; i < 2; ++i) {
    auto values = samples[i];
    values["noise"] = at::full({1, 2}, 0.5);
    pipeline::run(units, values);
    EXPECT_TRUE(at::equal(staged[static_cast<int64_t>(i)], std::get<at::Tensor>(values.at("loss"))[0]));
  }
  auto without = with_policy(s, {{}, false});
  EXPECT_TRUE(without.ahead.units.empty());
  EXPECT_EQ(without.live.units.size(), s.live.units.size() + 1);
}

TEST(Stage, TextsDoNotBatch) {
  Unit reads_both{"both", {"prompt", "noise"}, {"loss"}, {}, [](Scope& s) { s.write("loss", s.tensor("noise")); }};
  auto stage = schedule({reads_both}, kInputs, {}).live;
  EXPECT_THROW(run(stage, {sample("a", 1), sample("b", 1)}, {{"noise", at::ones({2, 2})}}), std::logic_error);
}

TEST(Schedule, ATextThatIsDrawnForAVisitIsEncodedAheadSampleBySample) {
  Program program;
  auto inputs = kInputs;
  inputs["prompt"].timestep = true;
  auto s = schedule(program.units(), inputs, {"dit"});
  EXPECT_THAT(s.once.kept, ElementsAre("latents"));
  EXPECT_THAT(s.ahead.of_sample, ElementsAre("prompt"));
  EXPECT_THAT(s.ahead.kept, ElementsAre("text"));
  EXPECT_THAT(s.live.drawn, ElementsAre("noise", "text"));
  auto ahead = run(s.ahead, {sample("a", 1), sample("bbb", 2)}, {});
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(ahead.at("text")), at::tensor({1.0f, 1.0f, 3.0f, 3.0f}).view({2, 2})));
  EXPECT_EQ(program.runs["body"], 2);

  auto live = schedule(program.units(), inputs, {"dit"}, {{}, false}).live;
  EXPECT_THAT(live.of_sample, ElementsAre("prompt", "latents"));
  EXPECT_THAT(live.drawn, ElementsAre("noise"));
  EXPECT_THAT(schedule(program.units(), kInputs, {"dit"}).once.kept, ElementsAre("latents", "text"))
      << "a caption that stays is encoded once";
}

TEST(Schedule, AValueOfASampleIsNotWrittenByAUnit) {
  Program program;
  auto units = program.units();
  auto inputs = kInputs;
  inputs["hidden"].sample = true;
  EXPECT_THROW(schedule(units, inputs, {}), std::logic_error);
  inputs.erase("hidden");
  inputs["hearing"].sample = true;
  EXPECT_NO_THROW(schedule(units, inputs, {}));
}

}  // namespace burnish::schedule_test
