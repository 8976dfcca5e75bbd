// A folder on its way to a hub: what is asked, in which order, and what it is told of refusals.
#include "hub/publish.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "io/hash.h"
#include "tests/hub/scripted_server.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using nlohmann::json;
using ::testing::HasSubstr;

namespace {

std::string body_of(const std::string& request) { return request.substr(request.find("\r\n\r\n") + 4); }

/// A hub that keeps what is sent to it. Weights lie beside the commit.
class PublishTest : public testing::Test {
 protected:
  PublishTest() : server_([this](const std::string& request) { return answer(request); }) {
    std::filesystem::create_directories(folder_ / "samples");
    folder_.write("README.md", "# Cats\n");
    folder_.write("cats.safetensors", std::string(300000, 'w'));
    folder_.write("samples/00.png", std::string("\0\xff picture", 10));
    folder_.write(".hidden", "nobody's");
    settings_.huggingface_endpoint = server_.address();
    settings_.huggingface_token = "secret";
  }

  std::string answer(const std::string& request) {
    const auto asked = request.substr(0, request.find(" HTTP"));
    if (asked == refused_) return http(refusal_, R"({"error": "You don't have the rights"})");
    const auto body = body_of(request);
    if (asked == "POST /api/repos/create") return http(is_there_ ? 409 : 200, "{}");
    if (asked == "POST /api/models/me/cats/preupload/main") return http(200, ways(json::parse(body)).dump());
    if (asked == "POST /me/cats.git/info/lfs/objects/batch") return http(200, batch(json::parse(body)).dump());
    if (asked.starts_with("PUT /store/")) {
      EXPECT_EQ(request.find("secret"), request.npos) << "the token is for the hub alone";
      if (num_failures_-- > 0) return http(503, "");
      stored_[asked.substr(11)] = body;
      return http(200, "");
    }
    if (asked == "POST /verify") return http(200, "{}");
    if (asked == "POST /api/models/me/cats/commit/main") return commit_ = body, http(200, R"({"commitUrl": "x"})");
    return http(404, "");
  }
  static json ways(const json& asked) {
    json files = json::array();
    for (const auto& file : asked["files"]) {
      const auto path = file["path"].get<std::string>();
      files.push_back({{"path", path}, {"uploadMode", path.ends_with(".safetensors") ? "lfs" : "regular"}, {"shouldIgnore", false}});
    }
    return {{"files", files}};
  }
  json batch(const json& asked) const {
    json objects = json::array();
    for (const auto& object : asked["objects"]) {
      json one = object;
      if (!has_all_)
        one["actions"] = {{"upload", {{"href", server_.address() + "/store/" + object["oid"].get<std::string>()}}},
                          {"verify", {{"href", server_.address() + "/verify"}}}};
      objects.push_back(one);
    }
    return {{"objects", objects}};
  }
  std::string publish() { return hub::publish(folder_.path(), {.id = "me/cats", .is_private = true, .message = "Trained"}, settings_); }
  std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    for (const auto& request : server_.requests()) lines.push_back(request.substr(0, request.find(" HTTP")));
    return lines;
  }

  Scratch folder_;
  hub::Settings settings_;
  std::map<std::string, std::string> stored_;
  std::string commit_, refused_;
  bool is_there_ = false, has_all_ = false;
  int refusal_ = 403, num_failures_ = 0;
  ScriptedServer server_;
};

}  // namespace

TEST_F(PublishTest, SendsAFolderAsOneCommit) {
  EXPECT_EQ(publish(), server_.address() + "/me/cats");
  const auto hash = io::sha256(std::string(300000, 'w'));
  EXPECT_THAT(asked(), testing::ElementsAre("POST /api/repos/create", "POST /api/models/me/cats/preupload/main",
                                            "POST /me/cats.git/info/lfs/objects/batch", "PUT /store/" + hash, "POST /verify",
                                            "POST /api/models/me/cats/commit/main"));
  const auto made = server_.requests().front();
  EXPECT_EQ(json::parse(body_of(made)), (json{{"name", "cats"}, {"organization", "me"}, {"type", "model"}, {"private", true}}));
  EXPECT_THAT(made, HasSubstr("Authorization: Bearer secret"));
  EXPECT_EQ(stored_[hash], std::string(300000, 'w'));
  std::vector<json> lines;
  std::istringstream text(commit_);
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 4u) << commit_;
  EXPECT_EQ(lines[0]["value"]["summary"], "Trained");
  EXPECT_EQ(lines[1], (json{{"key", "file"}, {"value", {{"path", "README.md"}, {"encoding", "base64"}, {"content", "IyBDYXRzCg=="}}}}));
  EXPECT_EQ(lines[2],
            (json{{"key", "lfsFile"}, {"value", {{"path", "cats.safetensors"}, {"algo", "sha256"}, {"oid", hash}, {"size", 300000}}}}));
  EXPECT_EQ(lines[3]["value"]["content"], "AP8gcGljdHVyZQ==");
}

TEST_F(PublishTest, SendsAgainWhatIsThereOnlyInPart) {
  is_there_ = has_all_ = true;
  publish();
  EXPECT_TRUE(stored_.empty()) << "the weights are there already";
  EXPECT_THAT(commit_, HasSubstr("lfsFile"));
}

TEST_F(PublishTest, TriesAgainWhereTheStoreIsBusy) {
  num_failures_ = 1;
  publish();
  EXPECT_EQ(stored_.begin()->second.size(), 300000u);
}

TEST_F(PublishTest, SaysWhatIsRefused) {
  for (const char* step : {"POST /api/repos/create", "POST /api/models/me/cats/preupload/main", "POST /me/cats.git/info/lfs/objects/batch",
                           "POST /api/models/me/cats/commit/main"}) {
    refused_ = step;
    EXPECT_THAT(error_of([&] { publish(); }), HasSubstr("does not take 'me/cats': You don't have the rights; the token has to be one"))
        << step;
  }
  const auto before = server_.requests().size();
  EXPECT_THAT(error_of([&] { hub::publish(folder_.path(), {.id = "cats", .is_private = false, .message = ""}, settings_); }, Exit::config),
              HasSubstr("'cats' is no id of a model on Hugging Face"));
  settings_.huggingface_token.clear();
  EXPECT_THAT(error_of([&] { publish(); }, Exit::config), HasSubstr("needs a token of Hugging Face that may write; set HF_TOKEN"));
  settings_.huggingface_token = "secret";
  settings_.offline = "HF_HUB_OFFLINE";
  EXPECT_THAT(error_of([&] { publish(); }, Exit::config), HasSubstr("HF_HUB_OFFLINE keeps burnish from asking Hugging Face"));
  EXPECT_EQ(server_.requests().size(), before) << "nothing was asked";
}
