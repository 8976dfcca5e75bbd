// Options of other programs: taken without effect, or refused with the reason.
#include <gmock/gmock.h>

#include "base/error.h"
#include "config/command_line.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

struct Options {
  int64_t steps = 1;
};

config::Fields fields_of(Options& o) {
  config::Fields f;
  f("steps", o.steps, "how many");
  f.title_no_effect("Taken, no effect");
  f.no_effect("num_workers", true, "nothing to set");
  f.no_effect("find_unused", false, "nothing to find");
  f.refused("fp8_models", "weights are bf16");
  return f;
}

config::Parsed parse(Options& o, const std::vector<std::string>& args) { return config::read_command_line("v", "", args, fields_of(o)); }

}  // namespace

TEST(ForeignOptions, WithoutEffectAreTakenWithTheirValueAndReported) {
  Options o;
  auto parsed = parse(o, {"--num-workers", "8", "--find_unused", "--steps", "3"});
  EXPECT_EQ(o.steps, 3);
  EXPECT_THAT(parsed.without_effect, ElementsAre("num_workers", "find_unused"));
  EXPECT_TRUE(parse(o, {"--steps", "3"}).without_effect.empty());
}

TEST(ForeignOptions, AreTakenFromTomlAndNotWrittenBack) {
  Options o;
  Scratch scratch;
  auto file = scratch.write("c.toml", "num_workers = 8\nsteps = 5\n");
  EXPECT_THAT(parse(o, {"--config", file.string()}).without_effect, ElementsAre("num_workers"));
  EXPECT_EQ(o.steps, 5);
  EXPECT_EQ(config::to_toml(fields_of(o)).find("num_workers"), std::string::npos);
}

TEST(ForeignOptions, RefusedOnesSayWhyInBothPlaces) {
  Options o;
  EXPECT_THAT(error_of(
                  [&] {
                    parse(o, {"--steps", "2", "--fp8-models", "a"});
                  },
                  Exit::config),
              HasSubstr("'fp8_models' is not supported: weights are bf16"));
  Scratch scratch;
  auto file = scratch.write("c.toml", "fp8_models = \"a\"\n");
  EXPECT_THAT(error_of([&] { parse(o, {"--config", file.string()}); }, Exit::config), HasSubstr("weights are bf16"));
}

TEST(ForeignOptions, HelpListsThemUnderTheirTitleAndTyposFindThem) {
  Options o;
  EXPECT_THAT(parse(o, {"--help"}).help_text, HasSubstr("\nTaken, no effect\n  --num_workers "));
  EXPECT_THAT(error_of([&] { parse(o, {"--num_worker", "2"}); }, Exit::config), HasSubstr("did you mean 'num_workers'?"));
}
