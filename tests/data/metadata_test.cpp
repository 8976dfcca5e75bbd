#include "data/metadata.h"

#include <gmock/gmock.h>

#include "data/load_metadata.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

const std::string kMark = "\xEF\xBB\xBF";

std::string csv_refusal(const std::string& text) {
  return error_of([&] { data::parse_csv(text, "m.csv"); });
}
std::string lines_refusal(const std::string& text) {
  return error_of([&] { data::parse_json_lines(text, "m.jsonl"); });
}
std::string list_refusal(const std::string& text) {
  return error_of([&] { data::parse_json_list(text, "m.json"); });
}

}  // namespace

TEST(Csv, QuotesCommasAndLineEnds) {
  auto m = data::parse_csv(
      "image,prompt,note\r\n"
      "a.png,\"a fox, red\",\r\n"
      "\r\n"
      "b.png,\"two\nlines and \"\"quotes\"\"\", kept blanks \n"
      ",,",
      "m.csv");
  EXPECT_THAT(m.columns, ElementsAre("image", "prompt", "note"));
  ASSERT_EQ(m.rows.size(), 3u);
  EXPECT_EQ(m.rows[0]["prompt"], "a fox, red");
  EXPECT_EQ(m.rows[0]["note"], "");
  EXPECT_EQ(m.rows[1]["prompt"], "two\nlines and \"quotes\"");
  EXPECT_EQ(m.rows[1]["note"], " kept blanks ");
  EXPECT_EQ(m.rows[2]["image"], "");
}

TEST(Csv, ByteOrderMarkAndOldLineEnds) {
  auto m = data::parse_csv(kMark + "image,prompt\ra.png,é 🦊\r", "m.csv");
  EXPECT_THAT(m.columns, ElementsAre("image", "prompt"));
  ASSERT_EQ(m.rows.size(), 1u);
  EXPECT_EQ(m.rows[0]["prompt"], "é 🦊");
}

TEST(Csv, AnIndexColumnWithoutName) {
  auto m = data::parse_csv(",image,prompt\n0,a.png,x\n", "m.csv");
  EXPECT_EQ(m.rows[0]["image"], "a.png");
}

TEST(Csv, DamageIsNamedByLine) {
  EXPECT_THAT(csv_refusal("image,prompt\na,b\nc,d,e\n"), AllOf(HasSubstr("m.csv line 3"), HasSubstr("3 cells under 2 columns")));
  EXPECT_THAT(csv_refusal("image,prompt\n\"a\nb\",c\nd\n"), HasSubstr("line 4")) << "a quoted line end counts";
  EXPECT_THAT(csv_refusal("image,prompt\na,\"b\nc,d\n"), AllOf(HasSubstr("line 2"), HasSubstr("never closed")));
  EXPECT_THAT(csv_refusal("image,prompt\na,\"b\" c\n"), AllOf(HasSubstr("line 2"), HasSubstr("after a closing quote")));
  EXPECT_THAT(csv_refusal("image,prompt\na,b\nc,caf\xe9\n"), AllOf(HasSubstr("line 3"), HasSubstr("not UTF-8")));
  EXPECT_THAT(csv_refusal("image,prompt,image\na,b,c\n"), AllOf(HasSubstr("line 1"), HasSubstr("two columns are named 'image'")));
}

TEST(Csv, NoRows) {
  for (const auto& text : {std::string(), kMark, std::string("\n\n"), std::string("image,prompt\n")})
    EXPECT_THAT(csv_refusal(text), HasSubstr("m.csv has no rows")) << text;
}

TEST(JsonLines, BlankLinesAndAMarkAreSkipped) {
  auto m = data::parse_json_lines(kMark + "{\"image\":\"a.png\",\"prompt\":null}\r\n\n  {\"image\":\"b.png\",\"n\":3}", "m.jsonl");
  ASSERT_EQ(m.rows.size(), 2u);
  EXPECT_TRUE(m.rows[0]["prompt"].is_null());
  EXPECT_EQ(m.rows[1]["n"], 3);
  EXPECT_THAT(m.columns, ElementsAre("image", "prompt"));
}

TEST(JsonLines, DamageIsNamedByLine) {
  std::string good = "{\"image\":\"a.png\"}\n";
  EXPECT_THAT(lines_refusal(good + "\n" + "{\"image\":\n"), AllOf(HasSubstr("m.jsonl line 3"), HasSubstr("not valid JSON")));
  EXPECT_THAT(lines_refusal(good + "[1]\n"), AllOf(HasSubstr("line 2"), HasSubstr("expected an object")));
  EXPECT_THAT(lines_refusal(good + "{\"n\":1e999}\n"), AllOf(HasSubstr("line 2"), HasSubstr("out of range")));
  EXPECT_THAT(lines_refusal(good + "{\"n\":\"\xe9\"}\n"), HasSubstr("line 2"));
  EXPECT_THAT(lines_refusal(good + good + "{} {}"), HasSubstr("line 3"));
  EXPECT_THAT(lines_refusal(kMark + "\n \n"), HasSubstr("has no rows"));
}

TEST(JsonList, RowsAreObjects) {
  auto m = data::parse_json_list(kMark + R"([{"image":"a.png"},{"image":["b.png"]}])", "m.json");
  ASSERT_EQ(m.rows.size(), 2u);
  EXPECT_TRUE(m.rows[1]["image"].is_array());
  EXPECT_THAT(list_refusal(R"([{"image":"a.png"},7])"), AllOf(HasSubstr("m.json row 1"), HasSubstr("found number")));
  EXPECT_THAT(list_refusal(R"({"image":"a.png"})"), HasSubstr("a list of objects"));
  EXPECT_THAT(list_refusal("[\n{},\n{\n]"), AllOf(HasSubstr("m.json line 4"), HasSubstr("not valid JSON")));
  EXPECT_THAT(list_refusal("[]"), HasSubstr("has no rows"));
  EXPECT_THAT(list_refusal(""), HasSubstr("not valid JSON"));
}

TEST(JsonList, DeepNestingIsRefused) {
  auto nested = [](size_t levels) { return "[{\"note\":" + std::string(levels, '[') + std::string(levels, ']') + "}]"; };
  EXPECT_EQ(data::parse_json_list(nested(50), "m.json").rows.size(), 1u);
  EXPECT_THAT(list_refusal(nested(1'000'000)), HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(list_refusal(std::string(50, '[')), HasSubstr("not valid JSON"));
}

TEST(LoadMetadata, TheNameTellsTheKind) {
  Scratch scratch;
  EXPECT_EQ(data::load_metadata(scratch.write("a.csv", "image\na.png\n")).rows.size(), 1u);
  EXPECT_EQ(data::load_metadata(scratch.write("a.json", R"([{"image":"a"}])")).rows.size(), 1u);
  EXPECT_EQ(data::load_metadata(scratch.write("a.jsonl", R"({"image":"a"})")).rows.size(), 1u);
  EXPECT_THAT(error_of([&] { data::load_metadata(scratch.write("a.txt", "")); }),
              HasSubstr("must be a .csv, .json, .jsonl or .parquet file"));
  EXPECT_THAT(error_of([&] { data::load_metadata(scratch / "absent.csv"); }), AllOf(HasSubstr("absent.csv"), HasSubstr("No such file")));
}

TEST(Metadata, ABackslashInJsonIsExplained) {
  EXPECT_THAT(error_of([] { data::parse_json_lines("{\"image\": \"sub\\p0.png\"}", "m.jsonl"); }),
              AllOf(HasSubstr("m.jsonl line 1: not valid JSON"), HasSubstr("with /, or each backslash twice")));
}
