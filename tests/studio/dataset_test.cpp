// Datasets of a studio: plain files, which a page adds, shows, and changes.
#include <set>

#include "tests/golden.h"
#include "tests/studio/dataset_served.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

TEST_F(DatasetTest, AreFoldersOfPicturesWithCaptions) {
  EXPECT_EQ(put("a.png", picture(30, 40)), 200);
  EXPECT_EQ(put("b.png", picture(8, 8)), 200);
  EXPECT_EQ(put("a.txt", " a cat \n"), 200);
  EXPECT_EQ(put("broken.png", "no picture"), 200) << "which is shown, with the reason";
  EXPECT_EQ(ask("/api/datasets"),
            json::parse(R"([{"name": "cats", "items": 3, "first": ["a.png", "b.png", "broken.png"], "captions": 1, "folder": null}])"));
  auto all = items();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["file"], "a.png");
  EXPECT_EQ(all[0]["caption"], "a cat");
  EXPECT_EQ(all[0]["height"], 30);
  EXPECT_EQ(all[0]["width"], 40);
  EXPECT_TRUE(all[1]["caption"].is_null());
  EXPECT_THAT(all[2]["problem"], HasSubstr("broken.png"));
  EXPECT_EQ(put("a.png", picture(16, 16)), 200);
  EXPECT_TRUE(fs::exists(folder() / "a-2.png")) << "another of that name takes the place of none";
}

TEST_F(DatasetTest, KnowsAnimationsAsClips) {
  const auto bytes_of = [](const std::string& name) { return text_of(test::golden_path("clips/" + name)); };
  ASSERT_EQ(put("a.gif", bytes_of("base.gif")) + put("b.webp", bytes_of("anim.webp")) + put("c.mp4", bytes_of("base30.mp4")), 600);
  ASSERT_EQ(put("d.png", picture(8, 8)) + put("e.gif", bytes_of("base.gif").substr(0, 400)), 400);
  for (const auto& item : items()) EXPECT_EQ(item["is_clip"], item["file"] < "d") << item;
  const auto answer = client().Get("/api/datasets/cats/items/a.gif/file", {{"Cookie", cookie()}});
  EXPECT_EQ(answer->get_header_value("Content-Type"), "image/gif");
}

