#include "report/server.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <httplib.h>

#include <thread>

#include "base/error.h"
#include "io/files.h"
#include "tests/report/fake_run.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using nlohmann::json;
using ::testing::HasSubstr;

namespace {

/// A server of a fake run, and a client of it.
class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    make_run(run_, 2);
    make_run(other_, 1);
    server_ = std::make_unique<report::Server>(std::vector<std::string>{run_, other_}, 0);
    thread_ = std::thread([this] { server_->serve(); });
    client_ = std::make_unique<httplib::Client>("127.0.0.1", server_->port());
    while (!client_->Get("/")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  void TearDown() override {
    server_->stop();
    thread_.join();
  }

  /// Reads events, and does what `on_event` says after each, until it returns false.
  void listen(const std::function<bool(const json&)>& on_event) {
    std::string text;
    client_->Get("/events", [&](const char* bytes, size_t size) {
      text.append(bytes, size);
      auto end = text.find("\n\n");
      if (end == text.npos) return true;
      EXPECT_EQ(text.substr(0, 6), "data: ");
      auto event = json::parse(text.substr(6, end - 6));
      text.erase(0, end + 2);
      return on_event(event);
    });
  }

  Scratch folder_;
  std::filesystem::path run_ = folder_ / "run", other_ = folder_ / "other";
  std::unique_ptr<report::Server> server_;
  std::unique_ptr<httplib::Client> client_;
  std::thread thread_;
};

}  // namespace

TEST_F(ServerTest, GivesThePageAndPicturesAndNothingElse) {
  auto page = client_->Get("/");
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page->body, HasSubstr("{\"live\":true,\"runs\":[]}"));
  draw_preview(other_, 0, "a dog", 16);
  for (size_t i = 0; i < 2; ++i) {
    auto picture = client_->Get("/previews/" + std::to_string(i) + "/0/0?17");
    EXPECT_EQ(picture->status, 200);
    EXPECT_EQ(picture->body, content(records::preview_path(i == 0 ? run_ : other_, 0, 0)));
  }
  draw_clip(run_, 4, 2, "a fox that runs");
  auto clip = client_->Get("/previews/0/4/2?17");
  EXPECT_EQ(clip->get_header_value("Content-Type"), "image/webp");
  EXPECT_EQ(clip->body, content(records::preview_path(run_, 4, 2, records::PreviewKind::webp)));
  auto part = client_->Get("/previews/0/4/2", {{"Range", "bytes=0-3"}});
  EXPECT_EQ(part->status, 206);
  EXPECT_EQ(part->body, "RIFF");
  for (const char* path : {"/previews/0/0/1", "/previews/0/7/0", "/previews/2/0/0", "/log.jsonl", "/previews/0/0/../../../log.jsonl",
                           "/..%2flog.jsonl", "/previews/-1/0/0", "/previews/0/0/00.png", "/previews/0/99999999999999999999/0"})
    EXPECT_EQ(client_->Get(path)->status, 404) << path;
}

TEST_F(ServerTest, VideosPlayAndCanBeMovedThrough) {
  using Kind = records::PreviewKind;
  for (auto [number, kind, type] : {std::tuple{0, Kind::mp4, "video/mp4"}, {1, Kind::webm, "video/webm"}}) {
    draw_video(run_, 4, number, kind, "a fox");
    const auto url = "/previews/0/4/" + std::to_string(number);
    const auto bytes = content(records::preview_path(run_, 4, number, kind));
    auto whole = client_->Get(url);
    EXPECT_EQ(whole->status, 200);
    EXPECT_EQ(whole->get_header_value("Content-Type"), type);
    EXPECT_EQ(whole->get_header_value("Accept-Ranges"), "bytes");
    EXPECT_EQ(whole->body, bytes);
    for (auto [range, from, length] : {std::tuple{"0-", size_t{0}, bytes.size()}, {"7-19", 7, 13}, {"-5", bytes.size() - 5, 5}}) {
      auto part = client_->Get(url, {{"Range", std::string("bytes=") + range}});
      EXPECT_EQ(part->status, 206) << range;
      EXPECT_EQ(part->body, bytes.substr(from, length)) << range;
      EXPECT_EQ(part->get_header_value("Content-Range"), fmt::format("bytes {}-{}/{}", from, from + length - 1, bytes.size()));
    }
    EXPECT_EQ(client_->Get(url, {{"Range", fmt::format("bytes={}-", bytes.size())}})->status, 416) << "what is behind its end";
    EXPECT_THAT(client_->Get(url + "/strip")->body, ::testing::StartsWith("RIFF"));
  }
  draw_video(run_, 4, 2, Kind::frames, "a fox");
  auto frame = client_->Get("/previews/0/4/2/1");
  EXPECT_EQ(frame->get_header_value("Content-Type"), "image/png");
  EXPECT_EQ(frame->body, content(records::preview_path(run_, 4, 2, Kind::frames) / "00001.png"));
  EXPECT_EQ(client_->Get("/previews/0/4/2/strip")->get_header_value("Content-Type"), "image/webp");
  for (const char* path : {"/previews/0/4/2", "/previews/0/4/2/3", "/previews/0/4/0/0", "/previews/0/9/0/strip", "/previews/0/4/2/x"})
    EXPECT_EQ(client_->Get(path)->status, 404) << path;
}

