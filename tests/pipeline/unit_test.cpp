#include "pipeline/unit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

using namespace burnish::pipeline;

namespace {

Unit pass(std::string name, std::vector<std::string> reads, std::vector<std::string> writes, std::vector<std::string> models = {}) {
  return {name, reads, writes, models, [reads, writes, models](Scope& scope) {
            for (auto& m : models) scope.uses(m);
            for (auto& w : writes) scope.write(w, scope.tensor(reads.front()));
          }};
}

Units flow() {
  return {pass("encode", {"image"}, {"latents"}, {"vae"}), pass("embed", {"caption"}, {"text"}, {"encoder"}),
          pass("noise", {"latents", "noise"}, {"noisy"}), pass("denoise", {"noisy", "text"}, {"prediction"}, {"dit"})};
}

}  // namespace

TEST(Unit, CutKeepsWhatDependsOnTheSampleAlone) {
  auto c = cut(flow(), {"noise"}, {"dit"});
  ASSERT_EQ(c.prepare.size(), 2u);
  EXPECT_EQ(c.carried, (std::vector<std::string>{"latents", "text"}));
  EXPECT_EQ(models_of(c.live), (std::vector<std::string>{"dit"}));
}

TEST(Unit, TrainedEncoderIsLive) {
  auto c = cut(flow(), {"noise"}, {"dit", "encoder"});
  ASSERT_EQ(c.prepare.size(), 1u);
  EXPECT_EQ(c.prepare[0].name, "encode");
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
