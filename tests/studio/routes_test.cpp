// The table of all requests of a studio: each is asked wrongly in every way that the table tells of, and is answered with a sentence; what
// the table takes stands in docs/studio-api.md; and nothing of the user's is lost by any of them.
#include "studio/routes.h"

#include <regex>
#include <set>

#include "tests/places.h"
#include "tests/studio/dataset_served.h"

using namespace burnish;
using namespace burnish::test;
using studio::Route;
using studio::Taken;
using testing::HasSubstr;

namespace {

class RoutesTest : public DatasetTest {
 protected:
  RoutesTest() { EXPECT_EQ(put("a.png", picture(8, 8)), 200); }

  struct Told {
    int status = 0;
    std::string sentence;
    json body;
  };
  Told send_to(const std::string& method, const std::string& path, const std::string& body = "", bool with_token = true,
               const std::string& type = "application/json") const {
    httplib::Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    request.headers = {{"Content-Type", type}};
    if (with_token) request.headers.emplace("Authorization", "Bearer " + token);
    auto asked = client();
    asked.set_read_timeout(60, 0);
    const auto answered = asked.send(request);
    if (!answered) return {};
    auto value = json::parse(answered->body, nullptr, /*allow_exceptions=*/false);
    return {answered->status, value.is_object() ? value.value("sentence", "") : "", value};
  }
  const std::vector<Route>& routes() const { return server->routes().list(); }
  static std::string name_of(const Route& route) { return route.method + " " + route.path; }

  /// The address of a route, with `name` for whatever varies in it.
  static std::string address(const Route& route, const std::string& name) {
    auto path = std::regex_replace(route.path, std::regex("PLACE|SHELF"), "files");
    path = std::regex_replace(path, std::regex("VERB"), "mask");
    return std::regex_replace(path, std::regex("[A-Z]+"), name);
  }
  static bool varies(const Route& route) { return std::regex_search(route.path, std::regex("NAME|ID|FILE|ITEM|PATH")); }

  /// What the user's files hold, wherever they lie in the workspace.
  std::multiset<std::string> contents() const {
    std::multiset<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      if (entry.is_regular_file() && text_of(entry.path()).starts_with("the user's: ")) all.insert(text_of(entry.path()));
    }
    return all;
  }

  /// A value of that kind.
  static json value_of(Taken::Kind kind) {
    switch (kind) {
      case Taken::Kind::text: return "x";
      case Taken::Kind::whole: return 1;
      case Taken::Kind::truth: return true;
      case Taken::Kind::texts: return json::array({"x"});
      case Taken::Kind::list: return json::array();
      case Taken::Kind::object: return json::object();
    }
    return nullptr;
  }
  static json body_of(const Route& route) {
    auto body = json::object();
    for (const auto& taken : route.takes) {
      if (taken.is_needed) body[taken.name] = value_of(taken.kind);
    }
    return body;
  }
};

}  // namespace

TEST_F(RoutesTest, AreListedByTheInterfaceItself) {
  const auto listed = ask("/api");
  ASSERT_EQ(listed.size(), routes().size());
  EXPECT_GT(listed.size(), 50u);
  const auto job = *std::ranges::find_if(listed, [](const json& one) { return one["path"] == "/api/queue/jobs"; });
  EXPECT_EQ(job["takes"], json::parse(R"([{"name": "name", "kind": "a text", "is_needed": true},
                                          {"name": "settings", "kind": "a text", "is_needed": true},
                                          {"name": "steps", "kind": "a whole number", "is_needed": false},
                                          {"name": "seconds", "kind": "a whole number", "is_needed": false},
                                          {"name": "gpu", "kind": "a whole number", "is_needed": false}])"));
}

