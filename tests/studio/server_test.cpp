// Who may ask a studio for something, and what it answers.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <set>

#include "studio/client.h"
#include "tests/studio/served.h"

using namespace burnish;
using namespace burnish::test;
using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(StudioTest, LetsInWhoKnowsItsToken) {
  EXPECT_EQ(status_of("/", {}), 403);
  EXPECT_EQ(status_of("/api/runs", {}), 403);
  EXPECT_EQ(status_of("/page/studio.js", {}), 403);
  EXPECT_EQ(status_of("/?token=" + std::string(48, '0'), {}), 403);
  EXPECT_EQ(status_of("/api/runs", {{"Authorization", "Bearer " + token + "0"}}), 403);
  EXPECT_EQ(status_of("/api/runs", {{"Cookie", "burnish_1=" + token}}), 403) << "the cookie of another studio on this machine";

  auto first = client().Get("/?token=" + token);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 303);
  EXPECT_EQ(first->get_header_value("Location"), "./");
  EXPECT_EQ(first->get_header_value("Set-Cookie"), cookie() + "; Path=/; HttpOnly; SameSite=Strict");
  auto page = client().Get("/", {{"Cookie", "a=b; " + cookie()}});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  const auto policy = page->get_header_value("Content-Security-Policy");
  EXPECT_THAT(policy, HasSubstr("script-src 'self';"));
  EXPECT_EQ(page->body.find("<script>"), std::string::npos) << "no script in the page itself";
  EXPECT_EQ(status_of("/api/runs", {{"Authorization", "Bearer " + token}}), 200);
}

