// Captions and masks that models write for the pictures of a dataset in a studio.
#include "tests/studio/dataset_served.h"

using namespace burnish;
using namespace burnish::test;

namespace {

class AnnotationTest : public DatasetTest {
 protected:
  json start(const json& wish) const { return ask("/api/datasets/cats/annotations", wish); }
  json last() const { return ask("/api/annotations").back(); }
};

}  // namespace

TEST_F(AnnotationTest, AreRunsOfTheVerbOverTheDatasetOneAfterTheOther) {
  ASSERT_EQ(put("a.png", picture(8, 16)), 200);
  std::ofstream(scratch / "hold") << "";
  start({{"verb", "caption"}, {"settings", "caption_style = \"tags\"\n"}});
  start({{"verb", "mask"}, {"settings", "mask_prompt = [\"a cat\"]\n"}});
  ASSERT_TRUE(comes_true([&] { return ask("/api/annotations")[0]["says"] == "caption 1/2"; }));
  EXPECT_EQ(last()["state"], "waiting");
  EXPECT_EQ(last()["verb"], "mask");
  EXPECT_EQ(last()["dataset"], "cats");
  fs::remove(scratch / "hold");
  ASSERT_TRUE(comes_true([&] { return last()["state"] == "ended"; }));
  EXPECT_EQ(last()["exit_code"], 0);
  EXPECT_EQ(text_of(scratch / "caption.toml"), "folder = [\"" + folder().string() + "\"]\ncaption_style = \"tags\"\n");
  EXPECT_EQ(text_of(scratch / "mask.toml"), "folder = [\"" + folder().string() + "\"]\nmask_prompt = [\"a cat\"]\n");
}

TEST_F(AnnotationTest, EndAndAreTakenOut) {
  std::ofstream(scratch / "hold") << "";
  const auto id = start({{"verb", "caption"}})["id"].get<std::string>();
  ASSERT_TRUE(comes_true([&] { return last()["says"] == "caption 1/2"; }));
  auto remove = [&] { return client().Delete("/api/annotations/" + id, {{"Authorization", "Bearer " + token}})->status; };
  EXPECT_EQ(remove(), 200);
  ASSERT_TRUE(comes_true([&] { return last()["state"] == "ended"; }));
  EXPECT_EQ(last()["exit_code"], 130);
  EXPECT_EQ(remove(), 200);
  EXPECT_TRUE(ask("/api/annotations").empty());
  EXPECT_EQ(remove(), 404);
}

TEST_F(AnnotationTest, AreOfTwoVerbsAndOfDatasetsThatAreThere) {
  EXPECT_EQ(start({{"verb", "train"}})["status"], 400);
  EXPECT_EQ(ask("/api/datasets/dogs/annotations", json{{"verb", "caption"}})["status"], 404);
  EXPECT_TRUE(ask("/api/annotations").empty());
}
