#include "hub/transport.h"

#include <gmock/gmock.h>

#include "hub/partial_file.h"
#include "io/files.h"
#include "tests/hub/scripted_server.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

namespace {

constexpr hub::Patience kQuick{.max_attempts = 3, .first_delay = 0.01, .longest_delay = 5, .stall_seconds = 1};

std::string letters(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>('a' + i * 7 % 26);
  return text;
}

class TransportTest : public testing::Test {
 protected:
  /// What download makes of a server's answers; `before` is in the file already.
  hub::Answer download(std::function<std::string(const std::string&)> script, const std::string& before = "", int64_t size = 1000) {
    server_ = std::make_unique<ScriptedServer>(std::move(script));
    std::filesystem::remove(path_);
    if (!before.empty()) io::write_text_atomic(path_, before);
    hub::PartialFile file(path_);
    num_bytes_ = file.size();
    return hub::Transport(kQuick).download({server_->address() + "/file", "secret"}, file, size, [&](int64_t more) { num_bytes_ += more; });
  }
  std::string content() const { return io::read_text(path_); }

  Scratch folder_;
  std::filesystem::path path_ = folder_ / "file.incomplete";
  std::string file_ = letters(1000);
  std::unique_ptr<ScriptedServer> server_;
  int64_t num_bytes_ = 0;
};

}  // namespace

TEST_F(TransportTest, GoesOnWhereAConnectionDropped) {
  auto answer = download([&](const std::string& request) {
    auto from = asked_from(request);
    if (from < 0) return http(200, file_.substr(0, 400), "ETag: \"v1\"\r\n", 1000);
    return rest(file_, from, "ETag: \"v1\"\r\n");
  });
  EXPECT_TRUE(answer.is_good()) << answer.problem;
  EXPECT_EQ(content(), file_);
  EXPECT_EQ(num_bytes_, 1000);
  ASSERT_THAT(server_->requests(), SizeIs(2));
  EXPECT_THAT(server_->requests()[1], HasSubstr("Range: bytes=400-"));
  EXPECT_THAT(server_->requests()[1], HasSubstr("If-Range: \"v1\""));
}

TEST_F(TransportTest, ProgressCountsNoAttempts) {
  auto answer = download([&](const std::string& request) {  // 100 bytes a connection, ten connections, three attempts
    auto from = std::max<int64_t>(asked_from(request), 0);
    auto part = file_.substr(static_cast<size_t>(from), 100);
    auto range = "Content-Range: bytes " + std::to_string(from) + "-999/1000\r\n";
    return http(from > 0 ? 206 : 200, part, range, 1000 - from);
  });
  EXPECT_TRUE(answer.is_good()) << answer.problem;
  EXPECT_EQ(content(), file_);
}

TEST_F(TransportTest, BeginsAnewWhereTheFileChanged) {
  auto other = letters(1500).substr(500);
  auto answer = download([&](const std::string& request) {
    if (asked_from(request) < 0) return http(200, file_.substr(0, 400), "ETag: \"v1\"\r\n", 1000);
    return http(200, other, "ETag: \"v2\"\r\n");  // If-Range did not hold
  });
  EXPECT_TRUE(answer.is_good()) << answer.problem;
  EXPECT_EQ(content(), other);
  EXPECT_EQ(num_bytes_, 1000);
}

TEST_F(TransportTest, HalfAFileIsNoFile) {
  auto answer = download([&](const std::string&) { return http(200, file_.substr(0, 500)); });
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.problem, HasSubstr("500 of 1000 bytes"));
  EXPECT_THAT(server_->requests(), SizeIs(3));
}

TEST_F(TransportTest, MoreThanTheFileIsNoFile) {
  auto answer = download([&](const std::string&) { return http(200, file_ + "more"); });
  EXPECT_THAT(answer.problem, HasSubstr("more than 1000 bytes"));
  EXPECT_EQ(content(), "");
}

TEST_F(TransportTest, AnotherPartThanWasAskedForIsNotAppended) {
  auto answer = download(
      [&](const std::string& request) {
        if (asked_from(request) < 0) return http(200, file_);
        return http(206, file_.substr(100), "Content-Range: bytes 100-999/1000\r\n");
      },
      file_.substr(0, 300));
  EXPECT_TRUE(answer.is_good()) << answer.problem;
  EXPECT_EQ(content(), file_);
}

TEST_F(TransportTest, ARestThatTheServerDoesNotHave) {
  auto answer =
      download([&](const std::string& request) { return asked_from(request) < 0 ? http(200, file_) : http(416, ""); }, letters(900));
  EXPECT_TRUE(answer.is_good()) << answer.problem;
  EXPECT_EQ(content(), file_);
}

TEST_F(TransportTest, WaitsAsLongAsTheServerAsks) {
  int count = 0;
  auto begin = std::chrono::steady_clock::now();
  auto answer = download([&](const std::string&) { return ++count == 1 ? http(429, "slower", "Retry-After: 1\r\n") : http(200, file_); });
  EXPECT_TRUE(answer.is_good());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));

  answer = download([&](const std::string&) { return http(429, "slower", "Retry-After: 3600\r\n"); });
  EXPECT_EQ(answer.status, 429);
  EXPECT_THAT(server_->requests(), SizeIs(1));
}

