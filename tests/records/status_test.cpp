// Where a run stands: what it writes, and what a reader makes of it.
#include "records/status.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/progress.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::records;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

Status status_in(const Scratch& folder) { return read_status(folder.path()).value(); }

}  // namespace

TEST(StatusFile, FollowsStatesStagesAndTheEnd) {
  Scratch folder;
  StatusFile file;
  file.begin(folder.path());
  auto begun = status_in(folder);
  EXPECT_EQ(begun.state, State::reading);
  EXPECT_EQ(begun.process.id, getpid());
  EXPECT_EQ(is_running(begun.process), true);
  EXPECT_FALSE(begun.has_ended() || begun.exit_code);

  file.count_steps(12);
  EXPECT_EQ(begun.steps, 0) << "not known yet";

  file.enter(State::encoding);
  EXPECT_EQ(status_in(folder).steps, 12);
  Progress bar("vae", 4);
  auto status = status_in(folder);
  EXPECT_EQ(status.state, State::encoding);
  EXPECT_EQ(status.stage, "vae");
  EXPECT_EQ(status.done, 0);
  EXPECT_EQ(status.total, 4);
  EXPECT_EQ(status.times.started, begun.times.started);
  bar.update(1);
  EXPECT_EQ(status_in(folder).done, 0) << "written twice within a second";
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));
  bar.update(2);
  status = status_in(folder);
  EXPECT_EQ(status.done, 2);
  EXPECT_GT(status.seconds_left.value(), 0.5);
  EXPECT_GE(status.times.written, status.times.started + 1);
  bar.update(3);

  file.end(Exit::data, "3.png is no picture");
  status = status_in(folder);
  EXPECT_EQ(status.state, State::failed);
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.sentence, "3.png is no picture");
  EXPECT_EQ(status.stage, "vae");
  EXPECT_EQ(status.done, 3);
  Progress later("report", 7);
  EXPECT_EQ(status_in(folder).stage, "vae") << "what comes after the end";
}

TEST(StatusFile, SaysHowARunEnded) {
  for (auto [code, state, stage] : {std::tuple{Exit::done, State::done, ""},
                                    {Exit::interrupted, State::interrupted, "loading"},
                                    {Exit::no_fit, State::failed, "loading"}}) {
    Scratch folder;
    StatusFile file;
    file.begin(folder.path());
    { Progress bar("vae", 4); }
    file.enter(State::loading);
    EXPECT_EQ(status_in(folder).stage, "");
    file.end(code);
    EXPECT_EQ(status_in(folder).state, state);
    EXPECT_EQ(status_in(folder).exit_code, static_cast<int64_t>(code));
    EXPECT_EQ(status_in(folder).stage, stage) << "without a stage, the state that it ended in";
  }
}

TEST(StatusFile, OfNoRunTellsNobody) {
  Scratch folder;
  {
    StatusFile file;
    file.begin(folder.path());
  }
  auto text = test::content(status_path(folder.path()));
  StatusFile untold;
  Progress bar("vae", 4);
  untold.enter(State::training);
  untold.end(Exit::done);
  EXPECT_EQ(test::content(status_path(folder.path())), text);
}

TEST(StatusFile, ThatCannotBeWrittenEndsNoRun) {
  Scratch folder;
  StatusFile nowhere;
  nowhere.begin(folder.write("file", "mine") / "run");
  nowhere.end(Exit::done);
  EXPECT_EQ(test::content(folder / "file"), "mine");

  StatusFile file;
  file.begin(folder.path());
  auto before = test::content(status_path(folder.path()));
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  rlimit none{16, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  file.enter(State::encoding);
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(test::content(status_path(folder.path())), before);
  EXPECT_EQ(folder.num_files(), 2u) << "a half-written file is left";
  file.enter(State::training);
  EXPECT_EQ(status_in(folder).state, State::training) << "once there is room";
}

TEST(Status, IsNoneWithoutAFileAndRefusesWhatIsNone) {
  Scratch folder;
  EXPECT_FALSE(read_status(folder.path()));
  folder.write("status.json", "{\"state\": ");
  EXPECT_THAT(error_of([&] { read_status(folder.path()); }), HasSubstr("not valid JSON"));
  auto good = to_json({.state = State::encoding, .process = own_process()});
  folder.write("status.json", good.dump());
  EXPECT_EQ(status_in(folder).state, State::encoding);
  for (const auto& [name, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"state", "dancing"}, {"state", 3}, {"done", "many"}, {"process", 7}, {"exit_code", "0"}, {"written", nullptr}}) {
    auto bad = good;
    bad[name] = value;
    folder.write("status.json", bad.dump());
    EXPECT_THAT(error_of([&] { read_status(folder.path()); }),
                AllOf(HasSubstr("status.json does not say where a run stands"), HasSubstr("anew")))
        << bad;
  }
  folder.write("status.json", "[1]");
  EXPECT_THAT(error_of([&] { read_status(folder.path()); }), HasSubstr("does not say where a run stands"));
}

TEST(Status, KnowsAProcessThatIsGone) {
  Scratch folder;
  auto child = fork();
  if (child == 0) {
    StatusFile file;
    file.begin(folder.path());
    pause();
    _exit(0);
  }
  while (!read_status(folder.path())) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  auto process = status_in(folder).process;
  EXPECT_EQ(process.id, child);
  EXPECT_EQ(is_running(process), true);
  auto elsewhere = process, other = process;
  elsewhere.host += "-2";
  EXPECT_EQ(is_running(elsewhere), std::nullopt) << "which cannot be seen from here";
  ++other.start;
  EXPECT_EQ(is_running(other), false) << "a later process of the same number";

  kill(child, SIGKILL);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(is_running(process), false) << "ended, and nobody has asked how";
  waitpid(child, nullptr, 0);
  EXPECT_EQ(is_running(process), false);
}

TEST(StatusFile, TellsWhoListens) {
  Scratch folder;
  std::vector<Event> heard;
  StatusFile file;
  file.listen([&](const Event& event) { heard.push_back(event); });
  file.saved(1, {"a"});
  file.tell_end();
  EXPECT_TRUE(heard.empty()) << "of no run yet";
  file.begin(folder.path());
  file.count_steps(9);
  file.saved(5, {folder / "step-5.safetensors"});
  file.end(Exit::data, "a bad file");
  EXPECT_EQ(heard.size(), 2u) << "the end is told when all is done";
  file.tell_end();
  ASSERT_EQ(heard.size(), 3u);
  EXPECT_EQ(heard[0].kind, Event::Kind::started);
  EXPECT_EQ(heard[1].kind, Event::Kind::saved);
  EXPECT_EQ(heard[1].files.front(), folder / "step-5.safetensors");
  EXPECT_EQ(heard[1].status.steps, 9);
  EXPECT_EQ(heard[2].kind, Event::Kind::ended);
  EXPECT_EQ(heard[2].run, folder.path());
  EXPECT_EQ(heard[2].step, 5);
  EXPECT_EQ(heard[2].status.state, State::failed);
  EXPECT_EQ(heard[2].status.sentence, "a bad file");
}
