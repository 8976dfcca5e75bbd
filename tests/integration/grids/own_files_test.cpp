// Whatever a hand does to what the program wrote itself, and whatever number is given: a sentence, and never an internal error.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "tests/integration/refused.h"
#include "tests/json_damage.h"

using namespace burnish;
using namespace burnish::test;
using nlohmann::json;

namespace {

/// Ends that a user can bring about: the run is done, or refused in a sentence.
void expect_told(const Outcome& outcome, const std::string& what) {
  const bool is_told = outcome.exit_code == 0 || outcome.exit_code == 2 || outcome.exit_code == 3 || outcome.exit_code == 4;
  EXPECT_TRUE(is_told) << what << ": " << outcome.exit_code << "\n" << outcome.output;
}

/// A cache of two samples, of which each file of JSON is damaged in one place at a time.
class CacheFiles : public BadInput {
 protected:
  CacheFiles() {
    write("two.csv", "image,prompt,loss_weight\n" + (kGolden / "pictures/0.png").string() + ",a cat,1\n" +
                         (kGolden / "pictures/1.png").string() + ",\"a tree, red\",0.5\n");
    const auto made = run_burnish("cache " + golden_model() + "--height 48 --width 64 --caption_dropout 0.1 " +
                                  option("dataset_metadata_path", at("two.csv")) + option("cache_path", at("cache")));
    EXPECT_EQ(made.exit_code, 0) << made.output;
  }
  void expect_training_is_told(const std::string& what) const {
    expect_told(run_burnish("train --task sft:train --overwrite --max_steps 1 --batch_size 2 --lora_rank 2 --lora_target_modules to_q " +
                                golden_model() + option("dataset_base_path", at("cache")) + option("output_path", out()),
                            "BURNISH_LOG=error"),
                what);
  }
  void damage(const fs::path& file, const json& damaged, const std::string& what) const {
    std::ofstream(file) << damaged;
    expect_training_is_told(file.filename().string() + " " + what);
  }
};

/// The kinds of damages by their numbers; behind the last one values are left out.
class DamagedCache : public CacheFiles, public testing::WithParamInterface<size_t> {};

}  // namespace

TEST_P(DamagedCache, IsTold) {
  const auto kinds = damages();
  std::vector<fs::path> files{at("cache/samples.json"), at("cache/manifest.json")};
  for (const auto& entry : fs::directory_iterator(at("cache"))) {
    if (fs::exists(entry.path() / "unit.json")) files.push_back(entry.path() / "unit.json");
  }
  for (const auto& file : files) {
    const auto before = read_file(file);
    const auto whole = json::parse(before);
    for (const auto& place : places_in(whole)) {
      auto damaged = whole;
      if (GetParam() < kinds.size()) damaged[place] = kinds[GetParam()];
      else damaged = without(whole, place);
      damage(file, damaged, place.to_string() + (GetParam() < kinds.size() ? " = " + kinds[GetParam()].dump() : " left out"));
    }
    std::ofstream(file) << before;
  }
  expect_training_is_told("as it was");
}

INSTANTIATE_TEST_SUITE_P(Values, DamagedCache, testing::Range(size_t{0}, damages().size() + 1));

TEST_F(CacheFiles, AListOfAnotherSizeOrOrderIsRefusedByName) {
  const auto file = at("cache/samples.json");
  const auto whole = json::parse(read_file(file));
  auto refused_with = [&](const std::string& place, const json& value, const std::vector<std::string>& words) {
    auto damaged = whole;
    damaged[json::json_pointer(place)] = value;
    std::ofstream(file) << damaged;
    auto outcome = run_burnish("train --task sft:train --lora_rank 2 --max_steps 1 " + golden_model() +
                                   option("dataset_base_path", at("cache")) + option("output_path", out()),
                               "BURNISH_LOG=error");
    expect_one_error(outcome, 3, words);
  };
  refused_with("/samples/1/height", 64, {"says that row 1 is", "make the cache again"});
  refused_with("/samples/1/row", 0, {"list of samples is damaged", "from 1 to"});
  refused_with("/samples/0/prompt", 7, {"samples.json is damaged", "burnish cache"});
  refused_with("/digests_of_options", "x", {"samples.json is damaged"});
}

namespace {

/// Numbers of options of `burnish train`, whose ends are given by their rows.
json numbers_of(const std::string& verb) {
  const auto all = json::parse(run_burnish("help " + verb + " --json").output);
  auto numbers = json::array();
  for (const auto& row : all.at("options")) {
    if (row.at("type") == "number") numbers.push_back(row);
  }
  return numbers;
}

class EveryNumber : public BadInput, public testing::WithParamInterface<double> {};

/// What options must be given for one to count, from "NAME has no effect here: it belongs to OPTION VALUE".
std::string needed_for(const std::string& name, const std::string& output) {
  const auto said = name + " has no effect here: it belongs to ";
  const auto at = output.find(said);
  if (at == output.npos) return "";
  std::istringstream words(output.substr(at + said.size()));
  std::string option, value;
  words >> option >> value;
  if (option == "the" && value == "tasks") {
    option = "task";
    words >> value;
  }
  value = value.substr(0, value.find_first_of(",;"));
  return "--" + option + " " + (value == "or" ? "" : value == "above" ? "1" : value) + " ";
}

}  // namespace

TEST_P(EveryNumber, IsRefusedOrTrainedWith) {
  for (const auto& row : numbers_of("train")) {
    const auto name = row.at("name").get<std::string>();
    const auto value = GetParam() == -1e12 ? row.value("least", -1e12) : GetParam() == 1e12 ? row.value("most", 1e12) : GetParam();
    std::string needed;
    Outcome outcome;
    for (int i = 0; i < 3; ++i) {
      outcome = run_burnish(train(fmt::format("--overwrite --lora_target_modules to_q --max_steps 1 {} --{}={}", needed, name, value)),
                            "BURNISH_LOG=error");
      const auto more = outcome.exit_code == 2 ? needed_for(name, outcome.output) : "";
      if (more.empty()) break;
      needed += more;
    }
    expect_told(outcome, fmt::format("{}={}", name, value));
  }
}

// The least and the most that a row allows, 0, and what none does.
INSTANTIATE_TEST_SUITE_P(Ends, EveryNumber, testing::Values(-1e12, 0.0, 1e12, 1e300));