TEST_F(DatasetTest, ShowsPicturesSmall) {
  ASSERT_EQ(put("a.png", picture(300, 900)), 200);
  auto answer = client().Get("/api/datasets/cats/items/a.png/thumbnail", {{"Cookie", cookie()}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  auto pixels = data::decode_upright(answer->body, "thumbnail");
  EXPECT_EQ(pixels.sizes(), (std::vector<int64_t>{106, 320, 3}));
  EXPECT_EQ(client().Get("/api/datasets/cats/items/b.png/thumbnail", {{"Cookie", cookie()}})->status, 404);
}

TEST_F(DatasetTest, WritesCaptionsAndSaysWhatStoodThere) {
  ASSERT_EQ(put("a.png", picture(8, 8)) + put("b.png", picture(8, 8)) + put("a.txt", "a cat"), 600);
  auto before = ask("/api/datasets/cats/captions", json{{"captions", {{"a.png", "a dog"}, {"b.png", "a fox "}}}})["before"];
  EXPECT_EQ(before, json::parse(R"({"a.png": "a cat", "b.png": ""})"));
  EXPECT_EQ(text_of(folder() / "a.txt"), "a dog\n");
  EXPECT_EQ(text_of(folder() / "b.txt"), "a fox\n");
  ask("/api/datasets/cats/captions", json{{"captions", before}});
  EXPECT_EQ(text_of(folder() / "a.txt"), "a cat\n");
  EXPECT_FALSE(fs::exists(folder() / "b.txt")) << "it had none";
}

TEST_F(DatasetTest, KeepsCaptionsThatWereChangedElsewhere) {
  ASSERT_EQ(put("a.png", picture(8, 8)) + put("a.txt", "a cat") + put("b.png", picture(8, 8)), 600);
  const auto wish =
      json{{"captions", {{"a.png", "a fox"}, {"b.png", "a dog"}}}, {"known", {{"a.png", "what another tab wrote over"}, {"b.png", ""}}}};
  const auto answered = ask("/api/datasets/cats/captions", wish);
  EXPECT_EQ(answered["other"], json::parse(R"({"a.png": "a cat"})"));
  EXPECT_EQ(answered["before"], json::parse(R"({"b.png": ""})"));
  EXPECT_EQ(text_of(folder() / "a.txt"), "a cat");
  EXPECT_EQ(text_of(folder() / "b.txt"), "a dog\n");
}

TEST_F(DatasetTest, BringsBackWhatWasThrownAway) {
  ASSERT_EQ(put("a.png", picture(8, 8)) + put("a.txt", "a cat"), 400);
  const auto gone = client().Delete("/api/datasets/cats/items/a.png", {{"Authorization", "Bearer " + token}});
  ASSERT_TRUE(gone);
  const auto id = json::parse(gone->body).at("bin").get<std::string>();
  const auto bin = ask("/api/bin");
  ASSERT_EQ(bin.size(), 1u);
  EXPECT_EQ(bin[0]["from"], "datasets/cats/a.png");
  EXPECT_EQ(bin[0]["id"], id);
  ASSERT_EQ(put("a.png", picture(16, 16)), 200);
  EXPECT_THAT(ask("/api/bin/back", json{{"id", id}})["sentence"].get<std::string>(), HasSubstr("is there again"));
  fs::remove(folder() / "a.png");
  EXPECT_EQ(ask("/api/bin/back", json{{"id", id}}), json::object());
  EXPECT_EQ(items()[0]["caption"], "a cat");
  EXPECT_TRUE(ask("/api/bin").empty());
  EXPECT_EQ(ask("/api/bin/back", json{{"id", "../../x"}})["status"], 400);
}

TEST_F(DatasetTest, LeavesOutWithoutDeleting) {
  ASSERT_EQ(put("a.png", picture(8, 8)) + put("a.txt", "a cat"), 400);
  ask("/api/datasets/cats/leave_out", json{{"files", {"a.png"}}, {"out", true}});
  EXPECT_FALSE(fs::exists(folder() / "a.png"));
  EXPECT_EQ(items()[0]["is_left_out"], true);
  EXPECT_EQ(items()[0]["caption"], "a cat");
  ask("/api/datasets/cats/leave_out", json{{"files", {"a.png"}}, {"out", false}});
  EXPECT_TRUE(fs::exists(folder() / "a.png") && fs::exists(folder() / "a.txt"));
  EXPECT_EQ(remove("/items/a.png"), 200);
  EXPECT_TRUE(items().empty());
  EXPECT_TRUE(fs::exists(root() / "bin/pictures of cats/a.png"));
}

TEST_F(DatasetTest, HasWhatLiesInItsFolders) {
  const auto deep = folder() / "more/of them", elsewhere = scratch / "elsewhere";
  for (const auto& one : {deep, folder() / ".hidden", folder() / "clip", elsewhere}) fs::create_directories(one);
  for (const auto& one : {folder() / "b.png", deep / "a.png", folder() / ".hidden/c.png", folder() / "clip/0.png", elsewhere / "d.png"})
    data::write_png(one, at::full({8, 16, 3}, 128, at::kByte));
  std::ofstream(deep / "a.txt") << "a cat";
  std::ofstream(folder() / "clip.txt") << "frames of a clip";
  fs::create_directory_symlink(elsewhere, folder() / "linked");
  const std::string file = "more/of them/a.png", item = "items/more%2Fof%20them%2Fa.png";
  ASSERT_EQ(items().size(), 2u);
  EXPECT_EQ(items()[1]["file"], file);
  EXPECT_EQ(items()[1]["caption"], "a cat");
  EXPECT_EQ(ask("/api/datasets")[0]["items"], 2);
  EXPECT_EQ(client().Get("/api/datasets/cats/" + item + "/thumbnail", {{"Cookie", cookie()}})->status, 200);
  EXPECT_EQ(client().Get("/api/datasets/cats/items/linked%2Fd.png/thumbnail", {{"Cookie", cookie()}})->status, 404);
  EXPECT_EQ(client().Get("/api/datasets/cats/items/more%2F..%2Fb.png/thumbnail", {{"Cookie", cookie()}})->status, 404);
  EXPECT_EQ(send(item + "/mask", png(at::full({8, 16, 1}, 255, at::kByte))), 200);
  EXPECT_TRUE(items()[1]["mask"].is_number());
  EXPECT_EQ(ask("/api/datasets/cats/captions", json{{"captions", {{file, "a dog"}}}})["before"][file], "a cat");
  EXPECT_EQ(text_of(deep / "a.txt"), "a dog\n");
  ask("/api/datasets/cats/leave_out", json{{"files", {file}}, {"out", true}});
  EXPECT_TRUE(fs::exists(folder() / ".excluded/more/of them/a-masklabel.png"));
  EXPECT_EQ(items()[1]["is_left_out"], true);
  ask("/api/datasets/cats/leave_out", json{{"files", {file}}, {"out", false}});
  EXPECT_TRUE(fs::exists(deep / "a.txt"));
  EXPECT_EQ(remove("/" + item + "/mask"), 200);
  EXPECT_TRUE(items()[1]["mask"].is_null());
  EXPECT_EQ(remove("/" + item), 200);
  EXPECT_TRUE(fs::exists(root() / "bin/pictures of cats/a.txt"));
  EXPECT_EQ(items().size(), 1u);
}

TEST_F(DatasetTest, TakesNothingElse) {
  EXPECT_EQ(put("a.sh", "#!/bin/sh"), 400);
  EXPECT_EQ(put(".hidden.png", picture(8, 8)), 400);
  EXPECT_NE(put("..%2f..%2fa.png", picture(8, 8)), 200);
  EXPECT_FALSE(fs::exists(root() / "a.png"));
  EXPECT_EQ(ask("/api/datasets", json{{"name", "../dogs"}})["status"], 400);
  EXPECT_EQ(client().Put("/api/datasets/cats/files/a.png", picture(8, 8), "image/png")->status, 403) << "without a token";
}

TEST_F(DatasetTest, AnswersAreNotCompressed) {
  for (const auto* path : {"/api/datasets", "/api/options", "/", "/page/studio.js"}) {
    auto answer = client().Get(path, {{"Cookie", cookie()}, {"Accept-Encoding", "gzip, br"}});
    ASSERT_EQ(answer->status, 200) << path;
    EXPECT_FALSE(answer->has_header("Content-Encoding")) << path;
  }
}

TEST_F(DatasetTest, KeepEachOfManyFilesOfOneNameThatComeAtOnce) {
  constexpr int kFiles = 10;
  std::vector<std::thread> sending;
  for (int i = 0; i < kFiles; ++i) {
    sending.emplace_back([this, i] {
      auto bytes = picture(8, 8 + i) + std::string(1 << 20, 'x');
      EXPECT_EQ(put("IMG_0001.png", bytes), 200);
      auto lora = client().Put("/api/files/loras/x.safetensors", {{"Authorization", "Bearer " + token}}, std::to_string(i),
                               "application/octet-stream");
      EXPECT_TRUE(lora && lora->status == 200);
    });
  }
  for (auto& one : sending) one.join();
  EXPECT_EQ(items().size(), static_cast<size_t>(kFiles));
  std::set<int64_t> widths;
  for (const auto& item : items()) widths.insert(item["width"].get<int64_t>());
  EXPECT_EQ(widths.size(), static_cast<size_t>(kFiles)) << "each is another one";
  std::set<std::string> loras;
  for (const auto& entry : fs::directory_iterator(root() / "loras")) loras.insert(text_of(entry.path()));
  EXPECT_EQ(loras.size(), static_cast<size_t>(kFiles));
}

TEST_F(DatasetTest, LoseNothingToWhatHasTheirNames) {
  ASSERT_EQ(put("a.png", picture(8, 8)) + put("a.txt", "the first"), 400);
  ask("/api/datasets/cats/leave_out", json{{"files", {"a.png"}}, {"out", true}});
  ASSERT_EQ(put("a.png", picture(16, 16)) + put("a.txt", "the second"), 400);
  EXPECT_EQ(ask("/api/datasets/cats/leave_out", json{{"files", {"a.png"}}, {"out", true}})["status"], 409);
  EXPECT_EQ(text_of(folder() / "a.txt"), "the second");
  EXPECT_EQ(text_of(folder() / ".excluded/a.txt"), "the first");
  EXPECT_EQ(remove("/items/a.png"), 200);
  ASSERT_EQ(put("a.png", picture(16, 16)) + put("a.txt", "the third"), 400);
  EXPECT_EQ(remove("/items/a.png"), 200);
  EXPECT_EQ(text_of(root() / "bin/pictures of cats/a.txt"), "the second");
  EXPECT_EQ(text_of(root() / "bin/pictures of cats/a-2.txt"), "the third");
  EXPECT_TRUE(fs::exists(root() / "bin/pictures of cats/a-2.png"));
}

TEST_F(DatasetTest, WhoseFolderIsGoneIsListedAndTakenAway) {
  const auto elsewhere = scratch / "elsewhere";
  fs::create_directories(elsewhere);
  ASSERT_EQ(ask("/api/datasets", json{{"name", "dogs"}, {"folder", elsewhere.string()}})["name"], "dogs");
  fs::remove(elsewhere);
  const auto dogs = ask("/api/datasets")[1];
  EXPECT_EQ(dogs["name"], "dogs");
  EXPECT_THAT(dogs["problem"].get<std::string>(), HasSubstr("is gone"));
  EXPECT_THAT(ask("/api/datasets/dogs/items")["sentence"].get<std::string>(), HasSubstr("link to is gone"));
  EXPECT_EQ(ask("/api/datasets", json{{"name", "dogs"}})["name"], "dogs-2") << "the name is taken, by what is shown";
  EXPECT_EQ(client().Delete("/api/datasets/dogs", {{"Authorization", "Bearer " + token}})->status, 200);
  EXPECT_EQ(ask("/api/datasets", json{{"name", "dogs"}})["name"], "dogs");
  EXPECT_THAT(ask("/api/datasets", json{{"name", "all"}, {"folder", "/"}})["sentence"].get<std::string>(),
              HasSubstr("the workspace itself lies in"));
}

TEST_F(DatasetTest, OfARunThatGoesOnStays) {
  ask("/api/queue", json{{"is_paused", true}});
  const auto job = ask("/api/queue/jobs", json{{"name", "cat"}, {"settings", "dataset_base_path = \"../datasets/cats\""}});
  EXPECT_EQ(remove(""), 409);
  EXPECT_TRUE(fs::exists(folder()));
  ASSERT_EQ(client().Delete("/api/queue/jobs/" + job["id"].get<std::string>(), {{"Authorization", "Bearer " + token}})->status, 200);
  ask("/api/queue/jobs", json{{"name", "dog"}, {"settings", "dataset_base_path = \"../datasets/cats and dogs\""}});
  EXPECT_EQ(remove(""), 200) << "another one is read";
}

TEST_F(DatasetTest, OfARunThatNamesItInADatasetConfigStays) {
  ask("/api/queue", json{{"is_paused", true}});
  const auto config = root() / "queue" / "datasets.toml";
  std::ofstream(config) << "[[datasets]]\nimage_dir = \"../datasets/cats\"\n";
  ask("/api/queue/jobs", json{{"name", "cat"}, {"settings", "dataset_config = \"datasets.toml\""}});
  EXPECT_EQ(remove(""), 409);
  std::ofstream(config) << "[[datasets]]\nimage_dir = \"../datasets/dogs\"\n";
  EXPECT_EQ(remove(""), 200);
}