TEST_F(ServerTest, SendsWhatIsNew) {
  std::vector<json> events;
  listen([&](const json& event) {
    events.push_back(event);
    if (events.size() == 2) append(run_ / "log.jsonl", log_line(3, 0.1));
    if (events.size() == 3) append(other_ / "log.jsonl", log_line(2, 0.2));
    if (events.size() == 4) io::write_text_atomic(run_ / "log.jsonl", log_line(1, 1));
    return events.size() < 5;
  });
  ASSERT_EQ(events.size(), 5u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(events[i]["run"], i);
    EXPECT_EQ(events[i]["name"], i == 0 ? "run" : "other");
    auto prefix = "previews/" + std::to_string(i) + "/0/0?";
    EXPECT_THAT(events[i]["previews"][0]["url"].get<std::string>(), ::testing::StartsWith(prefix));
  }
  EXPECT_EQ(events[0]["log"]["steps"], json({1, 2}));
  EXPECT_FALSE(events[2].contains("name"));
  EXPECT_EQ(events[2]["run"], 0);
  EXPECT_EQ(events[2]["log"]["steps"], json({3}));
  EXPECT_EQ(events[3]["run"], 1);
  EXPECT_EQ(events[3]["log"]["steps"], json({2}));
  EXPECT_EQ(events[4]["name"], "run");
  EXPECT_EQ(events[4]["log"]["steps"], json({1}));
}

TEST_F(ServerTest, SendsWhereARunStands) {
  std::vector<json> events;
  listen([&](const json& event) {
    events.push_back(event);
    if (events.size() == 2) write_status(other_, {.state = records::State::encoding, .stage = "vae", .done = 1, .total = 2});
    if (events.size() == 3) write_status(other_, {.state = records::State::failed, .sentence = "no room", .exit_code = 3});
    return events.size() < 4;
  });
  ASSERT_EQ(events.size(), 4u);
  EXPECT_TRUE(events[1]["status"].is_null());
  EXPECT_EQ(events[2]["run"], 1);
  EXPECT_EQ(events[2]["status"]["stage"], "vae");
  EXPECT_EQ(events[3]["status"]["sentence"], "no room");
}

TEST_F(ServerTest, OutlivesSettingsThatCannotBeRead) {
  std::vector<json> events;
  listen([&](const json& event) {
    events.push_back(event);
    if (events.size() == 2) io::write_text_atomic(run_ / "config.toml", "= not TOML\n");
    return events.size() < 3;
  });
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[2]["settings"].is_null());
}

TEST_F(ServerTest, RefusesOtherNamesOfThisMachine) {
  EXPECT_EQ(client_->Get("/", httplib::Headers{{"Host", "evil.example"}})->status, 403);
  EXPECT_EQ(client_->Get("/events", httplib::Headers{{"Host", "evil.example:80"}})->status, 403);
  EXPECT_EQ(client_->Get("/", httplib::Headers{{"Host", "localhost:9000"}})->status, 200) << "through a tunnel";
  for (const char* host : {"", "127.0.0.1.evil.example", "evil.example:127.0.0.1", "127.0.0.2", "localhost.", "user@localhost", "[::1"})
    EXPECT_FALSE(report::is_loopback_host(host)) << host;
  for (const char* host : {"127.0.0.1", "127.0.0.1:7878", "localhost", "[::1]:80", "[::1]"})
    EXPECT_TRUE(report::is_loopback_host(host)) << host;
}

TEST_F(ServerTest, SaysWhenThePortIsTaken) {
  EXPECT_THAT(error_of([&] { report::Server({run_}, server_->port()); }, Exit::config), HasSubstr("--port 0 takes a free one"));
  EXPECT_THAT(error_of([&] { report::Server({run_}, 70000); }, Exit::config), HasSubstr("from 0 to 65535"));
}

TEST_F(ServerTest, ManyOpenPagesLeaveRoomForOthers) {
  std::vector<std::thread> pages;
  for (int i = 0; i < 100; ++i) {
    pages.emplace_back([this] {
      httplib::Client client("127.0.0.1", server_->port());
      client.Get("/events", [](const char*, size_t) { return true; });
    });
  }
  for (int i = 0; i < 20; ++i) {
    auto page = client_->Get("/");
    EXPECT_TRUE(page && page->status == 200) << i;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  server_->stop();
  for (auto& page : pages) page.join();
}

TEST_F(ServerTest, ARequestHasOneHost) {
  EXPECT_EQ(client_->Get("/", httplib::Headers{{"Host", "LOCALHOST"}})->status, 200);
  EXPECT_EQ(client_->Get("/", httplib::Headers{{"Host", "127.0.0.1"}, {"Host", "example.org"}})->status, 403);
}
