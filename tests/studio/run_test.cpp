// What the studio says and does of runs beside their queue.
#include "studio/about_runs.h"
#include "tests/planted_visits.h"
#include "tests/studio/served.h"

using namespace burnish;
using namespace burnish::test;

namespace {

class RunTest : public StudioTest {
 protected:
  /// A run that was trained, with steps of these seconds.
  void make_run(const std::string& name, const std::string& config, const std::vector<double>& seconds = {2, 2, 9, 2}) const {
    fs::create_directories(run(name));
    std::ofstream(run(name) / "config.toml") << config;
    std::ofstream(run(name) / "plan.json") << R"({"device": "cpu", "length": {"multiplications_a_step": 50}})";
    std::ofstream log(run(name) / "log.jsonl");
    for (size_t i = 0; i < seconds.size(); ++i) log << json{{"step", i + 1}, {"loss", 0.5}, {"step_seconds", seconds[i]}}.dump() << "\n";
  }
  int page_of(const std::string& path) const { return status_of(path, {{"Cookie", cookie()}}); }
};

}  // namespace

TEST_F(RunTest, IsReadAlone) {
  make_run("cat", "");
  const auto card = ask("/api/runs/cat");
  EXPECT_EQ(card["name"], "cat");
  EXPECT_EQ(card["step"], 4);
  EXPECT_EQ(card["seconds_a_step"], 2) << "the middle one: a save in between does not count";
  EXPECT_EQ(ask("/api/runs/dog")["status"], 404);
}

TEST_F(RunTest, IsArchivedByAFileThatGoesWithIt) {
  make_run("cat", "");
  EXPECT_EQ(ask("/api/runs/cat")["is_archived"], false);
  ask("/api/runs/cat/archive", json{{"is_archived", true}});
  ask("/api/runs/cat/rename", json{{"name", "tom"}});
  EXPECT_EQ(ask("/api/runs/tom")["is_archived"], true);
  ask("/api/runs/tom/archive", json{{"is_archived", false}});
  ask("/api/runs/tom/archive", json{{"is_archived", false}});
  EXPECT_EQ(ask("/api/runs")[0]["is_archived"], false);
}

TEST_F(RunTest, SaysWhichPicturesStandOut) {
  make_run("cat", "");
  auto said = ask("/api/runs/cat/pictures");
  EXPECT_EQ(said["visits"], 0) << said;
  plant_visits(run("cat"));
  said = ask("/api/runs/cat/pictures");
  EXPECT_EQ(said["visits"], 240);
  EXPECT_EQ(said["dataset"], "") << "it lies elsewhere";
  ASSERT_EQ(said["samples"].size(), 1) << said;
  EXPECT_EQ(said["samples"][0]["file"], "4.png");
  EXPECT_EQ(said["samples"][0]["stands_out"], "badly");
  EXPECT_TRUE(said["samples"][0]["item"].is_null());
}

TEST_F(RunTest, HasNotesThatGoWithIt) {
  make_run("cat", "");
  EXPECT_EQ(ask("/api/runs/cat")["notes"], "");
  ask("/api/runs/cat/notes", json{{"text", "too much blue\n2nd try"}});
  ask("/api/runs/cat/rename", json{{"name", "tom"}});
  EXPECT_EQ(ask("/api/runs")[0]["notes"], "too much blue\n2nd try");
  EXPECT_EQ(ask("/api/runs/tom/notes", json{{"text", std::string(70000, 'a')}})["status"], 400);
  EXPECT_EQ(ask("/api/runs/tom")["notes"], "too much blue\n2nd try");
  EXPECT_EQ(ask("/api/runs/dog/notes", json{{"text", "no run"}})["status"], 404);
}

TEST_F(RunTest, HasTagsThatGoWithIt) {
  make_run("cat", "");
  EXPECT_EQ(ask("/api/runs/cat")["tags"], json::array());
  ask("/api/runs/cat/tags", json{{"tags", {"  faces ", "good", "faces", ""}}});
  ask("/api/runs/cat/rename", json{{"name", "tom"}});
  EXPECT_EQ(ask("/api/runs")[0]["tags"], (json{"faces", "good"}));
  for (const auto& wrong :
       {json{std::string(61, 'a')}, json{"two\nlines"}, json(std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k",
                                                                                      "l", "m", "n", "o", "p", "q", "r", "s", "t", "u"})})
    EXPECT_EQ(ask("/api/runs/tom/tags", json{{"tags", wrong}})["status"], 400) << wrong;
  EXPECT_EQ(ask("/api/runs/tom")["tags"], (json{"faces", "good"})) << "as they were";
  EXPECT_EQ(ask("/api/runs/dog/tags", json{{"tags", {"a"}}})["status"], 404);
}

