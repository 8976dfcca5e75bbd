// The verbs report and watch as programs.
#include <httplib.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "tests/integration/refused.h"
#include "tests/places.h"
#include "tests/report/fake_run.h"

using namespace burnish;
using namespace burnish::test;

TEST(ReportVerb, WritesThePageAndSaysWhere) {
  Scratch folder;
  make_run(folder / "cat", 3);
  make_run(folder / "dog", 2, 32);
  auto outcome = run_burnish("report " + quoted(folder / "cat"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, (folder / "cat/report.html").string() + "\n");
  EXPECT_NE(read_file(folder / "cat/report.html").find("\"name\":\"cat\""), std::string::npos);
  outcome = run_burnish("report " + quoted(folder / "cat") + " --output " + quoted(folder / "both.html") + " " + quoted(folder / "dog"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(read_file(folder / "both.html").find("\"name\":\"dog\""), std::string::npos);
}

TEST(ReportVerb, RefusesInOneSentence) {
  Scratch folder;
  make_run(folder / "cat", 1);
  expect_one_error(run_burnish("report"), 2, {"no run given", "burnish report runs/cat"});
  expect_one_error(run_burnish("report --ouput x"), 2, {"did you mean 'output'?"});
  expect_one_error(run_burnish("report " + quoted(folder / "nowhere")), 3, {"nowhere is not there"});
  expect_one_error(run_burnish("report " + quoted(fs::path(folder.path()))), 3, {"holds neither a status.json nor a log.jsonl"});
  expect_one_error(run_burnish("report " + quoted(folder / "cat") + " --output /dev/null/report.html"), 3, {"/dev/null/report.html"});
  expect_one_error(run_burnish("watch"), 2, {"no run given", "burnish watch runs/cat"});
  expect_one_error(run_burnish("watch " + quoted(folder / "cat") + " " + quoted(folder / "nowhere")), 3, {"nowhere is not there"});
  expect_one_error(run_burnish("watch " + quoted(fs::path(folder.path()))), 3, {"holds neither a status.json nor a log.jsonl"});
}

TEST(ReportVerb, HelpIsShort) {
  for (const char* verb : {"report", "watch"}) {
    auto outcome = run_burnish(std::string(verb) + " --help");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.output.find("run..."), std::string::npos) << outcome.output;
    EXPECT_LE(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 12) << outcome.output;
  }
}

TEST(WatchVerb, ServesUntilCtrlC) {
  Scratch folder;
  make_run(folder / "cat", 3);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  auto child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl(test::kProgram, "burnish", "watch", (folder / "cat").c_str(), "--port", "0", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string said(4096, '\0');
  said.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(ends[0], said.data(), said.size()))));
  ::close(ends[0]);
  std::smatch match;
  ASSERT_TRUE(std::regex_search(said, match, std::regex("http://127\\.0\\.0\\.1:(\\d+)/"))) << said;
  auto port = std::stoi(match[1]);

  httplib::Client client("127.0.0.1", port);
  auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  expect_one_error(run_burnish("watch " + quoted(folder / "cat") + " --port " + std::to_string(port)), 2, {"cannot be had", "--port 0"});

  // While a page is open and listens.
  std::string events;
  auto start = std::chrono::steady_clock::now();
  client.Get("/events", [&](const char* bytes, size_t size) {
    events.append(bytes, size);
    start = std::chrono::steady_clock::now();
    ::kill(child, SIGINT);
    return true;
  });
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << "an open page holds it";
  EXPECT_NE(events.find("\"steps\":[1,2,3]"), std::string::npos) << events;
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), 130);
}
