// The queue of a studio: jobs are processes of their own, and what it knows of them outlives it.
#include "studio/queue.h"

#include <cstdlib>
#include <map>

#include "base/error.h"
#include "tests/studio/workplace.h"

using namespace burnish;
using namespace burnish::studio;
using namespace burnish::test;
using namespace std::chrono_literals;
using testing::ElementsAre;

namespace {

class QueueTest : public Workplace {
 protected:
  QueueTest() : workspace(root()) {}

  std::unique_ptr<Queue> open() { return std::make_unique<Queue>(training(workspace, program().string())); }
  static bool all_ended(const Queue& queue) {
    auto jobs = queue.jobs();
    return std::ranges::all_of(jobs, [](const Job& job) { return job.state == Job::State::ended; });
  }
  static std::vector<std::string> runs_of(const Queue& queue) {
    std::vector<std::string> runs;
    for (const auto& job : queue.jobs()) runs.push_back(job.run);
    return runs;
  }
  /// A job that says that it has begun, and ends when it is let, or when the test's folder is gone.
  std::string waiting_job(const std::string& name) const {
    return "echo begun >> '" + (scratch / (name + ".log")).string() + "'; while [ -d '" + scratch.path() + "' ] && [ ! -e '" +
           (scratch / "go").string() + "' ]; do sleep 0.02; done";
  }
  void let_go() const { std::ofstream(scratch / "go") << ""; }
  std::string log(const std::string& name) const { return text_of(scratch / (name + ".log")); }

  Workspace workspace;
};

}  // namespace

TEST_F(QueueTest, RunsOneAfterTheOtherAndSaysHowTheyEnded) {
  auto queue = open();
  const auto order = (scratch / "order").string();
  const auto job = "echo $RUN begins >> '" + order + "'; sleep 0.1; echo $RUN ends >> '" + order + "'; exit ";
  queue->add("first", job + "0", false);
  queue->add("second", job + "3", false);
  ASSERT_TRUE(comes_true([&] { return all_ended(*queue); }));
  const auto first = run("first").string(), second = run("second").string();
  EXPECT_EQ(text_of(order), first + " begins\n" + first + " ends\n" + second + " begins\n" + second + " ends\n");
  EXPECT_EQ(queue->jobs()[0].exit_code, 0);
  EXPECT_EQ(queue->jobs()[1].exit_code, 3);
}

TEST_F(QueueTest, GoesInTheOrderThatPeopleMake) {
  auto queue = open();
  queue->set(1, /*is_paused=*/true);
  for (const char* name : {"a", "b", "c"}) queue->add(name, "echo $RUN >> '" + (scratch / "order").string() + "'", false);
  std::this_thread::sleep_for(500ms);
  EXPECT_FALSE(fs::exists(scratch / "order")) << "it is paused";
  const auto jobs = queue->jobs();
  EXPECT_TRUE(queue->move(jobs[2].id, jobs[0].id));
  EXPECT_TRUE(queue->move(jobs[0].id, ""));
  EXPECT_FALSE(queue->move("0009-x", ""));
  EXPECT_THAT(runs_of(*queue), ElementsAre("c", "b", "a"));
  queue.reset();
  queue = open();
  EXPECT_TRUE(queue->is_paused());
  EXPECT_THAT(runs_of(*queue), ElementsAre("c", "b", "a")) << "as it was left";
  EXPECT_TRUE(queue->remove(jobs[1].id));
  queue->set(1, false);
  ASSERT_TRUE(comes_true([&] { return all_ended(*queue); }));
  EXPECT_EQ(text_of(scratch / "order"), run("c").string() + "\n" + run("a").string() + "\n");
}

TEST_F(QueueTest, JobsOutliveTheStudio) {
  auto queue = open();
  const auto id = queue->add("long", waiting_job("long"), false).id;
  queue->add("next", waiting_job("next"), false);
  ASSERT_TRUE(comes_true([&] { return log("long") == "begun\n"; }));
  queue.reset();
  std::this_thread::sleep_for(300ms);
  queue = open();
  EXPECT_EQ(queue->jobs()[0].state, Job::State::running);
  std::this_thread::sleep_for(600ms);
  EXPECT_EQ(log("long"), "begun\n") << "it was not started again";
  EXPECT_EQ(log("next"), "") << "nor another beside it";
  EXPECT_FALSE(queue->remove(id)) << "it runs";
  let_go();
  EXPECT_TRUE(comes_true([&] { return all_ended(*queue); }));
  EXPECT_EQ(log("next"), "begun\n");
}

TEST_F(QueueTest, FindsAJobThatNobodyWroteDown) {
  auto queue = open();
  const auto job = queue->add("cat", waiting_job("cat"), false);
  ASSERT_TRUE(comes_true([&] { return log("cat") == "begun\n"; }));
  queue.reset();
  // As a studio leaves it that is killed between the start of a process and its record.
  std::ofstream(workspace.queue() / (job.id + ".json")) << R"({"run": "cat", "resumes": false, "state": "waiting"})";
  queue = open();
  EXPECT_EQ(queue->jobs()[0].state, Job::State::running);
  let_go();
  ASSERT_TRUE(comes_true([&] { return all_ended(*queue); }));
  EXPECT_EQ(log("cat"), "begun\n") << "once";
}