TEST_F(RunTest, SaysWhichOfItsSavesIsBest) {
  make_run("cat", "");
  const std::string best = "/api/runs/cat/best";
  EXPECT_EQ(ask(best)["state"], "") << "nobody asked";
  EXPECT_EQ(ask(best + "/stop", json::object())["status"], 409);
  std::ofstream(scratch / "hold") << "";
  ask(best, json{{"model", {"a/clip"}}});
  ask(best, json::object());  // it goes on already
  ASSERT_TRUE(comes_true([&] { return ask(best)["says"] == "looking 1/2"; }));
  EXPECT_EQ(text_of(scratch / "best.toml"), "run = [\"" + run("cat").string() + "\"]\njson = true\nmodel = [\"a/clip\"]\n");
  fs::remove(scratch / "hold");
  json standing;
  ASSERT_TRUE(comes_true([&] { return (standing = ask(best))["state"] == "ended"; }));
  EXPECT_EQ(standing["ranking"]["take"], 30) << standing;
  EXPECT_EQ(standing["exit_code"], 0);

  std::ofstream(scratch / "hold") << "";
  ask(best, json::object());
  ASSERT_TRUE(comes_true([&] { return ask(best)["state"] == "running"; }));
  EXPECT_EQ(ask(best + "/stop", json::object()), json::object());
  ASSERT_TRUE(comes_true([&] { return (standing = ask(best))["state"] == "ended"; }));
  EXPECT_EQ(standing["exit_code"], 130);
  EXPECT_TRUE(standing["ranking"].is_null());
  ask("/api/runs/cat/rename", json{{"name", "tom"}});
  EXPECT_EQ(ask("/api/runs/tom/best")["state"], "") << "its paths are others now";
}

TEST_F(RunTest, ItsModelIsAskedAboutCaptionsAndPictures) {
  make_run("cat", "");
  for (const auto& [path, question, file] : {std::tuple("/api/runs/cat/compared_captions", "compare_captions = 4", "a.png"),
                                             std::tuple("/api/runs/cat/compared_gradients", "compare_gradients = true", "b.png")}) {
    EXPECT_EQ(ask(path)["state"], "") << "nobody asked";
    EXPECT_TRUE(ask(path)["samples"].is_null());
    ask(path, json::object());
    json standing;
    ASSERT_TRUE(comes_true([&] { return (standing = ask(path))["state"] == "ended"; }));
    EXPECT_EQ(text_of(scratch / "data.toml"),
              "json = true\nsettings = \"" + (run("cat") / "config.toml").string() + "\"\n" + question + "\n");
    ASSERT_EQ(standing["samples"].size(), 1) << standing;
    EXPECT_EQ(standing["samples"][0]["file"], file);
    EXPECT_TRUE(standing["samples"][0]["item"].is_null()) << "it lies elsewhere";
    EXPECT_EQ(ask(std::string(path) + "/stop", json::object())["status"], 409);
  }
}

TEST_F(RunTest, HasACardThatIsSentToAHub) {
  make_run("cat", "");
  const std::string card = "/api/runs/cat/card";
  EXPECT_EQ(ask(card)["text"], "");
  ask(card, json{{"license", "mit"}, {"publish", "me/cat"}, {"private", true}});
  json standing;
  ASSERT_TRUE(comes_true([&] { return (standing = ask(card))["state"] == "ended"; }));
  EXPECT_EQ(standing["says"], "https://hub/me/cat");
  EXPECT_EQ(standing["text"], "# A card\n");
  EXPECT_EQ(text_of(scratch / "card.toml"),
            "run = [\"" + run("cat").string() + "\"]\nlicense = \"mit\"\noverwrite = true\nprivate = true\npublish = \"me/cat\"\n");
  EXPECT_EQ(ask(card, json{{"output", "/etc"}})["status"], 400) << "it is written into the run alone";
}

TEST(LastObject, IsFoundAmongLinesForPeople) {
  using studio::last_object_in;
  EXPECT_EQ(last_object_in("a line\n{\n  \"a\": {\n    \"b\": 1\n  }\n}\n")["a"]["b"], 1);
  EXPECT_EQ(last_object_in("{\n \"a\": 1\n}\n{\n \"a\": 2\n}\nbye\n")["a"], 2);
  for (const char* text : {"", "{\n", "no object\n}\n", "{\n broken\n}\n"}) EXPECT_TRUE(last_object_in(text).is_null()) << text;
}

