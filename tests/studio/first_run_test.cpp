// What a first run in the studio needs beside pictures of one's own: the demo that comes with the program, and prompts that were typed.
#include <gmock/gmock.h>

#include "tests/studio/served.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class FirstRunTest : public StudioTest {
 protected:
  void add_demo() const {
    for (const char* folder : {"model", "pictures"}) fs::create_directories(scratch / folder);
    std::ofstream(scratch / "demo.json")
        << R"({"title": "a small one", "model": "model", "pictures": "pictures", "settings": "demo.toml"})";
    std::ofstream(scratch / "demo.toml") << "max_steps = 60\n";
    std::ofstream(scratch / "model/model_index.json") << "{}";
    for (const char* file : {"a.png", "a.txt"}) std::ofstream(scratch / "pictures" / file) << "of " << file;
  }
};

TEST_F(FirstRunTest, HasNoDemoWhereNoneComesWithTheProgram) {
  EXPECT_TRUE(ask("/api/studio")["demo"].is_null());
  EXPECT_THAT(ask("/api/demo", json::object())["sentence"].get<std::string>(), HasSubstr("add pictures of your own"));
}

TEST_F(FirstRunTest, MakesADatasetOfTheDemosPicturesOnce) {
  add_demo();
  const auto demo = ask("/api/studio")["demo"];
  EXPECT_EQ(demo["model"], (scratch / "model").string());
  EXPECT_EQ(demo["bytes"], 2);
  EXPECT_EQ(demo["settings"], "max_steps = 60\n");
  EXPECT_EQ(demo["pictures"], 1);
  EXPECT_EQ(ask("/api/demo", json::object())["name"], "demo");
  EXPECT_EQ(text_of(root() / "datasets/demo/a.txt"), "of a.txt");
  EXPECT_EQ(ask("/api/demo", json::object())["name"], "demo") << "it is there already";
  fs::remove(root() / "datasets/demo/a.png");
  EXPECT_EQ(ask("/api/demo", json::object())["name"], "demo-2") << "that one became somebody's own";
}

TEST_F(FirstRunTest, KeepsPromptsByTheirContent) {
  const auto path = ask("/api/prompts", json{{"text", " a cat --w 64\na dog\n"}})["path"].get<std::string>();
  EXPECT_EQ(ask("/api/prompts", json{{"text", "a cat --w 64\na dog"}})["path"], path);
  EXPECT_NE(ask("/api/prompts", json{{"text", "a fox"}})["path"], path);
  EXPECT_EQ(text_of(root() / "queue" / path), "a cat --w 64\na dog\n") << "settings lie in queue/";
  EXPECT_EQ(ask("/api/prompts?path=" + path)["text"], "a cat --w 64\na dog\n");
  const auto whole = (root() / "queue" / path).lexically_normal().string();
  EXPECT_EQ(ask("/api/prompts?path=" + std::regex_replace(whole, std::regex(" "), "%20"))["text"], "a cat --w 64\na dog\n")
      << "a run's config.toml has it so";
  EXPECT_EQ(ask("/api/prompts?path=../.token")["status"], 404);
  EXPECT_EQ(ask("/api/prompts", json{{"text", " \n"}})["status"], 400);
}

}  // namespace