TEST_F(StudioTest, KeepsItsTokenForTheUserAlone) {
  struct stat file {};
  ASSERT_EQ(::stat((root() / ".token").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(text_of(root() / ".token"), token);
  EXPECT_EQ(studio::Guard(root() / ".token", port).token(), token) << "of a studio that is opened again, so that pages go on";
}

TEST_F(StudioTest, ChangesNothingForPagesOfOtherSites) {
  EXPECT_EQ(status_of_change({}), 403) << "a form on another site, of a browser that sends no Origin";
  EXPECT_EQ(status_of_change({{"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status_of_change({{"Origin", "null"}}), 403);
  EXPECT_EQ(status_of_change({{"Origin", "http://127.0.0.1:1"}}), 403) << "another server of this machine";
  EXPECT_FALSE(ask("/api/queue")["is_paused"]);
  EXPECT_EQ(status_of_change({{"Origin", origin()}}), 200);
  EXPECT_TRUE(ask("/api/queue")["is_paused"]);
}

TEST_F(StudioTest, AnswersToThisMachinesNamesAlone) {
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", ""}) {
    EXPECT_EQ(status_of("/", {{"Host", host}, {"Cookie", cookie()}}), 403) << host << " was made to lead here";
  }
  EXPECT_EQ(status_of("/", {{"Host", "localhost:1234"}, {"Cookie", cookie()}}), 200) << "a tunnel may change the port";
}

TEST_F(StudioTest, ReachesNoFileOutsideOfItsWorkspace) {
  std::ofstream(scratch / "secret.safetensors") << "secret";
  std::ofstream(scratch / "config.toml") << "secret";
  fs::create_directories(run("cat"));
  const Headers headers{{"Authorization", "Bearer " + token}};
  for (const char* path :
       {"/api/runs/../settings", "/api/runs/%2e%2e/settings", "/api/runs/..%2f..%2f/settings", "/api/runs/%2e%2e%2f%2e%2e/settings",
        "/api/runs/cat/files/..%2f..%2f..%2fsecret.safetensors", "/api/runs/cat/files/%2e%2e", "/api/runs/cat/files/.token",
        "/runs/%2e%2e/", "/api/runs/%00/settings", "/page/../../etc/passwd"}) {
    auto answer = client().Get(path, headers);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 404) << path;
    EXPECT_EQ(answer->body.find("secret"), std::string::npos);
  }
  EXPECT_EQ(ask("/api/runs/cat/rename", json{{"name", "../dog"}})["status"], 400);
}

TEST_F(StudioTest, BoundsWhatIsSentToIt) {
  auto answer = client().Post("/api/form", {{"Authorization", "Bearer " + token}}, std::string(5 << 20, ' '), "application/json");
  EXPECT_TRUE(!answer || answer->status == 413) << "it is not read, so the connection may end before it is sent";
  for (const char* body : {"[]", "{", "3", "{}", R"({"settings": 3})"}) {
    auto wrong = client().Post("/api/form", {{"Authorization", "Bearer " + token}}, body, "application/json");
    ASSERT_TRUE(wrong);
    EXPECT_EQ(wrong->status, 400) << body;
  }
}

TEST_F(StudioTest, AnswersBesideManyAndSlowConnections) {
  std::vector<int> connections;
  for (int i = 0; i < 200; ++i) {
    int one = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(one, reinterpret_cast<sockaddr*>(&address), sizeof address);
    connections.push_back(one);
  }
  std::set<int> heard;
  auto some_are_heard = [&] {
    for (int one : connections) {
      if (!heard.contains(one) && ::send(one, "GET / HT", 8, MSG_NOSIGNAL) > 0) heard.insert(one);  // and no more
    }
    return heard.size() > 100;
  };
  EXPECT_TRUE(comes_true(some_are_heard)) << heard.size();
  auto patient = client();
  patient.set_read_timeout(60s);
  auto answer = patient.Get("/api/runs", {{"Authorization", "Bearer " + token}});
  ASSERT_TRUE(answer) << "those that say nothing more are given up in time";
  EXPECT_EQ(answer->status, 200);
  for (int one : connections) ::close(one);
}

TEST_F(StudioTest, TellsOfRunsWhereverTheyWereStarted) {
  fs::create_directories(run("of a terminal"));
  std::ofstream(run("of a terminal") / "status.json")
      << R"({"state": "training", "stage": "train", "done": 3, "total": 10, "seconds_left": 7, "steps": 10, "sentence": "", "exit_code": null,
             "process": {"id": 999999999, "start": 1, "host": ")"
      << host() << R"("}, "started": 5, "written": 6})";
  std::ofstream(run("of a terminal") / "log.jsonl") << R"({"step": 3, "loss": 0.5, "time": 6})"
                                                    << "\n";
  auto list = ask("/api/runs");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["name"], "of a terminal");
  EXPECT_EQ(list[0]["state"], "gone") << "its process ended without a word";
  EXPECT_EQ(list[0]["step"], 3);
  EXPECT_EQ(list[0]["loss"], 0.5);
  std::ofstream(run("of a terminal") / "log.jsonl", std::ios::app) << R"({"step": 4, "loss": 0.25, "time": 7})"
                                                                   << "\n";
  EXPECT_EQ(ask("/api/runs")[0]["loss"], 0.25);
  EXPECT_EQ(ask("/api/runs/of%20a%20terminal/stop", json::object())["status"], 409);
  EXPECT_EQ(ask("/api/runs/nothing/stop", json::object())["status"], 404);
  auto page = client().Get("/runs/of%20a%20terminal/", {{"Cookie", cookie()}});
  ASSERT_TRUE(page);
  EXPECT_THAT(page->body, HasSubstr("/page/controls.js"));
}

TEST_F(StudioTest, QueuesNamesAndThrowsAway) {
  auto job = ask("/api/queue/jobs", json{{"name", "cat"}, {"settings", "echo settings > \"$RUN/config.toml\"; mkdir \"$RUN/state\""}});
  EXPECT_EQ(job["run"], "cat");
  ASSERT_TRUE(comes_true([&] { return ask("/api/queue")["jobs"][0]["state"] == "ended"; }));
  EXPECT_EQ(ask("/api/runs/cat/settings")["text"], "settings\n");
  EXPECT_EQ(ask("/api/runs/cat/ask", json{{"what", "preview"}}), json::object());
  EXPECT_TRUE(fs::exists(run("cat") / "ask/preview"));
  EXPECT_EQ(ask("/api/runs/cat/ask", json{{"what", "../x"}})["status"], 400);
  EXPECT_EQ(ask("/api/runs/cat/rename", json{{"name", "dog"}}), json::object());
  EXPECT_EQ(ask("/api/runs/cat/settings")["status"], 404);
  auto resumed = ask("/api/runs/dog/resume", json::object());
  EXPECT_EQ(resumed["resumes"], true) << resumed;
  EXPECT_EQ(ask("/api/queue/jobs/" + resumed["id"].get<std::string>() + "/settings"), (json{{"run", "dog"}, {"text", "settings\n"}}));
  ASSERT_TRUE(comes_true([&] { return ask("/api/queue")["jobs"].back()["state"] == "ended"; }));
  EXPECT_EQ(ask("/api/queue/jobs/none/settings")["status"], 404);
  const auto further = ask("/api/runs/dog/resume", json{{"settings", "echo more > \"$RUN/more\""}});
  ASSERT_TRUE(comes_true([&] { return fs::exists(run("dog") / "more"); })) << further;
  ASSERT_TRUE(comes_true([&] { return ask("/api/queue")["jobs"].back()["state"] == "ended"; }));
  auto gone = client().Delete("/api/runs/dog", {{"Authorization", "Bearer " + token}});
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->status, 200);
  EXPECT_FALSE(fs::exists(run("dog")));
  auto bin = studio::Workspace::names(root() / "bin");
  ASSERT_EQ(bin.size(), 1u);
  EXPECT_EQ(text_of(root() / "bin" / bin[0] / "config.toml"), "settings\n") << "it is there still";
}