TEST_F(TransportTest, FailuresOfTheServerAreTriedAgainAndRefusalsAreNot) {
  for (int status : {401, 403, 404}) {
    auto answer = download([&](const std::string&) { return http(status, "no"); });
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.body, "no");
    EXPECT_THAT(server_->requests(), SizeIs(1));
    EXPECT_EQ(content(), "");
  }
  auto answer = download([&](const std::string&) { return http(500, "no"); });
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(server_->requests(), SizeIs(3));
}

TEST_F(TransportTest, TheTokenStaysWithTheHostItIsFor) {
  ScriptedServer other([&](const std::string&) { return http(200, file_); });
  hub::PartialFile file(path_);
  ScriptedServer first([&](const std::string&) { return http(302, "elsewhere", "Location: " + other.address() + "/signed\r\n"); });
  auto answer = hub::Transport(kQuick).download({first.address() + "/file", "secret", "session=secret"}, file, 1000, [](int64_t) {});
  EXPECT_TRUE(answer.is_good()) << answer.problem;
  EXPECT_EQ(content(), file_);
  EXPECT_THAT(first.requests().at(0), HasSubstr("Authorization: Bearer secret"));
  EXPECT_THAT(first.requests().at(0), HasSubstr("session=secret"));
  EXPECT_THAT(other.requests().at(0), Not(HasSubstr("secret")));
}

TEST_F(TransportTest, ARedirectOnTheSameHostKeepsTheToken) {
  auto answer = download([&](const std::string& request) {
    if (request.starts_with("GET /file ")) return http(307, "", "Location: /renamed\r\n");
    return http(200, request.find("Bearer secret") == request.npos ? "" : file_);
  });
  EXPECT_TRUE(answer.is_good()) << answer.problem;
}

TEST_F(TransportTest, RedirectsInALoopEnd) {
  auto answer = download([&](const std::string&) { return http(302, "", "Location: /file\r\n"); });
  EXPECT_EQ(answer.status, 302);
  EXPECT_THAT(answer.problem, HasSubstr("more than 10 times"));
}

TEST_F(TransportTest, SilenceEndsAConnection) {
  auto address = [] {
    ScriptedServer gone([](const std::string&) { return std::string(); });
    return gone.address();
  }();
  auto answer = hub::Transport(kQuick).get({address});  // nobody listens any more
  EXPECT_EQ(answer.status, 0);
  EXPECT_NE(answer.problem, "");
  answer = download([](const std::string&) { return std::string(); });  // hangs up without a word
  EXPECT_EQ(answer.status, 0);
}

TEST_F(TransportTest, StopsWhenAsked) {
  ScriptedServer busy([](const std::string&) { return http(503, "", "Retry-After: 120\r\n"); });
  auto patience = kQuick;
  patience.longest_delay = 120;
  std::atomic<bool> stop = false;
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop = true;
  });
  auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(hub::Transport(patience, [&] { return stop.load(); }).get({busy.address()}).is_good());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "and not after the wait that the server asks for";
}

TEST(PartialFile, WhatIsThereCountsIntoTheHash) {
  Scratch folder;
  auto path = folder / "file.incomplete";
  {
    hub::PartialFile file(path);
    file.append("hello ", 6);
  }
  hub::PartialFile file(path);
  EXPECT_EQ(file.size(), 6);
  file.append("world", 5);
  EXPECT_EQ(file.sha256(), io::sha256("hello world"));
  file.commit(folder / "file");
  EXPECT_EQ(io::read_text(folder / "file"), "hello world");
  EXPECT_FALSE(io::is_there(path));
}

TEST(TransportPost, SendsJsonOnceAndFollowsNobody) {
  ScriptedServer server([](const std::string& request) {
    if (request.starts_with("POST /moved")) return http(307, "", "Location: /elsewhere\r\n");
    return http(request.starts_with("POST /busy") ? 503 : 204, "");
  });
  const hub::Transport transport(kQuick);
  auto answer = transport.post({.url = server.address() + "/chat", .json = R"({"text": "ä"})"});
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.problem, "");
  EXPECT_EQ(transport.post({.url = server.address() + "/busy", .json = "{}"}).status, 503);
  EXPECT_EQ(transport.post({.url = server.address() + "/moved", .json = "{}"}).status, 307);
  ASSERT_THAT(server.requests(), SizeIs(3)) << "none is sent again, or elsewhere";
  EXPECT_TRUE(server.requests()[0].starts_with("POST /chat HTTP/1.1\r\n"));
  EXPECT_THAT(server.requests()[0], HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_TRUE(server.requests()[0].ends_with("\r\n\r\n{\"text\": \"ä\"}"));
}

TEST(TransportPost, DoesNotWaitForWhoSaysNothing) {
  ScriptedServer server([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    return http(200, "");
  });
  auto answer = hub::Transport(kQuick).post({.url = server.address(), .json = "{}"});
  EXPECT_EQ(answer.status, 0);
  EXPECT_NE(answer.problem, "");
}
