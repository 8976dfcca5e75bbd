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

std::vector<json> options_of(const std::string& verb) {
  return json::parse(run_burnish("help " + verb + " --json").output).at("options").get<std::vector<json>>();
}

/// Rows of a verb's options whose type is one of these; of other verbs than `train` and `plan` those that these do not have.
std::vector<json> rows_of(const std::string& verb, const std::vector<std::string>& types) {
  static const auto of_runs = options_of("train");
  const bool is_run = verb == "train" || verb == "plan";
  auto rows = is_run ? of_runs : options_of(verb);
  std::erase_if(rows, [&](const json& row) -> bool {
    const bool is_of_types = std::ranges::count(types, row.at("type").get<std::string>()) > 0;
    const bool is_of_run = std::ranges::any_of(of_runs, [&](const json& other) -> bool { return other.at("name") == row.at("name"); });
    return !is_of_types || row.contains("acts_outside") || (!is_run && is_of_run);
  });
  return rows;
}

/// An option of runs with a value that is not its default: of one that names a file, a LoRA's.
std::string given(const std::string& name) {
  for (const auto& row : options_of("train")) {
    if (row.at("name") != name) continue;
    if (row.at("type") == "truth value") return "--" + name + " ";
    if (row.at("names_files").get<bool>()) return option(name, kGolden / "lora.safetensors");
    return "--" + name + (row.at("type") == "text" ? " cat " : " 1 ");
  }
  return "--" + name + " ";
}

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
  if (option.ends_with(';')) return given(option.substr(0, option.size() - 1));
  value = value.substr(0, value.find_first_of(",;"));
  return "--" + option + " " + (value == "or" ? "" : value == "above" ? "1" : value) + " ";
}

/// Commands that are good but for an option that comes last and wins.
class EveryOption : public BadInput {
 protected:
  std::string command(const std::string& verb) const {
    if (verb == "train") return train("--overwrite --lora_target_modules to_q --max_steps 1 ");
    if (verb == "sample") return sample("");
    if (verb == "data") return "data " + quoted(kGolden / "pictures/metadata.csv") + " ";
    return "plan " + golden_model() + golden_data() + "--lora_rank 4 ";
  }
  void expect_told_with(const std::string& verb, const json& row, const std::string& value) const {
    const auto name = row.at("name").get<std::string>();
    std::string needed;
    Outcome outcome;
    for (int i = 0; i < 3; ++i) {
      outcome = run_burnish(fmt::format("{} {} '--{}={}'", command(verb), needed, name, value), "BURNISH_LOG=error");
      const auto more = outcome.exit_code == 2 ? needed_for(name, outcome.output) : "";
      if (more.empty()) break;
      needed += more;
    }
    expect_told(outcome, fmt::format("{} --{}={}", verb, name, value));
  }
};

constexpr const char* kNumber = "number";
constexpr const char* kWhole = "whole number";

/// The least and the most that a row allows, 0, and what none does.
class EveryNumber : public EveryOption, public testing::WithParamInterface<double> {};

/// What may stand where a text holds numbers: of a list, behind a name, or behind a file.
class EveryText : public EveryOption, public testing::WithParamInterface<const char*> {};

}  // namespace

// Counts are planned and not run: the most of some are steps without end.
TEST_P(EveryNumber, IsRefusedOrTrainedWith) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> verbs{
      {"train", {kNumber}}, {"plan", {kWhole}}, {"sample", {kNumber, kWhole}}, {"data", {kNumber, kWhole}}};
  for (const auto& [verb, types] : verbs) {
    for (const auto& row : rows_of(verb, types)) {
      const bool is_whole = row.at("type") == kWhole;
      if (GetParam() == 1e12 && is_whole && verb == "sample") continue;
      const auto value = GetParam() == -1e12 ? row.value("least", -1e12) : GetParam() == 1e12 ? row.value("most", 1e12) : GetParam();
      expect_told_with(verb, row, is_whole && std::abs(value) <= 1e15 ? fmt::format("{:.0f}", value) : fmt::format("{}", value));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, EveryNumber, testing::Values(-1e12, 0.0, 1e12, 1e300));

TEST_P(EveryText, IsRefusedOrTakenAsATextIs) {
  const auto file = write("a.safetensors", "").string();
  for (const std::string verb : {"plan", "sample", "data"}) {
    for (const auto& row : rows_of(verb, {"text", "list of texts"}))
      expect_told_with(verb, row, (row.at("names_files").get<bool>() ? file + ":" : "") + GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Numbers, EveryText, testing::Values("1e300", "-1", "nan", "0.5,1e300", "a=1e300", "x:99999999999999999999"));
