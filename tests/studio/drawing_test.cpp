// Drawings of a studio: folders of pictures that a process of their own draws.
#include <ATen/ops/zeros.h>

#include "io/safetensors.h"
#include "tests/studio/served.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class DrawingTest : public StudioTest {
 protected:
  /// In place of burnish: of `sample` a picture for each line of the prompts, the first at once and others when `let_go` was called.
  DrawingTest() {
    std::ofstream(program())
        << "#!/bin/sh\n[ \"$1\" = sample ] || exit 1\nSETTINGS=$3; PROMPTS=$5; OUT=$7\n"
           "trap 'echo \"[sample] interrupted\" >&2; exit 130' INT\n"
           "cp \"$SETTINGS\" \"$OUT/settings.toml\"\necho begun >> '"
        << (scratch / "begun").string() << "'\nN=0\nwhile read -r LINE; do\n  [ $N = 0 ] || while [ ! -e '" << (scratch / "go").string()
        << "' ]; do sleep 0.02; done\n  [ \"$LINE\" = 'fail --d 0' ] && { echo '[sample] no memory' >&2; exit 3; }\n"
           "  printf 'PNG of %s' \"$LINE\" > \"$OUT/$(printf %04d $N).png\"; N=$((N + 1))\n  echo \"[info] sample $N\" >&2\n"
           "done < \"$PROMPTS\"\n";
    io::save_safetensors(root() / "loras/cat.safetensors", {{"dit.to_q.lora_A.weight", at::zeros({1, 4})}});
  }
  void let_go() const { std::ofstream(scratch / "go") << ""; }
  fs::path folder(const std::string& name) const { return root() / "drawings" / name; }
  json begin(json wish) const {
    wish.update(json{{"name", "grid"}, {"seeds", {1, 2}}});
    return ask("/api/drawings", wish);
  }
  bool comes_to(const std::string& name, const std::string& state) const {
    return comes_true([&] { return ask("/api/drawings/" + name)["state"] == state; });
  }
  int status_of_delete(const std::string& path) const {
    auto answer = client().Delete(path, {{"Authorization", "Bearer " + token}});
    return answer ? answer->status : 0;
  }
};

}  // namespace

TEST_F(DrawingTest, AreFoldersWithWhatWasAskedFor) {
  const json lora{{"place", "loras"}, {"name", "cat.safetensors"}, {"strength", 0.8}};
  EXPECT_EQ(begin({{"prompts", {"a cat"}}, {"loras", {lora}}, {"negative_prompt", "grey"}, {"settings", "model = [\"m\"]\n"}})["run"],
            "grid");
  ASSERT_TRUE(comes_true([&] { return fs::exists(folder("grid") / "0000.png"); }));
  auto drawing = ask("/api/drawings/grid");
  EXPECT_EQ(drawing["pictures"], json::parse(R"({"0": "0000.png"})")) << "it is there while others are drawn";
  EXPECT_EQ(drawing["state"], "running");
  EXPECT_EQ(drawing["total"], 2);
  EXPECT_EQ(drawing["says"], "sample 1");
  let_go();
  ASSERT_TRUE(comes_to("grid", "ended"));
  drawing = ask("/api/drawings/grid");
  EXPECT_EQ(drawing["exit_code"], 0);
  EXPECT_EQ(drawing["cells"][1]["seed"], 2);
  EXPECT_EQ(drawing["settings"]["prompts"], json{"a cat"});
  EXPECT_EQ(text_of(folder("grid") / "prompts.txt"), "a cat --am 0.8 --d 1\na cat --am 0.8 --d 2\n");
  EXPECT_EQ(text_of(folder("grid") / "settings.toml"),
            "lora = [\"" + (root() / "loras/cat.safetensors").string() + "\"]\nnegative_prompt = \"grey\"\nmodel = [\"m\"]\n");
  auto picture = client().Get("/api/drawings/grid/0001.png", {{"Cookie", cookie()}});
  EXPECT_EQ(picture->body, "PNG of a cat --am 0.8 --d 2");
  EXPECT_EQ(picture->get_header_value("Content-Type"), "image/png");
  EXPECT_EQ(client().Get("/api/drawings/grid/grid.json", {{"Cookie", cookie()}})->status, 404) << "pictures alone";
  EXPECT_EQ(ask("/api/drawings")[0]["done"], 2);
}

TEST_F(DrawingTest, OneIsDrawnAtATimeAndCanBeStopped) {
  begin({{"prompts", {"a cat"}}});
  EXPECT_EQ(begin({{"prompts", {"a dog"}}})["run"], "grid-2");
  ASSERT_TRUE(comes_true([&] { return fs::exists(folder("grid") / "0000.png"); }));
  EXPECT_EQ(ask("/api/drawings/grid-2")["state"], "waiting");
  EXPECT_EQ(status_of_delete("/api/drawings/grid"), 409) << "it goes on";
  EXPECT_EQ(ask("/api/drawings/grid/stop", json::object()), json::object());
  ASSERT_TRUE(comes_to("grid", "ended"));
  EXPECT_EQ(ask("/api/drawings/grid")["exit_code"], 130);
  EXPECT_EQ(ask("/api/drawings/grid")["pictures"].size(), 1u) << "what was finished stays";
  EXPECT_TRUE(comes_to("grid-2", "running"));
  EXPECT_EQ(ask("/api/drawings/grid/stop", json::object())["status"], 409);
  EXPECT_EQ(status_of_delete("/api/drawings/grid"), 200);
  EXPECT_FALSE(fs::exists(folder("grid")));
  let_go();
  EXPECT_TRUE(comes_to("grid-2", "ended"));
}

