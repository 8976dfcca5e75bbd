// What options of a training run say of themselves holds in a run.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "config/problems.h"
#include "config/refusal.h"
#include "tests/train/options/small_options.h"
#include "train/options/check.h"
#include "train/options/idle_options.h"
#include "train/options/meaning.h"

using namespace burnish;
using namespace burnish::train;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

namespace {

TrainOptions some() { return test::options_of({"--model", "model", "--dataset_metadata_path", "metadata.csv", "--max_steps", "2"}); }

/// What is wrong with these options, as "option: sentence".
std::vector<std::string> problems_of(const TrainOptions& options) {
  std::vector<std::string> all;
  try {
    check(options);
  } catch (const config::Refusal& refusal) {
    for (const auto& [option, sentence] : refusal.problems()) all.push_back(option + ": " + sentence);
  }
  return all;
}

}  // namespace

TEST(Options, EveryChoiceIsKnownToWhoeverReadsIt) {
  auto untouched = some();
  config::Fields rows;
  fields(rows, untouched);
  int64_t num_choices = 0;
  for (size_t i = 0; i < rows.list().size(); ++i) {
    for (const auto& choice : rows.list()[i].choices) {
      auto options = some();
      config::Fields own;
      fields(own, options);
      *std::get<std::string*>(own.list()[i].slot) = choice;
      for (const auto& problem : problems_of(options)) {
        bool is_about_it = problem.find("'" + choice + "'") != problem.npos;
        EXPECT_FALSE(is_about_it) << problem;
      }
      ++num_choices;
    }
  }
  EXPECT_GT(num_choices, 80);
}

/// Gives an option another value than it has by itself.
static void change(const config::Field& field) {
  if (auto* text = std::get_if<std::string*>(&field.slot)) **text = field.choices.empty() ? "x" : field.choices.back();
  if (auto* truth = std::get_if<bool*>(&field.slot)) **truth = !**truth;
  if (auto* number = std::get_if<double*>(&field.slot)) **number = field.name.starts_with("caption") ? 0.5 : 1;
  if (auto* whole = std::get_if<int64_t*>(&field.slot)) **whole += 1;
  if (auto* list = std::get_if<std::vector<std::string>*>(&field.slot)) **list = {"64"};
}

TEST(Options, OfADatasetAreReadRefusedOrSaidOverACache) {
  config::Fields rows;
  auto untouched = some();
  fields(rows, untouched);
  int64_t num_tried = 0;
  for (size_t i = 0; i < rows.list().size(); ++i) {
    const auto& name = rows.list()[i].name;
    if (rows.list()[i].dataset_key != name || name == "caption_dropout") continue;  // a run over a cache drops captions too
    auto options = test::options_of({"--model", "model", "--task", "sft:train", "--dataset_base_path", "cache", "--max_steps", "2"});
    ASSERT_THAT(problems_of(options), testing::IsEmpty());
    config::Fields own;
    fields(own, options);
    change(own.list()[i]);
    EXPECT_FALSE(problems_of(options).empty() && repeated_options(options).empty()) << name;
    ++num_tried;
  }
  EXPECT_GT(num_tried, 40);
}

TEST(Options, OfGroupsAreFortyAtMost) {
  auto options = some();
  config::Fields rows;
  fields(rows, options);
  std::map<std::string, int64_t> sizes;
  std::string before;
  for (const auto& field : rows.list()) {
    EXPECT_TRUE(field.group == before || !sizes.contains(field.group)) << field.name << ": " << field.group << " begins twice";
    EXPECT_LE(++sizes[before = field.group], 40) << field.group;
  }
}

TEST(Options, OfAFirstRunAreTwentyFive) {
  auto options = some();
  config::Fields rows;
  fields(rows, options);
  EXPECT_EQ(std::ranges::count(rows.list(), config::Level::first_run, &config::Field::level), 25);
}

TEST(Options, AreAllJudgedAtOnce) {
  auto options = some();
  options.adapter.rank = 0;
  options.course.batch_size = 0;
  options.step.optimizer.name = "adam";
  options.output.save.keep_best = true;
  options.timesteps.sigmoid_scale = 2;
  auto problems = problems_of(options);
  EXPECT_THAT(problems, Contains("lora_rank: lora_rank must be at least 1, not 0"));
  EXPECT_THAT(problems, Contains("batch_size: batch_size must be at least 1, not 0"));
  EXPECT_THAT(problems, Contains(HasSubstr("optimizer: optimizer must be one of adamw")));
  EXPECT_THAT(problems, Contains(HasSubstr("keep_best: keep_best goes by the loss of held-out samples")));
  EXPECT_THAT(problems, Contains(HasSubstr("sigmoid_scale: sigmoid_scale has no effect here")));
}

TEST(Options, ThatAreRightHaveNoProblem) { EXPECT_THAT(problems_of(some()), testing::IsEmpty()); }

TEST(Options, RanksOfLokrMayStandForAWholeFactor) {
  for (int64_t rank : {10000, 100000, 1000000}) {
    auto options = some();
    options.adapter.type = "lokr";
    options.adapter.rank = rank;
    options.trained.rank_groups = "dit=100000";
    EXPECT_THAT(problems_of(options), testing::IsEmpty()) << rank;
  }
  auto options = some();
  options.adapter.rank = 100000;
  EXPECT_THAT(problems_of(options), Contains(HasSubstr("lora_rank must be at most 16384, not 100000; lora_type lokr alone takes more")));
}

TEST(Options, ARankOfALoraToStartFromIsAskedForInFourWays) {
  auto rank_of = [](const std::vector<std::string>& given, int64_t rank, int64_t own, const char* file = "lora.safetensors") {
    TrainOptions options;
    options.given = given;
    options.adapter.rank = rank;
    options.trained.checkpoint_rank = own;
    options.trained.lora_checkpoint = file;
    return checkpoint_rank(options);
  };
  EXPECT_EQ(rank_of({}, 32, 0), 0) << "its default, which a config.toml holds too";
  EXPECT_EQ(rank_of({"lora_rank"}, 32, 0), 32);
  EXPECT_EQ(rank_of({}, 64, 0), 64);
  EXPECT_EQ(rank_of({}, 32, 48), 48);
  EXPECT_EQ(rank_of({"lora_rank"}, 64, 48), 64) << "typed beside a config.toml";
  EXPECT_EQ(rank_of({"lora_rank", "lora_checkpoint_rank"}, 64, 48), 48);
  EXPECT_EQ(rank_of({"lora_rank"}, 64, 0, ""), 0);
}