TEST_F(StudioTest, AsksTheProgramWhatARunTakes) {
  EXPECT_EQ(ask("/api/form", json{{"settings", "a = 1"}})["values"]["seen"], "a = 1");
  EXPECT_EQ(ask("/api/plan", json{{"settings", "a = 1"}}), (json{{"exit_code", 0}, {"plan", json::parse(kPlan)}, {"pace", nullptr}}));
  for (const auto& entry : fs::directory_iterator(root() / "queue")) EXPECT_NE(entry.path().extension(), ".toml") << "no draft is left";
}

TEST_F(StudioTest, HasTheProgramStandByForTheNextPlan) {
  const json answer{{"exit_code", 0}, {"plan", json::parse(kPlan)}, {"pace", nullptr}};
  const auto told = program().parent_path() / "told";
  EXPECT_EQ(ask("/api/plan", json{{"settings", "a = 1"}}), answer);
  EXPECT_FALSE(fs::exists(told)) << "the first was started for it";
  EXPECT_EQ(ask("/api/plan", json{{"settings", "a = 2"}, {"fit", true}}), answer);
  EXPECT_THAT(text_of(told), HasSubstr(R"(["plan","--json","--fit","--config")"));
}

TEST_F(StudioTest, IsClosedFromItsPage) {
  EXPECT_EQ(ask("/api/studio/close", json::object())["status"], 400) << "with its runs or without?";
  EXPECT_EQ(client()
                .Post("/api/studio/close", {{"Cookie", cookie()}, {"Origin", "http://evil.example"}}, R"({"stop_runs": false})",
                      "application/json")
                ->status,
            403);
  EXPECT_EQ(ask("/api/studio/close", json{{"stop_runs", false}}), json::object());
  EXPECT_TRUE(comes_true([&] { return !client().Get("/"); }));
}

/// A studio whose Options a test says.
class StudioWith : public Workplace {
 protected:
  void open(const studio::Access& access) {
    fs::create_directories(root());
    server.emplace(studio::Options{.folder = root(), .access = access, .program = program().string(), .schema = R"({"options": []})"});
    serving = std::thread([this] { server->serve(); });
    token = text_of(root() / ".token");
    port = studio::place_of_open(root())->port;
  }
  ~StudioWith() override {
    if (!server) return;
    server->stop();
    serving.join();
  }
  int logged_in(const std::string& secret, std::string* cookie = nullptr) const {
    auto answer = httplib::Client("127.0.0.1", port).Post("/log_in", httplib::Params{{"secret", secret}});
    if (answer && cookie != nullptr) *cookie = answer->get_header_value("Set-Cookie");
    return answer ? answer->status : 0;
  }