TEST_F(DrawingTest, AStudioThatBeginsFindsWhatIsDrawn) {
  begin({{"prompts", {"a cat"}}});
  ASSERT_TRUE(comes_true([&] { return fs::exists(folder("grid") / "0000.png"); }));
  server->stop();
  serving.join();
  server.emplace(studio::Options{.folder = root(), .program = program().string()});
  serving = std::thread([this] { server->serve(); });
  const auto address = server->address();
  port = std::stoi(address.substr(address.find(':', 5) + 1));
  EXPECT_EQ(ask("/api/drawings/grid")["state"], "running");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(text_of(scratch / "begun"), "begun\n") << "it was not begun again";
  EXPECT_EQ(ask("/api/drawings/grid/stop", json::object()), json::object());
  EXPECT_TRUE(comes_to("grid", "ended"));
}

TEST_F(DrawingTest, ARunBringsItsModelAndWithoutAChosenLoraNoneOfItsOwn) {
  fs::create_directories(run("cat"));
  auto prompts_of = [&](const std::string& name, const json& wish) {
    const auto job = begin(wish);
    EXPECT_EQ(job.value("run", ""), name) << job;
    EXPECT_TRUE(comes_true([&] { return fs::exists(folder(name) / "settings.toml"); }));
    return text_of(folder(name) / "prompts.txt");
  };
  let_go();
  const json wish{{"prompts", {"a cat"}}, {"run", "cat"}};
  EXPECT_EQ(prompts_of("grid", wish), "a cat --d 1\na cat --d 2\n") << "a run that trained the whole model";
  io::save_safetensors(run("cat") / "step-3.safetensors", {{"dit.to_q.lora_A.weight", at::zeros({1, 4})}});
  EXPECT_EQ(ask("/api/drawings")[0]["of_run"], "cat");
  EXPECT_EQ(prompts_of("grid-2", wish), "a cat --am 0 --d 1\na cat --am 0 --d 2\n");
  EXPECT_TRUE(comes_true([&] { return text_of(folder("grid-2") / "settings.toml") == "run = \"" + run("cat").string() + "\"\n"; }));
}

TEST_F(DrawingTest, SaysWhyOneFailed) {
  ask("/api/drawings", json{{"name", "grid"}, {"prompts", {"fail"}}});
  ASSERT_TRUE(comes_to("grid", "ended"));
  EXPECT_EQ(ask("/api/drawings/grid")["exit_code"], 3);
  EXPECT_EQ(ask("/api/drawings")[0]["says"], "no memory");
}

TEST_F(DrawingTest, TakesNothingFromOutside) {
  for (const char* place : {"loras/..", "..", "runs/..", "queue", "/etc"})
    EXPECT_EQ(begin({{"loras", {{{"place", place}, {"name", "cat.safetensors"}}}}})["status"], 400) << place;
  EXPECT_EQ(begin({{"loras", {{{"place", "loras"}, {"name", "../loras/cat.safetensors"}}}}})["status"], 400);
  EXPECT_EQ(begin({{"run", "../runs/cat"}})["status"], 400);
  EXPECT_EQ(ask("/api/drawings", json{{"name", "../grid"}})["status"], 400);
  EXPECT_EQ(ask("/api/drawings", json{{"name", "grid"}, {"seeds", "many"}})["status"], 400);
  EXPECT_TRUE(fs::is_empty(root() / "drawings")) << "and nothing is left of them";
  EXPECT_EQ(ask("/api/drawings/..")["status"], 404);
}

TEST_F(DrawingTest, ChoicesBecomeADatasetOfPairs) {
  let_go();
  begin({{"prompts", {"a cat --s 4", "a dog"}}});
  ASSERT_TRUE(comes_to("grid", "ended"));
  auto choose = [&](const std::string& dataset, int chosen, int rejected) {
    return ask("/api/drawings/grid/choices", json{{"dataset", dataset}, {"chosen", chosen}, {"rejected", rejected}});
  };
  EXPECT_EQ(choose("liked", 1, 0), json::object());
  const auto dataset = root() / "datasets/liked";
  EXPECT_EQ(text_of(dataset / "grid-0001.png"), "PNG of a cat --s 4 --d 2");
  EXPECT_EQ(text_of(dataset / "grid-0001.txt"), "a cat\n") << "flags are no part of a caption";
  EXPECT_EQ(json::parse(text_of(dataset / "grid-0001.json")), (json{{"rejected_image", ".rejected/grid-0001.png"}}));
  EXPECT_EQ(text_of(dataset / ".rejected/grid-0001.png"), "PNG of a cat --s 4 --d 1");
  EXPECT_EQ(ask("/api/drawings/grid")["choices"], json::parse("[[1, 0]]"));
  EXPECT_EQ(ask("/api/datasets/liked/items").size(), 1u);
  EXPECT_EQ(choose("liked", 2, 3), json::object());
  EXPECT_EQ(ask("/api/datasets")[0]["items"], 2);
  for (const auto& [name, chosen, rejected] : {std::tuple{"liked", 0, 2}, {"liked", 1, 1}, {"liked", 0, 9}, {"../liked", 0, 1}, {"", 0, 1}})
    EXPECT_EQ(choose(name, chosen, rejected)["status"], 400) << name << chosen << rejected;
}