TEST_F(RunTest, SeveralAreComparedOnOnePage) {
  make_run("cat", "");
  make_run("a dog, brown", "");
  EXPECT_EQ(page_of("/compare/cat/a%20dog%2C%20brown/"), 200);
  EXPECT_EQ(page_of("/compare/mouse/"), 404);
  const auto none = client().Get("/runs/mouse/", {{"Cookie", cookie()}});
  EXPECT_EQ(none->status, 404);
  EXPECT_NE(none->body.find("There is no such run"), std::string::npos);
  EXPECT_EQ(page_of("/compare/../queue/"), 404);

  std::string came;
  auto reads = client();
  reads.Get("/compare/cat/a%20dog%2C%20brown/events", {{"Cookie", cookie()}}, [&](const char* data, size_t size) {
    came.append(data, size);
    return came.find("\"run\":1") == came.npos;
  });
  EXPECT_THAT(came, testing::HasSubstr("\"name\":\"cat\""));
  EXPECT_THAT(came, testing::HasSubstr("a dog, brown"));
}

TEST_F(RunTest, OfTheSameModelSaysHowLongAPlannedOneTakes) {
  const auto planned = [&] { return ask("/api/plan", json{{"settings", "the same"}}); };
  EXPECT_EQ(planned()["pace"], nullptr);
  make_run("another", "of another model");
  EXPECT_EQ(planned()["pace"], nullptr);
  make_run("cat", "the same");
  EXPECT_EQ(planned()["pace"], (json{{"seconds_a_step", 4}, {"run", "cat"}})) << "twice the work";
  std::ofstream(run("cat") / "plan.json") << R"({"device": "cuda:0", "length": {"multiplications_a_step": 50}})";
  EXPECT_EQ(planned()["pace"], nullptr);
}

TEST_F(RunTest, IsPlannedForTheGpuThatItIsGiven) {
  EXPECT_EQ(ask("/api/plan", json{{"settings", ""}, {"gpu", 2}})["plan"]["bytes"], 1);
  EXPECT_EQ(text_of(scratch / "plan.gpu"), "2\n");
  ask("/api/plan", json{{"settings", ""}});
  EXPECT_EQ(text_of(scratch / "plan.gpu"), "\n");
}

TEST_F(StudioTest, TakesSettingsOfOtherPrograms) {
  const json files{{{"name", "data.toml"}, {"text", "nothing"}}, {{"name", "run.toml"}, {"text", "a = 1"}}};
  EXPECT_EQ(ask("/api/import", json{{"files", files}})["settings"], "rank = 4");
  EXPECT_EQ(text_of(root() / "imports/data/from/data.toml"), "nothing") << "the settings may name it";
  const auto refused = ask("/api/import", json{{"files", {{{"name", "b.toml"}, {"text", "nothing"}}}}});
  EXPECT_EQ(refused, (json{{"status", 400}, {"sentence", "no settings"}}));
  EXPECT_FALSE(fs::exists(root() / "imports/b"));
  EXPECT_EQ(ask("/api/import", json{{"files", {{{"name", "../b.toml"}, {"text", "a = 1"}}}}})["status"], 400);
  EXPECT_EQ(ask("/api/import", json{{"files", json::array()}})["status"], 400);
}

TEST_F(StudioTest, BringsModels) {
  const auto fetch_of = [&](const std::string& name) {
    for (const auto& one : ask("/api/fetches")) {
      if (one["name"] == name) return one;
    }
    return json(nullptr);
  };
  EXPECT_EQ(ask("/api/fetches", json{{"name", "a/quick"}}), json::object());
  EXPECT_TRUE(comes_true([&] { return fetch_of("a/quick")["state"] == "ended"; }));
  EXPECT_EQ(fetch_of("a/quick")["exit_code"], 0);
  EXPECT_EQ(fetch_of("a/quick")["says"], "fetch (MiB): 1 of 2");
  ask("/api/fetches", json{{"name", "a/quick"}});
  EXPECT_EQ(ask("/api/fetches").size(), 1) << "once more, in place of the other";

  ask("/api/fetches", json{{"name", "slow/one"}});
  EXPECT_TRUE(comes_true([&] { return fetch_of("slow/one")["says"] == "fetch (MiB): 1 of 2"; }));
  EXPECT_EQ(ask("/api/fetches/stop", json{{"name", "slow/one"}}), json::object());
  EXPECT_TRUE(comes_true([&] { return fetch_of("slow/one")["exit_code"] == 130; }));
  EXPECT_EQ(ask("/api/fetches/stop", json{{"name", "slow/one"}})["status"], 409);
  for (const char* name : {"", "word", "--help/x", "../x", "a/../b", "a/b/c", "a/b c"})
    EXPECT_EQ(ask("/api/fetches", json{{"name", name}})["status"], 400) << name;
}
