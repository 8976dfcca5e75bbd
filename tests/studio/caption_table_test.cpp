// Tables of captions in a dataset's folder: shown as its captions, and written back with all else as it was.
#include "studio/caption_table.h"

#include "tests/studio/dataset_served.h"

using namespace burnish;
using namespace burnish::test;

namespace {

std::string caption_in(const json& items, const std::string& file) {
  for (const auto& item : items) {
    if (item["file"] == file) return item["caption"].is_null() ? "(none)" : item["caption"].get<std::string>();
  }
  return "(no such file)";
}

TEST_F(DatasetTest, ShowsAndWritesATableOfCaptions) {
  ASSERT_EQ(put("a.png", picture(8, 8)) + put("b.png", picture(8, 8)) + put("c.png", picture(8, 8)) + put("b.txt", "beside it"), 800);
  std::ofstream(folder() / "metadata.csv", std::ios::binary)
      << "\xef\xbb\xbfimage,prompt,weight\r\na.png,\"a cat, \"\"Tom\"\"\",1\r\nb.png,,2\r\n";
  EXPECT_EQ(caption_in(items(), "a.png"), "a cat, \"Tom\"");
  EXPECT_EQ(caption_in(items(), "b.png"), "(none)") << "training reads the table, which says nothing of it";
  EXPECT_EQ(ask("/api/datasets")[0]["captions"], 1);
  const json wish{{"captions", {{"a.png", "a dog"}, {"b.png", "a fox, red"}, {"c.png", "new"}}}, {"known", {{"a.png", "a cat, \"Tom\""}}}};
  EXPECT_EQ(ask("/api/datasets/cats/captions", wish)["before"]["a.png"], "a cat, \"Tom\"");
  EXPECT_EQ(text_of(folder() / "metadata.csv"),
            "\xef\xbb\xbfimage,prompt,weight\r\na.png,a dog,1\r\nb.png,\"a fox, red\",2\r\nc.png,new,\n");
  EXPECT_EQ(text_of(folder() / "b.txt"), "beside it") << "it is another program's";
}

TEST_F(DatasetTest, WritesLinesOfObjectsAsTheyWere) {
  ASSERT_EQ(put("a.png", picture(8, 8)), 200);
  std::ofstream(folder() / "metadata.jsonl") << R"({"seed": 3, "file_name": "a.png", "text": "a cat"})"
                                             << "\n\n"
                                             << R"({"file_name": "b.png", "text": "gone"})"
                                             << "\n";
  EXPECT_EQ(caption_in(items(), "a.png"), "a cat");
  ask("/api/datasets/cats/captions", json{{"captions", {{"a.png", "a dog"}}}});
  EXPECT_EQ(text_of(folder() / "metadata.jsonl"), R"({"seed":3,"file_name":"a.png","text":"a dog"})"
                                                  "\n\n"
                                                  R"({"file_name": "b.png", "text": "gone"})"
                                                  "\n");
}

TEST(CaptionTable, IsNoneWithoutItsColumns) {
  const Scratch scratch;
  std::ofstream(scratch / "metadata.csv") << "name,size\na.png,3\n";
  EXPECT_FALSE(studio::CaptionTable::of(scratch.path()));
  EXPECT_FALSE(studio::CaptionTable::of(scratch / "nowhere"));
}

}  // namespace
