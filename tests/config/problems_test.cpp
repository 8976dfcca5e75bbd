// What options say of themselves: ranges and choices that are checked, all problems at once, and a schema for other programs.
#include "config/problems.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_error.h"
#include "config/command_line.h"
#include "config/refusal.h"

using namespace burnish;
using namespace burnish::config;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

struct RunOptions {
  int64_t rank = 16;
  double rate = 0.5;
  std::string kind = "lora", rare = {};
  Fields fields() {
    Fields f;
    f.group("What is trained");
    f("rank", rank, "rank of the adapters").at_least(1).at_most(64).level(Level::first_run);
    f("rate", rate, "share of something").at_least(0).in("steps");
    f("kind", kind, "lora, dora or oft").one_of({"lora", "dora", "oft"}).decides_what_is_learned().level(Level::first_run);
    f("rare", rare, "of kind dora").counts_when("kind dora", [this] { return kind == "dora"; }).level(Level::all);
    return f;
  }
};

std::vector<std::string> sentences(const Problems& problems) {
  std::vector<std::string> all;
  for (const auto& problem : problems.list()) all.push_back(problem.option + ": " + problem.sentence);
  return all;
}

}  // namespace

TEST(Problems, OfValuesAreAllSaidAtOnce) {
  RunOptions o{.rank = 0, .rate = -1, .kind = "lorra"};
  auto fields = o.fields();
  Problems problems(fields);
  problems.check_values();
  EXPECT_THAT(sentences(problems), ElementsAre("rank: rank must be at least 1, not 0", "rate: rate must be at least 0, not -1",
                                               "kind: kind 'lorra' is not known; choose lora, dora or oft"));
  o = {.rank = 65, .rate = std::numeric_limits<double>::infinity()};
  Problems others(fields);
  others.check_values();
  EXPECT_THAT(sentences(others), ElementsAre("rank: rank must be at most 64, not 65", "rate: rate must be a finite number, not inf"));
}

TEST(Problems, ANumberWhoseRowSaysNoEndHasOneAllTheSame) {
  for (double rate : {1e12, 0.0}) {
    RunOptions o{.rate = rate};
    auto fields = o.fields();
    Problems problems(fields);
    problems.check_values();
    EXPECT_TRUE(problems.list().empty()) << rate;
  }
  double free = -1e300;
  RunOptions o{.rate = 1e300};
  auto fields = o.fields();
  fields("free", free, "a number without a range");
  Problems problems(fields);
  problems.check_values();
  EXPECT_THAT(sentences(problems), ElementsAre("rate: rate must be at most 1000000000000, not 1e+300",
                                               "free: free must be at least -1000000000000, not -1e+300"));
}

TEST(Problems, DoNotSayWhatFollowsFromAWrongValue) {
  RunOptions o{.rank = 0};
  auto fields = o.fields();
  Problems problems(fields);
  problems.check_values();
  problems.add("rate goes with a rank above it, which is {}", 0);
  problems.add("rare has no effect here: it belongs to kind dora; take it out");
  problems.add("rare is rare");
  EXPECT_THAT(sentences(problems),
              ElementsAre("rank: rank must be at least 1, not 0", "rare: rare has no effect here: it belongs to kind dora; take it out"));
}

TEST(Problems, AreAboutTheFirstOptionThatTheyName) {
  RunOptions o;
  auto fields = o.fields();
  Problems problems(fields);
  problems.add("with {} the rank of rare is not known", 3);
  problems.gather([] { config_error("train", "nothing to do"); });
  problems.gather([] { config_error("train", "nothing to do"); });
  EXPECT_THAT(sentences(problems), ElementsAre("rank: with 3 the rank of rare is not known", ": nothing to do"));
  EXPECT_THROW(problems.gather([] { data_error("train", "a file"); }), Error) << "which is no matter of options";
}

TEST(Problems, RefuseWithALineEach) {
  RunOptions o{.rank = 0, .kind = "x"};
  auto fields = o.fields();
  Problems problems(fields);
  EXPECT_NO_THROW(problems.refuse("train"));
  problems.check_values();
  try {
    problems.refuse("train");
    FAIL();
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code(), Exit::config);
    EXPECT_STREQ(refusal.what(), "[train] rank must be at least 1, not 0");
    EXPECT_EQ(refusal.lines(), "[train] rank must be at least 1, not 0\n[train] kind 'x' is not known; choose lora, dora or oft");
    auto json = nlohmann::json::parse(to_json(refusal.problems()));
    EXPECT_EQ(json["problems"][1], (nlohmann::json{{"option", "kind"}, {"sentence", "kind 'x' is not known; choose lora, dora or oft"}}));
  }
}

TEST(Help, IsOfAFirstRunAndSaysHowToSeeTheRest) {
  RunOptions o;
  auto fields = o.fields();
  auto help = [&](const std::vector<std::string>& more) {
    auto arguments = more;
    arguments.insert(arguments.begin(), "--help");
    return read_command_line("train", "trains", arguments, fields).help_text;
  };
  EXPECT_THAT(help({}), testing::AllOf(HasSubstr("--rank"), HasSubstr("--kind"), Not(HasSubstr("--rate ")), Not(HasSubstr("--rare")),
                                       HasSubstr("2 of 4 options"), HasSubstr("burnish train --help all")));
  EXPECT_THAT(help({"all"}), testing::AllOf(HasSubstr("--rank"), HasSubstr("--rate"), HasSubstr("--rare")));
}

