// Live units over a batch of samples: which run sample by sample, what is joined, and what records gradients.
#include "pipeline/visit.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

using namespace burnish;
using namespace burnish::pipeline;
using testing::ElementsAre;

namespace {

const std::set<std::string> kDraws{"noise"};

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

}  // namespace

TEST(Visit, RunsWhatNoDrawReachesSampleBySampleAndJoins) {
  Program program;
  Cut none{{}, program.units(), {}};
  Visit visit(none, kDraws, {"encoder.head"});
  EXPECT_THAT(visit.inputs(), ElementsAre("prompt", "image"));
  auto values = visit.run({sample("a", 1), sample("bbb", 2)}, {{"noise", at::ones({2, 2})}});
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(values.at("loss")), at::tensor({6.0f, 30.0f})));
  EXPECT_EQ(program.runs["body"], 2);
  EXPECT_EQ(program.runs["vae"], 2);
  EXPECT_EQ(program.runs["add_noise"], 1);
}

TEST(Visit, RecordsGradientsFromTheFirstTrainedPartOn) {
  Program program;
  Cut none{{}, program.units(), {}};
  Visit(none, kDraws, {"encoder.head"}).run({sample("a", 1)}, {{"noise", at::ones({1, 2})}});
  EXPECT_FALSE(program.recorded["body"]);
  EXPECT_TRUE(program.recorded["head"]);
  EXPECT_FALSE(program.recorded["add_noise"]);
  EXPECT_TRUE(program.recorded["loss"]);
}

TEST(Visit, TakesFromTheCutWhatItCarries) {
  Program program;
  auto cut = pipeline::cut(program.units(), kDraws, {"encoder.head", "dit"});
  EXPECT_THAT(cut.carried, ElementsAre("hidden", "latents"));
  EXPECT_THAT(Visit(cut, kDraws, {"encoder.head", "dit"}).inputs(), ElementsAre());
  cut = pipeline::cut(program.units(), kDraws, {"encoder"});
  EXPECT_THAT(Visit(cut, kDraws, {"encoder"}).inputs(), ElementsAre("prompt"));
}

TEST(Visit, TextsDoNotBatch) {
  Unit reads_both{"both", {"prompt", "noise"}, {"loss"}, {}, [](Scope& s) { s.write("loss", s.tensor("noise")); }};
  Visit visit({{}, {reads_both}, {}}, kDraws, {});
  EXPECT_THROW(visit.run({sample("a", 1), sample("b", 1)}, {{"noise", at::ones({2, 2})}}), std::logic_error);
}
