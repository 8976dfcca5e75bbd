// A second way through a graph: what it has of its own, with which weights, and when its units run.
#include "pipeline/twins.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "pipeline/cut.h"
#include "pipeline/schedule.h"

namespace burnish::twins_test {
using namespace burnish::pipeline;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

namespace {

/// Writes the sum of what it reads, times the weight of its model.
Unit sum(std::string name, std::vector<std::string> reads, std::string write, std::vector<std::string> models = {}) {
  auto run = [reads, write, models](Scope& s) {
    auto total = at::zeros({1});
    for (const auto& read : reads) total = total + s.tensor(read);
    for (const auto& model : models) s.uses(model);
    s.write(write, models.empty() ? total : 2 * total);
  };
  return {std::move(name), std::move(reads), {std::move(write)}, std::move(models), run};
}

const Units kUnits{sum("encode", {"prompt"}, "text", {"encoder"}), sum("look", {"image"}, "latents", {"vae"}),
                   sum("add", {"latents", "noise"}, "noisy"), sum("denoise", {"noisy", "text"}, "prediction", {"dit"}),
                   sum("compare", {"prediction", "latents"}, "error")};
const std::map<std::string, Labels> kInputs{
    {"prompt", {.sample = true}}, {"image", {.sample = true}}, {"other_image", {.sample = true}}, {"noise", {.timestep = true}}};

std::vector<std::string> names(const Units& units) {
  std::vector<std::string> list;
  for (const auto& unit : units) list.push_back(unit.name);
  return list;
}

Units with(Units units, const Units& more) {
  units.insert(units.end(), more.begin(), more.end());
  return units;
}

/// The reference's error too, by which the last unit measures.
Units with_reference(const Difference& difference) {
  auto units = with(kUnits, twins(kUnits, difference));
  units.push_back(sum("loss", {"error", difference.prefix + "error"}, "loss"));
  return units;
}

}  // namespace

TEST(Twins, ShareWhatTheDifferenceDoesNotReach) {
  auto other = twins(kUnits, {.prefix = "other_", .values = {"image"}});
  EXPECT_THAT(names(other), ElementsAre("other_look", "other_add", "other_denoise", "other_compare"));
  EXPECT_THAT(other[0].reads, ElementsAre("other_image"));
  EXPECT_THAT(other[2].reads, ElementsAre("other_noisy", "text"));
  Values values;
  for (const auto& [name, number] : {std::pair{"prompt", 1.0}, {"image", 3.0}, {"other_image", 5.0}, {"noise", 7.0}})
    values[name] = at::full({1}, number);
  run(with(kUnits, other), values);
  auto number = [&](const char* name) { return std::get<at::Tensor>(values.at(name)).item<double>(); };
  EXPECT_EQ(number("error"), 2 * (6 + 7 + 2) + 6);
  EXPECT_EQ(number("other_error"), 2 * (10 + 7 + 2) + 10);
  auto audited = values;
  for (const auto& unit : other) EXPECT_TRUE(audit(unit, audited).empty());
}

TEST(Twins, ReadAValueThatIsWrittenAnewWithoutThem) {
  Units units{sum("a", {"image"}, "x"), sum("b", {"noise"}, "x"), sum("c", {"x"}, "y")};
  EXPECT_THAT(names(twins(units, {.prefix = "other_", .values = {"image"}})), ElementsAre("other_a"));
}

TEST(Twins, WithFrozenWeightsDependOnNothingThatTrains) {
  auto units = with_reference({.prefix = "ref_", .frozen = {"dit"}});
  auto plan = schedule(units, kInputs, {"dit"});
  EXPECT_EQ(plan.labels.values.at("prediction").text(), "DTθ");
  EXPECT_EQ(plan.labels.values.at("ref_error").text(), "DT");
  EXPECT_THAT(plan.live.with_gradient, UnorderedElementsAre("denoise", "compare", "loss"));
  EXPECT_TRUE(plan.ahead.units.empty()) << "the model is in memory anyway";
  EXPECT_TRUE(has_unit(plan.live.units, "ref_denoise"));
}

TEST(Twins, OfATrainedEncoderRunOnceASample) {
  auto plan = schedule(with_reference({.prefix = "ref_", .frozen = {"encoder"}}), kInputs, {"encoder"});
  EXPECT_THAT(names(plan.once.units), ElementsAre("look", "ref_encode"));
  EXPECT_TRUE(has_unit(plan.live.units, "ref_denoise")) << "it reads another text";
}

TEST(Twins, WithInitialWeightsRunBeforeTraining) {
  auto units = with_reference({.prefix = "ref_", .initial = {"dit", "encoder"}});
  auto plan = schedule(units, kInputs, {"dit", "encoder"});
  EXPECT_THAT(names(plan.once.units), ElementsAre("look", "ref_encode"));
  EXPECT_THAT(names(plan.ahead.units), ElementsAre("add", "ref_denoise", "ref_compare"));
  EXPECT_THAT(plan.ahead.kept, ElementsAre("ref_error")) << "a number a sample, and not its prediction";
  EXPECT_THAT(names(plan.live.units), ElementsAre("encode", "add", "denoise", "compare", "loss"));
  auto problem = cut_problem(plan);
  for (const auto& unit : problem.units) EXPECT_EQ(unit.must_not_run, unit.name == "ref_encode") << unit.name;
}

TEST(Twins, WritePaddedValuesOfWhatIsPadded) {
  const Units units{sum("encode", {"prompt"}, "text", {"encoder"}), sum("look", {"image"}, "image_text", {"vae"}),
                    sum("compare", {"text", "image_text", "noise"}, "error", {"dit"})};
  auto inputs = kInputs;
  inputs["other_prompt"] = {.sample = true};
  const auto both = with(units, twins(units, {.prefix = "other_", .values = {"prompt"}}));
  const auto stage = schedule(both, inputs, {"dit"}, {}, {"text"}).live;
  EXPECT_THAT(stage.joined, UnorderedElementsAre("text", "image_text", "other_text"));
  EXPECT_THAT(stage.padded, ElementsAre("other_text", "text")) << "and image_text is of nobody's twin";
}

}  // namespace burnish::twins_test
