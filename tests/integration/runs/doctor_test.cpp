// What `burnish doctor` says trains on a machine, beside what `burnish plan` says of the same runs.
#include <gmock/gmock.h>

#include "app/what_trains.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

nlohmann::json plan_of(const std::string& flags) {
  auto outcome = run_burnish("plan --json --fit " + flags, "BURNISH_LOG=error");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
}

/// Expects of a plan what was said without it.
void expect_agreement(const app::Trainable& model, app::Trains what, const std::string& memory, train::HowItFits said) {
  const auto flags = app::plan_flags(model, what, memory);
  const auto plan = plan_of(flags);
  EXPECT_EQ(plan.at("fits").get<bool>(), said == train::HowItFits::as_it_is) << flags;
  EXPECT_TRUE(said != train::HowItFits::with_options || plan.contains("fit")) << flags;
}

class WhatTrains : public testing::TestWithParam<const char*> {};

}  // namespace

TEST(Doctor, SaysWhatTrainsAsPlanDoes) {
  const auto models = app::trainable_models();
  const auto& smallest = models.front();
  EXPECT_EQ(smallest.name, "sd15");
  std::set<train::HowItFits> answers;
  for (const auto* memory : {"1GiB", "3GiB", "24GiB"}) {
    const auto how = app::how_it_fits(smallest, app::Trains::whole, memory);
    expect_agreement(smallest, app::Trains::whole, memory, how);
    answers.insert(how);
  }
  EXPECT_EQ(answers.size(), 3u);
}

TEST(Doctor, ListsEveryFamilyOnce) {
  const auto models = app::trainable_models();
  for (const auto* name : {"flux-dev", "sdxl", "wan-t2v-1.3b", "wan-t2v-14b", "flux2-klein-4b", "flux2-dev", "qwen-image"})
    EXPECT_EQ(std::ranges::count(models, name, &app::Trainable::name), 1) << name;
  EXPECT_TRUE(std::ranges::is_sorted(models, {}, &app::Trainable::num_bytes));
  EXPECT_EQ(std::ranges::count(models, "flux-schnell", &app::Trainable::name), 0) << "of flux-dev's size";
}

TEST(Doctor, EndsWithWhatComesNext) {
  const auto outcome = run_burnish("doctor --quick --memory 16");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("next: burnish new --memory 16GB"));
  EXPECT_THAT(outcome.output, testing::Not(HasSubstr("what trains on")));
  EXPECT_EQ(run_burnish("doctor --memory lots").exit_code, 2);
}

TEST_P(WhatTrains, AsPlanSays) {
  const auto model = app::trainable(*models::find_published(GetParam()));
  for (auto what : {app::Trains::lora, app::Trains::whole}) {
    for (const auto* memory : {"12GB", "24GB", "80GB"}) {
      expect_agreement(model, what, memory, app::how_it_fits(model, what, memory));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, WhatTrains, testing::Values("sdxl", "flux2-klein-4b", "z-image", "flux-dev", "qwen-image", "wan-t2v-14b"));