TEST_F(QueueTest, SeveralAtOnceEachSeeOneGpu) {
  auto queue = open();
  queue->set(2, false);
  for (const char* name : {"a", "b", "c"})
    queue->add(name, "echo $CUDA_VISIBLE_DEVICES > '" + (scratch / name).string() + "'; " + waiting_job(name), false);
  ASSERT_TRUE(comes_true([&] { return log("a") + log("b") == "begun\nbegun\n"; }));
  EXPECT_EQ(log("c"), "");
  EXPECT_EQ(text_of(scratch / "a") + text_of(scratch / "b"), "0\n1\n");
  let_go();
  EXPECT_TRUE(comes_true([&] { return all_ended(*queue); }));
}

TEST_F(QueueTest, JobsOfDifferentGpusRunSideBySide) {
  auto queue = open();
  auto add = [&](const std::string& name, std::optional<int64_t> gpu) {
    queue->add(name, "echo $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES > '" + (scratch / name).string() + "'; " + waiting_job(name), false,
               /*are_its_own=*/false, {}, gpu);
  };
  for (const auto& [name, gpu] : std::map<std::string, int64_t>{{"a", 1}, {"b", 1}, {"c", 3}}) add(name, gpu);
  add("d", {});
  ASSERT_TRUE(comes_true([&] { return log("a") + log("c") == "begun\nbegun\n"; }));
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(log("b"), "") << "another has its GPU";
  EXPECT_EQ(log("d"), "") << "one runs at once of those that were given none";
  EXPECT_EQ(text_of(scratch / "a"), "PCI_BUS_ID 1\n");
  EXPECT_EQ(text_of(scratch / "c"), "PCI_BUS_ID 3\n");
  EXPECT_EQ(queue->jobs()[2].gpu, 3);
  queue.reset();
  queue = open();
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(log("b"), "") << "it is known which GPU those have that an earlier studio began";
  queue->set(3, false);
  ASSERT_TRUE(comes_true([&] { return log("d") == "begun\n"; }));
  EXPECT_EQ(text_of(scratch / "d"), "PCI_BUS_ID 0\n");
  let_go();
  EXPECT_TRUE(comes_true([&] { return all_ended(*queue); }));
  EXPECT_EQ(text_of(scratch / "b"), "PCI_BUS_ID 1\n");
  EXPECT_THROW(add("e", -1), Error);
}

TEST_F(QueueTest, TakesTheGpusThatItsOwnProcessMaySee) {
  ::setenv("CUDA_VISIBLE_DEVICES", "5,GPU-6", 1);
  auto queue = open();
  queue->set(4, false);
  for (const char* name : {"a", "b", "c"})
    queue->add(name, "echo $CUDA_VISIBLE_DEVICES > '" + (scratch / name).string() + "'; " + waiting_job(name), false);
  ASSERT_TRUE(comes_true([&] { return log("a") + log("b") == "begun\nbegun\n"; }));
  std::this_thread::sleep_for(500ms);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(text_of(scratch / "a") + text_of(scratch / "b"), "5\nGPU-6\n");
  EXPECT_EQ(log("c"), "") << "there is no third one";
  let_go();
  EXPECT_TRUE(comes_true([&] { return all_ended(*queue); }));
}

TEST_F(QueueTest, ARunHasANameOfItsOwnUnlessItGoesOn) {
  auto queue = open();
  queue->set(1, true);
  EXPECT_EQ(queue->add("cat", "true", false).run, "cat");
  EXPECT_EQ(queue->add("cat", "true", false).run, "cat-2");
  EXPECT_EQ(queue->add("cat", "echo $MORE > '" + (scratch / "more").string() + "'", true).run, "cat");
  for (const char* name : {"", "..", "a/b", ".hidden", "a\nb"}) EXPECT_THROW(queue->add(name, "true", false), Error) << name;
  queue->set(1, false);
  ASSERT_TRUE(comes_true([&] { return all_ended(*queue); }));
  EXPECT_EQ(text_of(scratch / "more"), "--resume\n");
}

TEST_F(QueueTest, EndsItsJobsWhereThatIsAsked) {
  auto queue = open();
  queue->add("cat", "trap 'echo saved >> \"" + (scratch / "cat.log").string() + "\"; exit 130' INT; " + waiting_job("cat"), false);
  queue->add("next", waiting_job("next"), false);
  ASSERT_TRUE(comes_true([&] { return log("cat") == "begun\n"; }));
  queue->end_jobs();
  EXPECT_TRUE(comes_true([&] { return log("cat") == "begun\nsaved\n"; }));
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(log("next"), "") << "nothing is started any more";
  queue.reset();
  EXPECT_EQ(open()->jobs()[1].run, "next");
  let_go();
}

