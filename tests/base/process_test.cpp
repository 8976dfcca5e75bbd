// Programs that this one starts: what they say, and how they end.
#include "base/process.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace std::chrono_literals;
using testing::HasSubstr;

namespace {
constexpr size_t kMost = 1 << 20;

Ended end_of(pid_t child) {
  for (;;) {
    if (auto ended = ended_process(child)) return *ended;
    std::this_thread::sleep_for(1ms);
  }
}

std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
}  // namespace

TEST(Process, SaysWhatItPrintsAndHowItEnded) {
  auto said = run_process({.words = {"sh", "-c", "echo out; echo err >&2; exit 3"}}, 10s, kMost);
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_EQ(said.output, "out\n");
  EXPECT_EQ(said.errors, "err\n");
  EXPECT_TRUE(said.is_whole);
}

TEST(Process, ThatTakesTooLongOrSaysTooMuchIsEnded) {
  EXPECT_FALSE(run_process({.words = {"sleep", "100"}}, 50ms, kMost).is_whole);
  auto much = run_process({.words = {"yes"}}, 20s, 1 << 16);
  EXPECT_FALSE(much.is_whole);
  EXPECT_EQ(much.exit_code, 128 + SIGKILL);
}

TEST(Process, HasItsFolderItsVariablesAndItsOutput) {
  test::Scratch scratch;
  Command command{.words = {"sh", "-c", "pwd; echo $WORD; echo wrong >&2"},
                  .variables = std::vector<std::string>{"WORD=given"},
                  .folder = scratch.path(),
                  .output = scratch / "log"};
  EXPECT_EQ(end_of(start_process(command)).exit_code, 0);
  EXPECT_EQ(text_of(scratch / "log"), std::filesystem::canonical(scratch.path()).string() + "\ngiven\nwrong\n");
}

TEST(Process, IsOfASessionOfItsOwnWhereItOutlivesThisOne) {
  auto group_and_session = [](bool outlives) {
    auto child = start_process({.words = {"sleep", "100"}, .outlives = outlives});
    std::pair found{getpgid(child) == child, getsid(child) == child};
    kill(child, SIGTERM);
    EXPECT_EQ(end_of(child).signal, SIGTERM);
    return found;
  };
  EXPECT_EQ(group_and_session(false), std::pair(true, false));
  EXPECT_EQ(group_and_session(true), std::pair(true, true));
}

TEST(Process, ThatIsNotThereIsNamed) {
  try {
    start_process({.words = {"no-such-program"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no-such-program cannot be started: No such file or directory"));
  }
}

TEST(Standby, GoesOnWhenItIsTold) {
  Standby waiting({.words = {"sh", "-c", "read -r line; echo \"heard $line\"; echo err >&2; exit 3"}});
  const auto said = waiting.go_on("go on", 10s, kMost);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->output, "heard go on\n");
  EXPECT_EQ(said->errors, "err\n");
  EXPECT_EQ(said->exit_code, 3);
}

TEST(Standby, SaysNothingWhereItHasEnded) {
  const auto file = testing::TempDir() + "/standby_ended";
  std::filesystem::remove(file);
  Standby ended({.words = {"sh", "-c", "exec <&-; : > " + file}});
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(ended.go_on("go on", 10s, kMost));
}

TEST(Standby, IsEndedWhereNobodyTellsIt) {
  const auto file = testing::TempDir() + "/standby_told";
  std::filesystem::remove(file);
  { const Standby waiting({.words = {"sh", "-c", "read -r line; : > " + file}}); }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Process, TellsHowACommandOfTheUsersEnded) {
  EXPECT_EQ(ending("on_save", 3, " \n"), "on_save ended with exit code 3");
  EXPECT_EQ(ending("on_save", 1, "first\nlast\n"), "on_save ended with exit code 1, and said at last: first last");
  const auto said = burnish::end_of("é" + std::string(1000, 'x') + "é" + std::string(399, 'y'));
  EXPECT_EQ(said, std::string(399, 'y')) << "no character is cut in two";
}