TEST_F(RoutesTest, SayWhatIsWrongWithWhatTheyAreAsked) {
  for (const auto& route : routes()) {
    SCOPED_TRACE(name_of(route));
    const auto path = address(route, "nothing");
    auto expect = [&](const Told& told, int status, const std::string& word) {
      EXPECT_EQ(told.status, status) << told.sentence;
      EXPECT_THAT(told.sentence, HasSubstr(word));
      EXPECT_GT(told.sentence.size(), 10u);
    };
    expect(send_to(route.method, path, "{}", /*with_token=*/false), 403, "token");
    expect(send_to("PATCH", path), 404, route.method);
    if (route.method != "POST") continue;
    expect(send_to("POST", path, "[]"), 400, "must be a JSON object");
    expect(send_to("POST", path, "{"), 400, "must be a JSON object");
    auto body = body_of(route);
    body["of_no_use"] = 1;
    expect(send_to("POST", path, body.dump()), 400, "takes no 'of_no_use'");
    for (const auto& taken : route.takes) {
      body = body_of(route);
      body[taken.name] = nullptr;
      expect(send_to("POST", path, body.dump()), 400, "'" + taken.name + "'");
      body.erase(taken.name);
      if (taken.is_needed) expect(send_to("POST", path, body.dump()), 400, "'" + taken.name + "'");
    }
    expect(send_to("POST", path, std::string(5 << 20, ' ')), 413, "4 MiB");
    expect(send_to("POST", path, "--x", true, "multipart/form-data; boundary=x"), 415, "not a form");
  }
}

TEST_F(RoutesTest, AnswerNothingForWhatIsNotThere) {
  for (const auto& route : routes()) {
    if (!varies(route) || route.path == "/api/files/SHELF/PATH") continue;  // which makes it
    SCOPED_TRACE(name_of(route));
    for (const char* name : {"nothing", "..", "%2e%2e%2f%2e%2e"}) {
      const auto told = send_to(route.method, address(route, name), route.method == "POST" ? body_of(route).dump() : "");
      EXPECT_TRUE(told.status == 404 || told.status == 409) << told.status << " " << told.sentence;
      EXPECT_FALSE(told.sentence.empty());
    }
  }
  EXPECT_THAT(send_to("GET", "/api/fly").sentence, HasSubstr("GET /api lists"));
  const auto told = send_to("POST", "/api/datasets/cats/captions", R"({"captions": {"a.png": "a cat", "b.png": "a fox"}})");
  EXPECT_EQ(told.status, 404);
  EXPECT_THAT(told.sentence, HasSubstr("'b.png'"));
  EXPECT_FALSE(fs::exists(folder() / "a.txt")) << "nothing is done of what cannot be done whole";
  EXPECT_EQ(send_to("POST", "/api/datasets/cats/leave_out", R"({"files": ["a.png", "b.png"], "out": true})").status, 404);
  EXPECT_TRUE(fs::exists(folder() / "a.png"));
}

/// `curl -d @file` sends it as a form that is none, and longer than the library takes of forms.
TEST_F(RoutesTest, TakeBodiesOfAnyMediaType) {
  const std::string caption(2'100'000, 'x');
  const auto body = json{{"captions", {{"a.png", caption}}}}.dump();
  EXPECT_EQ(send_to("POST", "/api/datasets/cats/captions", body, true, "application/x-www-form-urlencoded").status, 200);
  EXPECT_EQ(text_of(folder() / "a.txt"), caption + "\n");
}

TEST_F(RoutesTest, StandInTheDocsWithWhatTheyTake) {
  const auto docs = text_of(fs::path(test::kCheckout) / "docs/studio-api.md");
  for (const auto& route : routes()) {
    const auto at = docs.find("`" + name_of(route));
    ASSERT_NE(at, docs.npos) << name_of(route);
    const auto row = docs.substr(at, docs.find('\n', at) - at);
    for (const auto& taken : route.takes) {
      const bool is_of_page = route.path == "/api/drawings" && (taken.name.size() == 1 || taken.name == "model" || taken.name == "more");
      EXPECT_TRUE(is_of_page || row.find("`" + taken.name + "`") != row.npos) << name_of(route) << " " << taken.name;
    }
  }
}