TEST_F(QueueTest, TellsTheProgramWhatToTrust) {
  Queue queue(training(workspace, program().string(), /*trusts_settings=*/true));
  queue.add("cat", "echo $MORE > '" + (scratch / "more").string() + "'", false);
  ASSERT_TRUE(comes_true([&] { return all_ended(queue); }));
  EXPECT_EQ(text_of(scratch / "more"), "--trust_settings\n");
}

TEST_F(QueueTest, TellsTheProgramWhatToTell) {
  Queue queue(training(workspace, program().string(), /*trusts_settings=*/false, {}, "https://example.org/told"));
  queue.add("cat", "echo $MORE > '" + (scratch / "more").string() + "'", false);
  ASSERT_TRUE(comes_true([&] { return all_ended(queue); }));
  EXPECT_EQ(text_of(scratch / "more"), "--webhook https://example.org/told\n");
}

TEST_F(QueueTest, SaysWhenAJobCannotBeStarted) {
  Queue queue(training(workspace, (scratch / "nothing").string()));
  const auto job = queue.add("cat", "true", false);
  ASSERT_TRUE(comes_true([&] { return all_ended(queue); }));
  EXPECT_EQ(queue.jobs()[0].exit_code, 2);
  EXPECT_THAT(text_of(queue.log_of(job.id)), testing::HasSubstr("cannot be started"));
}

TEST_F(QueueTest, BeginsWithWhateverStandsInItsFiles) {
  const auto folder = root() / "queue";
  fs::create_directories(folder);
  for (const char* text : {R"({"order": 3, "at_once": "x", "is_paused": 1})", R"({"order": [1, {}], "at_once": 1e300})", "[]", "{"}) {
    std::ofstream(folder / "queue.json") << text;
    auto queue = open();
    EXPECT_EQ(queue->at_once(), 1) << text;
  }
  std::string id;
  {
    auto queue = open();
    queue->set(1, /*is_paused=*/true);
    id = queue->add("cat", "true", false).id;
  }
  for (const char* text :
       {R"({"run": "cat", "state": 3, "process": {"id": "x", "start": [], "host": 1}, "exit_code": "x", "resumes": "y"})",
        R"({"run": "cat", "state": "running", "process": 7})", R"({"run": 7})", "null"}) {
    std::ofstream(folder / (id + ".json")) << text;
    auto queue = open();
    ASSERT_TRUE(comes_true([&] { return all_ended(*queue); })) << text;
    EXPECT_FALSE(fs::exists(run("cat"))) << "nothing is begun that nobody asked for";
  }
}

TEST_F(QueueTest, StaysAsItWasWhereItCannotBeWritten) {
  auto queue = open();
  queue->set(1, /*is_paused=*/true);
  for (const char* name : {"a", "b"}) queue->add(name, "true", false);
  const auto jobs = queue->jobs();
  fs::remove(root() / "queue/queue.json");
  fs::create_directories(root() / "queue/queue.json/in the way");
  EXPECT_THROW(queue->add("c", "true", false), Error);
  EXPECT_THROW(queue->move(jobs[1].id, jobs[0].id), Error);
  EXPECT_THROW(queue->remove(jobs[0].id), Error);
  EXPECT_THROW(queue->set(2, /*is_paused=*/false), Error);
  EXPECT_THAT(runs_of(*queue), ElementsAre("a", "b"));
  EXPECT_TRUE(queue->is_paused());
  EXPECT_EQ(queue->at_once(), 1);
  int num_settings = 0;
  for (const auto& entry : fs::directory_iterator(root() / "queue")) num_settings += entry.path().extension() == ".toml";
  EXPECT_EQ(num_settings, 2) << "nothing is left of what was refused";
}

TEST_F(QueueTest, SaysThatAJobWasKilled) {
  auto queue = open();
  const auto id = queue->add("a", "echo '12 of 40'; kill -9 $$", false).id;
  ASSERT_TRUE(comes_true([&] { return all_ended(*queue); }));
  EXPECT_EQ(queue->says(id), "it was killed, as the system does where memory runs out; the last that it said: 12 of 40");
  const auto other = queue->add("b", "echo 'no such model'; exit 2", false).id;
  ASSERT_TRUE(comes_true([&] { return all_ended(*queue); }));
  EXPECT_EQ(queue->says(other), "no such model");
}

TEST_F(QueueTest, AsksItsCheckBeforeItTakesAJob) {
  auto work = training(workspace, program().string());
  work.check = [](const std::string& job, const std::string& settings) {
    if (settings == "wrong") throw Error(Exit::config, "studio", job + " would end at once");
  };
  Queue queue(work);
  queue.set(1, /*is_paused=*/true);
  EXPECT_THROW(queue.add("a", "wrong", false), Error);
  EXPECT_TRUE(queue.jobs().empty());
  queue.add("a", "right", false);
  queue.add("b", "wrong", /*resumes=*/true, /*are_its_own=*/true);
  EXPECT_THAT(runs_of(queue), ElementsAre("a", "b")) << "what was begun may go on";
}
