// A run tells where it stands from its first second: to who watches it while it encodes, and to who comes when it has ended.
#include "records/status.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <httplib.h>

#include "io/files.h"
#include "records/asked.h"
#include "records/json_log.h"
#include "records/previews.h"
#include "report/run_follower.h"
#include "tests/integration/processes.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using records::State;
using testing::HasSubstr;

namespace {

class RunStatus : public BadInput {
 protected:
  /// A run that encodes for as long as a test takes.
  std::string long_run() const {
    std::string rows = "image,prompt\n";
    for (int i = 0; i < 20000; ++i) rows += (kGolden / "pictures/0.png").string() + ",caption " + std::to_string(i) + "\n";
    return quoted(test::kProgram) + " " + train("--num_threads 1 --dataset_metadata_path " + quoted(write("many.csv", rows)));
  }
  std::optional<records::Status> status() const { return records::read_status(out()); }
  report::RunFollower follower() const {
    return {out(), "out", [](const auto&, const auto&) { return ""; }};
  }
};

}  // namespace

TEST_F(RunStatus, IsSeenWhileItEncodesAndAfterCtrlC) {
  Running run(long_run(), at("output"));
  ASSERT_TRUE(within(60, [&] { return status().has_value(); })) << run.output();
  auto follower = this->follower();
  ASSERT_TRUE(within(120, [&] { return status()->state == State::encoding && status()->done > 0; })) << run.output();
  EXPECT_FALSE(fs::exists(out() / "log.jsonl"));
  auto seen = follower.next()["status"];
  EXPECT_EQ(seen["state"], "encoding");
  EXPECT_EQ(seen["is_running"], true);
  EXPECT_EQ(seen["process"]["id"], run.pid());
  EXPECT_GT(seen["total"], 0) << seen;
  EXPECT_GT(seen["seconds_left"], 0) << seen;
  ASSERT_TRUE(within(10, [&] {
    auto news = follower.next();
    return news.contains("status") && news["status"]["done"] > seen["done"];
  })) << "it goes on";

  run.send(SIGINT);
  ASSERT_TRUE(run.ends_within(60));
  EXPECT_EQ(run.exit_code(), 130);
  auto ended = follower.next()["status"];
  EXPECT_EQ(ended["state"], "interrupted");
  EXPECT_EQ(ended["exit_code"], 130);
  EXPECT_EQ("[train] " + ended["sentence"].get<std::string>(), sentences(run.output()).back());
  EXPECT_TRUE(ended["is_running"].is_null());
}

TEST_F(RunStatus, AWatcherComesBeforeTheRun) {
  fs::create_directories(out());
  auto port = free_port();
  Running watch(fmt::format("{} watch {} --port {}", quoted(test::kProgram), quoted(out()), port), at("watch"));
  ASSERT_TRUE(within(30, [&] { return watch.output().find("http://") != std::string::npos; }));
  std::string events;
  Outcome trained;
  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(120);
  client.Get("/events", [&](const char* bytes, size_t size) {
    if (events.empty()) trained = run_burnish(train(""));
    events.append(bytes, size);
    return events.find("\"state\":\"done\"") == std::string::npos;
  });
  EXPECT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_THAT(events, testing::AllOf(HasSubstr("\"state\":\"done\""), HasSubstr("\"steps\":[1")));
}

TEST_F(RunStatus, OfARunThatIsKilledIsNotBelieved) {
  {
    Running run(long_run(), at("output"));
    ASSERT_TRUE(within(120, [&] { return status() && status()->state == State::encoding; })) << run.output();
    run.send(SIGKILL);
    ASSERT_TRUE(run.ends_within(10));
  }
  auto seen = follower().next()["status"];
  EXPECT_EQ(seen["state"], "encoding");
  EXPECT_EQ(seen["is_running"], false);
  EXPECT_EQ(run_burnish("report " + quoted(out())).exit_code, 0);
  EXPECT_THAT(read_file(out() / "report.html"), HasSubstr("\"is_running\":false"));

  auto started = status()->times.started;
  ASSERT_EQ(run_burnish(train("")).exit_code, 0);
  EXPECT_EQ(status()->state, State::done);
  EXPECT_EQ(status()->exit_code, 0);
  EXPECT_GT(status()->times.started, started);
  EXPECT_THAT(read_file(out() / "report.html"), HasSubstr("\"state\":\"done\"")) << "the page that a run writes at its end";
}

TEST_F(RunStatus, SaysWhyARunNeverBegan) {
  auto data = write("data.csv", "image,prompt\nnowhere.png,a cat\n");
  auto outcome = run_burnish(train("--dataset_metadata_path " + quoted(data)), "BURNISH_LOG=error");
  EXPECT_EQ(outcome.exit_code, 3);
  expect_only_status(out(), outcome);
  EXPECT_THAT(status()->sentence, HasSubstr("nowhere.png"));
  auto page = run_burnish("report " + quoted(out()));
  EXPECT_EQ(page.exit_code, 0) << page.output;
  EXPECT_THAT(read_file(out() / "report.html"), HasSubstr("nowhere.png"));
}

TEST_F(RunStatus, IsOfRunsAlone) {
  EXPECT_EQ(run_burnish("plan " + golden_model() + golden_data() + "--lora_rank 4 --max_steps 2 --output_path " + quoted(out())).exit_code,
            0);
  EXPECT_FALSE(fs::exists(out()));
  refused(2, train("--lora_type lorra"), {"lora_type"});
  EXPECT_FALSE(fs::exists(out())) << "options that are refused begin no run";
  refused(3, train("--resume"), {"nothing to resume"});
  EXPECT_FALSE(fs::exists(out())) << "a folder that was misspelt";
}

TEST_F(RunStatus, DoesWhatIsAskedWhileItTrains) {
  auto prompts = write("prompts.txt", "a red house --s 2\n");
  Running run(
      quoted(test::kProgram) + " " + train("--num_threads 1 --max_steps 100000 --save_steps 0 --preview_prompts " + quoted(prompts)),
      at("output"));
  auto steps = [&] { return records::LogFollower(out() / "log.jsonl").next().log.steps; };
  ASSERT_TRUE(within(120, [&] { return fs::exists(out() / "log.jsonl") && steps().size() > 2; })) << run.output();
  records::ask(out(), "preview");
  records::ask(out(), "save");
  ASSERT_TRUE(within(60, [&] { return !records::read_asked(out()).any(); })) << run.output();
  auto previews = records::find_previews(out());
  ASSERT_EQ(previews.size(), 2u) << "before the first step, and when it was asked";
  EXPECT_GT(previews.back().step, 2);
  ASSERT_TRUE(within(60, [&] { return !io::glob(out(), "step-*.safetensors").empty(); })) << "of that step, or the next";
  records::ask(out(), "stop_after_epoch");
  ASSERT_TRUE(run.ends_within(120)) << run.output();
  EXPECT_EQ(run.exit_code(), 130);
  EXPECT_THAT(status()->sentence, HasSubstr("ended with its epoch at step"));
  EXPECT_EQ(status()->state, State::interrupted);
}