/// Every request that changes something is made, where the user's files have the names that would be written.
TEST_F(RoutesTest, LoseNothingOfTheUsers) {
  for (const char* place :
       {"datasets/cats/.excluded/a.png", "datasets/cats/.excluded/a.txt", "datasets/cats/b.txt", "datasets/cats/b.json",
        "datasets/likes/.rejected/grid-0000.png", "datasets/likes/grid-0000.txt", "datasets/likes/grid-0000-2.json",
        "files/folder/model.safetensors", "files/x.safetensors", "loras/x.safetensors", "runs/cat/config.toml", "runs/dog/mine",
        "drawings/grid/0000.png", "drawings/grid/0001.png", "bin/pictures of cats/b.txt", "imports/x/settings.toml"}) {
    fs::create_directories((root() / place).parent_path());
    std::ofstream(root() / place) << "the user's: " << place;
  }
  std::ofstream(root() / "drawings/grid/grid.json")
      << R"({"settings": {}, "cells": [{"picture": 0, "prompt": "a"}, {"picture": 1, "prompt": "a"}], "total": 2})";
  fs::create_directories(root() / "runs/cat/state");
  fs::create_directories(scratch / "elsewhere");
  const auto before = contents();
  const auto picture_before = text_of(folder() / "a.png");
  const std::map<std::string, std::string> bodies{
      {"POST /api/datasets", R"({"name": "cats"})"},
      {"POST /api/datasets/NAME/leave_out", R"({"files": ["a.png"], "out": true})"},
      {"POST /api/drawings/NAME/choices", R"({"dataset": "likes", "chosen": 0, "rejected": 1})"},
      {"POST /api/runs/NAME/rename", R"({"name": "dog"})"},
      {"POST /api/queue/jobs", R"({"name": "cat", "settings": "true"})"},
      {"POST /api/import", R"({"files": [{"name": "x.toml", "text": "a = 1"}]})"},
      {"POST /api/conversions", R"({"inputs": [{"place": "files", "name": "x.safetensors"}], "name": "x.safetensors"})"},
      {"POST /api/drawings", R"({"name": "grid"})"},
      {"POST /api/datasets/NAME/annotations", R"({"verb": "caption"})"},
      {"POST /api/runs/NAME/archive", R"({"is_archived": true})"},
      {"POST /api/runs/NAME/ask", R"({"what": "save"})"},
  };
  auto names = [](const std::string& path) -> std::string {
    return path.find("/runs/") != path.npos ? "cat" : path.find("/drawings/") != path.npos ? "grid" : "cats";
  };
  for (const auto& route : routes()) {
    if (route.method == "GET" || route.path == "/api/studio/close") continue;
    auto path = std::regex_replace(route.path, std::regex("ITEM|FILE"), "a.png");
    path = std::regex_replace(path, std::regex("SHELF/PATH"), "files/folder/model.safetensors");
    path = std::regex_replace(path, std::regex("SHELF/NAME"), "files/x.safetensors");
    path = std::regex_replace(path, std::regex("NAME"), names(route.path));
    const auto given = bodies.find(name_of(route));
    const auto body = route.takes_file ? picture(8, 8) : given != bodies.end() ? given->second : body_of(route).dump();
    if (route.method != "DELETE") send_to(route.method, path, body);
  }
  EXPECT_TRUE(std::ranges::includes(contents(), before)) << testing::PrintToString(contents());
  EXPECT_EQ(text_of(folder() / "a.png"), picture_before);
  for (const auto& route : routes()) {  // what is deleted lies in the bin
    if (route.method != "DELETE" || route.path.ends_with("/mask")) continue;
    auto path = std::regex_replace(route.path, std::regex("ITEM"), "a.png");
    path = std::regex_replace(path, std::regex("SHELF/NAME"), "files/x.safetensors");
    send_to("DELETE", std::regex_replace(path, std::regex("NAME"), names(route.path)));
  }
  EXPECT_TRUE(std::ranges::includes(contents(), before)) << testing::PrintToString(contents());
  const auto bin = ask("/api/bin");
  EXPECT_FALSE(bin.empty());
  for (const auto& one : bin) {
    const bool is_there = fs::exists(root() / one["from"].get<std::string>());  // a picture that was given other pixels has two in the bin
    EXPECT_EQ(ask("/api/bin/back", json{{"id", one["id"]}}).value("status", 200), is_there ? 400 : 200) << one;
  }
  EXPECT_TRUE(std::ranges::includes(contents(), before)) << testing::PrintToString(contents());
  EXPECT_TRUE(fs::is_empty(scratch / "elsewhere"));
}
