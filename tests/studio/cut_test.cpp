// What settings cut out of a dataset, as the program says it.
#include "tests/studio/dataset_served.h"

using namespace burnish;
using namespace burnish::test;

namespace {

/// Settings whose program says that the first picture is cut and another one, in a folder below, as well.
const std::string kSays =
    R"(echo "{\"pictures\": [{\"file\": \"$1/a.png\", \"cuts\": [{\"width\": 64}]}, {\"file\": \"$1/below/b.png\", \"cuts\": []}], \"unusable\": []}")";
const json kCuts = json::parse(R"({"exit_code": 0, "cuts": {"files": {"a.png": [{"width": 64}], "below/b.png": []}, "unusable": []}})");

}  // namespace

TEST_F(DatasetTest, CutsAreThoseOfSettingsOfARunOrOfAJob) {
  EXPECT_EQ(ask("/api/datasets/cats/cuts", json{{"settings", kSays}}), kCuts);
  fs::create_directories(run("one"));
  std::ofstream(run("one") / "config.toml") << kSays;
  EXPECT_EQ(ask("/api/datasets/cats/cuts", json{{"run", "one"}}), kCuts);
  ask("/api/queue", json{{"is_paused", true}});
  const auto job = ask("/api/queue/jobs", json{{"name", "two"}, {"settings", kSays}});
  EXPECT_EQ(ask("/api/datasets/cats/cuts", json{{"job", job["id"]}}), kCuts);
  for (const auto* none : {"two", "../one", ""}) EXPECT_EQ(ask("/api/datasets/cats/cuts", json{{"run", none}})["status"], 404);
  EXPECT_EQ(ask("/api/datasets/cats/cuts", json{{"job", "0009-x"}})["status"], 404);
  EXPECT_EQ(ask("/api/datasets/cats/cuts", json::object())["status"], 400);
}

TEST_F(DatasetTest, CutsOfWrongSettingsAreTheirProblems) {
  const auto problems = json::parse(R"({"problems": [{"option": "height", "sentence": "too small"}]})");
  EXPECT_EQ(ask("/api/datasets/cats/cuts", json{{"settings", "echo '" + problems.dump() + "'; exit 2"}}), problems);
  EXPECT_EQ(ask("/api/datasets/cats/cuts", json{{"settings", "echo 'no model' >&2; exit 3"}}),
            json::parse(R"({"exit_code": 3, "sentence": "no model"})"));
}