TEST(Help, SaysWhatAnOptionMayBe) {
  RunOptions o;
  auto fields = o.fields();
  auto help = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "--help");
    return read_command_line("train", "trains", more, fields).help_text;
  };
  EXPECT_THAT(help({"--markdown"}), testing::AllOf(HasSubstr("| `--rank` | `16` | 1 to 64 | rank of the adapters |"),
                                                   HasSubstr("| `--rate` | `0.5` | at least 0 steps | share of something |"),
                                                   HasSubstr("| `--kind` | `\"lora\"` | lora, dora, oft | lora, dora or oft |"),
                                                   HasSubstr("| `--rare` | `\"\"` |  | of kind dora |")));
  EXPECT_EQ(help({"--choices", "--kind"}), "lora\ndora\noft\n");
  EXPECT_EQ(help({"--choices", "--rank"}), "");
  EXPECT_EQ(help({"--choices", "--other"}), "");
  EXPECT_EQ(help({"--choices"}), "");
}

TEST(CommandLine, SaysAllThatIsWrongAtOnce) {
  auto problems = [](const std::vector<std::string>& arguments, const std::function<void()>& check = {}) {
    RunOptions o;
    auto fields = o.fields();
    try {
      read_command_line("train", "trains", arguments, fields, check);
    } catch (const Refusal& refusal) {
      return refusal.lines();
    }
    return std::string("nothing");
  };
  EXPECT_EQ(problems({"--rnk", "3", "--rate", "fast", "--kind=x", "--rank=4.5", "stray"}),
            "[config] rank must be a whole number of 64 bits, not '4.5'\n[config] rate must be a number, not 'fast'\n"
            "[config] option 'rnk' is not known; did you mean 'rank'?\n"
            "[config] 'stray' belongs to no option; put quotes around a text of several words, and name an option again for each value\n"
            "[config] kind 'x' is not known; choose lora, dora or oft");
  EXPECT_EQ(problems({"--kind", "--rate", "4"}), "[config] --kind needs a value, and the option --rate follows");
  EXPECT_EQ(problems({"--rate", "x", "--rank"}),
            "[config] --rank needs a value (--help lists the options)\n[config] rate must be a number, not 'x'");
  EXPECT_EQ(problems({"--kind", "--rank"}),
            "[config] --rank needs a value (--help lists the options)\n[config] --kind needs a value (--help lists the options)");
  auto check = [] { config_error("train", "kind lora is too plain, and rate goes with it"); };
  EXPECT_EQ(problems({"--rank", "x"}, check),
            "[config] rank must be a whole number of 64 bits, not 'x'\n[config] kind lora is too plain, and rate goes with it");
  EXPECT_EQ(problems({"--rate", "x"}, check), "[config] rate must be a number, not 'x'") << "from which the other may follow";
  EXPECT_EQ(problems({"--rank", "0"}, check), "nothing") << "the verb checks";
  EXPECT_EQ(problems({"--rank", "x"}, [] { data_error("train", "no such file"); }),
            "[config] rank must be a whole number of 64 bits, not 'x'");
}

TEST(Toml, SaysAllThatIsWrongAtOnce) {
  RunOptions o;
  auto fields = o.fields();
  try {
    read_toml_text("rank = 'x'\nrnk = 2\nrate = true\n", fields);
    FAIL();
  } catch (const Refusal& refusal) {
    ASSERT_EQ(refusal.problems().size(), 3);
    EXPECT_EQ(refusal.problems()[0].option, "rank");
    EXPECT_THAT(refusal.lines(), testing::AllOf(HasSubstr("'rank' must be a whole number"), HasSubstr("'rate' must be a number"),
                                                HasSubstr("'rnk' is not known; did you mean 'rank'?")));
  }
}

TEST(Schema, HasARowAnOption) {
  RunOptions o;
  auto fields = o.fields();
  auto json = nlohmann::json::parse(read_command_line("train", "trains", {"--help", "--json"}, fields).help_text);
  EXPECT_EQ(json["verb"], "train");
  EXPECT_EQ(json["options"][0], (nlohmann::json{{"name", "rank"},
                                                {"group", "What is trained"},
                                                {"type", "whole number"},
                                                {"default", 16},
                                                {"meaning", "rank of the adapters"},
                                                {"level", "first_run"},
                                                {"names_files", false},
                                                {"decides_what_is_learned", false},
                                                {"least", 1.0},
                                                {"most", 64.0}}));
  EXPECT_EQ(json["options"][1]["unit"], "steps");
  EXPECT_EQ(json["options"][2]["choices"], (nlohmann::json{"lora", "dora", "oft"}));
  EXPECT_EQ(json["options"][3]["belongs_to"], nlohmann::json{"kind dora"});
}
