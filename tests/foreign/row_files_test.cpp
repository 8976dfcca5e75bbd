#include "foreign/row_files.h"

#include <gmock/gmock.h>

#include "foreign/program.h"
#include "foreign/row_lines.h"
#include "tests/foreign/run_options.h"

using namespace burnish;
using foreign::Settings;
using foreign::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// What reading a text as a file x.rows says is wrong with it; "" for nothing.
std::string problem_of(const std::string& text) {
  try {
    foreign::read_rows("x.rows", text);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> names(const std::vector<foreign::SettingRow>& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.push_back(row.theirs);
  return names;
}

}  // namespace

TEST(RowFiles, EachKindOfRowDoesWhatItsHeadingSays) {
  test::RunOptions options;
  foreign::Import imported;
  foreign::Table table;
  table << foreign::read_rows(
      "x.rows",
      "# Names: a program's.\n\ncarried\n  dim -> lora_rank\n  rate -> learning_rate = 0.5\n\nswitch\n  v -> prediction_type "
      "\"v_prediction\" = false\n\nwords: no such optimizer\n  opt -> optimizer {\"mine\": \"lion\"}\n\nno_place: nothing "
      "is swapped\n  swap = 2\n  swaps.*\n\nneedless: says how a run is shown\n  title\n\nlooked_at\n  seen\n");
  const auto tree = Value::parse(R"({"dim": 16, "v": true, "opt": "Mine", "swap": 3, "swaps": {"a": 1}, "title": "x", "seen": 5})");
  foreign::apply(table, Settings(tree), true, options.fields, imported);
  const auto values = options.values();
  EXPECT_EQ(values.at("lora_rank"), "16");
  EXPECT_EQ(values.at("learning_rate"), "0.5");  // its default
  EXPECT_EQ(values.at("prediction_type"), "\"v_prediction\"");
  EXPECT_EQ(values.at("optimizer"), "\"lion\"");
  EXPECT_THAT(imported.not_carried, ElementsAre("swap = 3: nothing is swapped", "swaps.a = 1: nothing is swapped"));
  EXPECT_THAT(imported.needless, ElementsAre("title"));
}

TEST(RowFiles, AConditionSaysForWhichSettingsRowsCount) {
  const std::string rows = "carried where small\n  dim -> lora_rank = 3\n\ncarried\n  rate -> learning_rate\n";
  const auto is_small = [](const Settings& all) { return all.on("is_small"); };
  const auto apply = [&](const char* json, foreign::Import& imported) {
    test::RunOptions options;
    foreign::Table table;
    table << foreign::read_rows("x.rows", rows, {{"small", is_small}}) << foreign::needless("is_small", "looked at");
    foreign::apply(table, Settings(Value::parse(json)), true, options.fields, imported);
    return options.values().at("lora_rank");
  };
  foreign::Import small, large, absent;
  EXPECT_EQ(apply(R"({"dim": 16, "is_small": true})", small), "16");
  EXPECT_THAT(small.not_carried, ElementsAre());
  EXPECT_NE(apply(R"({"dim": 16})", large), "16");
  EXPECT_THAT(large.not_carried, ElementsAre("dim = 16: is left unread there for a model of this kind"));
  EXPECT_NE(apply(R"({"rate": 1})", absent), "3") << "its default counts as little";
  EXPECT_THAT(absent.not_carried, ElementsAre());
  EXPECT_THAT(problem_of("carried where tall\n  dim -> lora_rank\n"), HasSubstr("x.rows:1: no condition is called so"));
}

TEST(RowFiles, BracesStandForEachOfTheirNames) {
  EXPECT_THAT(names(foreign::read_rows("x.rows", "looked_at\n  {unet,text_encoder}.train = true\n  a_{1,2}\n")),
              ElementsAre("unet.train", "text_encoder.train", "a_1", "a_2"));
}

TEST(RowFiles, AMalformedLineIsRefusedWithFileAndLine) {
  for (const auto& [text, problem] :
       std::vector<std::pair<std::string, std::string>>{{"  a\n", "x.rows:1: a row has no heading above it"},
                                                        {"# x\nlooked_at\n\nnoplace: why\n  a\n", "x.rows:4: expected a heading"},
                                                        {"no_place\n  a\n", "x.rows:1: expected a sentence"},
                                                        {"looked_at: why\n", "x.rows:1: this heading has no sentence"},
                                                        {"looked_at\n  a b\n", "x.rows:2: expected a name"},
                                                        {"looked_at\n  a \n", "x.rows:2: ends in a blank"},
                                                        {"looked_at\n a\n", "x.rows:2: expected a heading"},
                                                        {"looked_at\n  a -> b\n", "x.rows:2: rows of this heading have no option of ours"},
                                                        {"carried\n  a\n", "x.rows:2: expected -> and our option"},
                                                        {"carried\n  a -> b 1\n", "x.rows:2: expected our option alone"},
                                                        {"switch\n  a -> b\n", "x.rows:2: expected a value"}}) {
    EXPECT_THAT(problem_of(text), HasSubstr(problem)) << text;
    EXPECT_EQ(std::to_string(foreign::malformed_line(text)), problem.substr(7, 1)) << text;
  }
}

TEST(RowFiles, AValueOfAnotherKindOrARowAgainIsRefusedWithFileAndLine) {
  EXPECT_THAT(problem_of("looked_at\n  a = yes\n"), HasSubstr("x.rows:2: a value or default is no JSON"));
  EXPECT_THAT(problem_of("words: why\n  a -> b 1\n"), HasSubstr("x.rows:2: a value or default is no JSON"));
  EXPECT_THAT(problem_of("looked_at\n  a\n\nno_place: why\n  a\n"), HasSubstr("x.rows:5: a stands in a line above"));
  EXPECT_EQ(problem_of("carried\n  a -> b\n  a -> c\n"), "");
}

TEST(RowFiles, AllThatAreBuiltInAreReadAndNameOptionsThatThereAre) {
  const auto options = test::RunOptions().values();
  foreign::Conditions conditions;  // by whatever name
  for (const char* name : {"unet", "sd15", "discrete", "told_guidance", "without_h3"})
    conditions[name] = [](const Settings&) { return true; };
  size_t num_rows = 0;
  for (const auto& [name, text] : foreign::row_files()) {
    for (const auto& row : foreign::rows_in(name, conditions)) {
      EXPECT_TRUE(row.ours.empty() || options.contains(row.ours)) << name << ".rows: " << row.theirs << " -> " << row.ours;
      ++num_rows;
    }
  }
  for (const auto& program : foreign::programs()) EXPECT_FALSE(program.table().rows.empty()) << "has all conditions of its file";
  EXPECT_GT(num_rows, 1000u);
}