  std::optional<studio::Server> server;
  std::thread serving;
  std::string token;
  int port = 0;
};

TEST_F(StudioWith, APasswordOpensItInPlaceOfTheToken) {
  std::ofstream(scratch / "password") << "correct horse\nsecond line\n";
  EXPECT_THROW(studio::password_in(scratch / "password"), Error) << "others can read it";
  ::chmod((scratch / "password").c_str(), 0600);
  open({.password = studio::password_in(scratch / "password")});
  auto page = httplib::Client("127.0.0.1", port).Get("/");
  ASSERT_TRUE(page);
  EXPECT_THAT(page->body, HasSubstr(">Password</label>"));
  std::string cookie;
  EXPECT_EQ(logged_in("correct horse", &cookie), 303);
  EXPECT_THAT(cookie, HasSubstr(token));
  EXPECT_EQ(logged_in(token), 303);
  EXPECT_EQ(logged_in("wrong"), 403);
  EXPECT_EQ(logged_in("correct horse"), 403) << "at once after a wrong one";
  EXPECT_TRUE(comes_true([&] { return logged_in("correct horse") == 303; }));
  auto foreign = httplib::Client("127.0.0.1", port)
                     .Post("/log_in", httplib::Headers{{"Origin", "http://evil.example"}}, httplib::Params{{"secret", "correct horse"}});
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->status, 403);
}

TEST_F(StudioWith, AProxyShowsItUnderItsOwnAddress) {
  open({.public_address = "https://home.example/burnish/"});
  EXPECT_EQ(server->address(), "https://home.example/burnish/?token=" + token);
  auto asked = [&](const std::string& host, const std::string& origin) {
    const httplib::Headers headers{{"Host", host}, {"Origin", origin}, {"Cookie", "burnish_" + std::to_string(port) + "=" + token}};
    auto answer = httplib::Client("127.0.0.1", port).Post("/api/queue", headers, "{}", "application/json");
    return answer ? answer->status : 0;
  };
  EXPECT_EQ(asked("home.example", "https://home.example"), 200);
  EXPECT_EQ(asked("127.0.0.1", "https://home.example"), 200) << "a proxy that asks in its own name";
  EXPECT_EQ(asked("evil.example", "https://home.example"), 403);
  EXPECT_EQ(asked("home.example", "https://evil.example"), 403);
  EXPECT_EQ(asked("home.example", "http://home.example.evil.example"), 403);
  auto first = httplib::Client("127.0.0.1", port).Get("/?token=" + token);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->get_header_value("Location"), "./") << "below whatever the proxy has";
  EXPECT_THAT(first->get_header_value("Set-Cookie"), HasSubstr("; Secure"));
  EXPECT_THROW(studio::Guard(root() / ".token", port, {.public_address = "home.example"}), Error);
}

TEST_F(StudioWith, ACertificateOfTheUsersMakesItHttps) {
  const auto chain = (scratch / "chain.pem").string(), key = (scratch / "key.pem").string();
  const auto made =
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout '" + key + "' -out '" + chain + "' 2>/dev/null";
  if (std::system(made.c_str()) != 0) GTEST_SKIP() << "openssl, which would make a certificate, is not there";
  EXPECT_THROW(open({.certificate = report::Certificate{key, chain}}), Error) << "the other way round";
  open({.certificate = report::Certificate{chain, key}});
  EXPECT_THAT(server->address(), testing::StartsWith("https://127.0.0.1:"));
  httplib::SSLClient client("127.0.0.1", port);
  client.enable_server_certificate_verification(false);
  const httplib::Headers headers{{"Origin", "https://127.0.0.1:" + std::to_string(port)},
                                 {"Cookie", "burnish_" + std::to_string(port) + "=" + token}};
  auto answer = client.Post("/api/queue", headers, "{}", "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  auto own = studio::client_of(root());
  ASSERT_TRUE(own);
  EXPECT_EQ(own->ask("GET", "/api/queue", nullptr).status, 200) << "programs of this machine find it too";
}
