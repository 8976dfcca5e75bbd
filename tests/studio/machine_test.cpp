// What a studio says of its machine.
#include "studio/machine.h"

#include "tests/made_up_system.h"
#include "tests/places.h"
#include "tests/studio/served.h"

using namespace burnish;
using namespace burnish::test;

TEST(MachineFiles, SayWhatProcessorsDid) {
  auto ticks = studio::ticks_in("cpu  10 1 2 80 7 3 4 5 900 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n");
  ASSERT_TRUE(ticks);
  EXPECT_EQ(ticks->busy, 25) << "guests are counted in user already; waiting for a disk is no work";
  EXPECT_EQ(ticks->all, 112);
  for (const char* text : {"", "cpu", "intr 1 2", "cpu x"}) EXPECT_FALSE(studio::ticks_in(text)) << text;
  EXPECT_EQ(studio::bytes_in("MemTotal:  8 kB\nMemFree: 3 kB\n", "MemFree"), 3072);
  EXPECT_EQ(studio::bytes_in("MemTotal:  8 kB\n", "MemFree"), 0);
}

TEST(Gpus, SayWhatTheyAreAt) {
  auto gpus = studio::Gpus(test::kMadeUpNvml).look();
  ASSERT_EQ(gpus.size(), 1u) << "of the other nothing can be had";
  EXPECT_EQ(gpus[0].name, "Made-up 9000");
  EXPECT_EQ(gpus[0].index, 0);
  EXPECT_EQ(gpus[0].busy, 0.75);
  EXPECT_EQ(gpus[0].used_bytes, 6LL << 30);
  EXPECT_EQ(gpus[0].total_bytes, 24LL << 30);
  EXPECT_EQ(gpus[0].degrees, 61);
  EXPECT_EQ(gpus[0].watts, 250.5);
  EXPECT_EQ(gpus[0].used_by, (std::map<int64_t, int64_t>{{41, 1000}})) << "of a process of another container nothing is known";
  EXPECT_TRUE(studio::Gpus("libnothing-of-the-kind.so").look().empty());
  EXPECT_TRUE(studio::Gpus("libc.so.6").look().empty()) << "which has no such functions";
}

namespace {

class MachineTest : public Workplace {
 protected:
  MachineTest() : workspace(root()), queue(training(workspace, program().string())), burnish(workspace, program().string(), false) {}

  MadeUpSystem system;
  studio::Workspace workspace;
  studio::Queue queue;
  studio::Program burnish;
};

}  // namespace

TEST_F(MachineTest, RemembersWhatItSaw) {
  system.write("proc/stat", "cpu  0 0 0 100 0 0 0 0\n");
  system.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 250 kB\n");
  studio::Machine machine(workspace, queue, burnish, system.root());
  auto first = machine.state();
  ASSERT_EQ(first["looks"].size(), 1u) << "nobody has asked before";
  EXPECT_TRUE(first["looks"][0]["busy"].is_null()) << "of one look nothing is known";
  EXPECT_EQ(first["looks"][0]["used_bytes"], 750 * 1024);
  EXPECT_EQ(first["total_bytes"], 1000 * 1024);
  EXPECT_EQ(first["gpus"].size(), first["looks"][0]["gpus"].size());
  EXPECT_EQ(first["disk"]["folder"], workspace.root().string());
  EXPECT_GT(first["disk"]["total_bytes"], first["disk"]["free_bytes"]);
  EXPECT_EQ(first["jobs"], json::array());

  system.write("proc/stat", "cpu  30 0 0 170 0 0 0 0\n");
  json later;
  ASSERT_TRUE(comes_true([&] { return (later = machine.state())["looks"].size() > 1; }));
  EXPECT_NEAR(later["looks"][1]["busy"].get<double>(), 0.3, 1e-9);
  EXPECT_GT(later["looks"][1]["time"], later["looks"][0]["time"]);
}

TEST_F(MachineTest, SaysWhatRunsTake) {
  queue.add("cat", "while [ ! -e '" + (scratch / "go").string() + "' ]; do sleep 0.02; done", false);
  ASSERT_TRUE(comes_true([&] { return queue.jobs()[0].state == studio::Job::State::running; }));
  system.write("proc/" + std::to_string(queue.jobs()[0].process.id) + "/status", "RssAnon:  5 kB\nRssFile: 900 kB\nRssShmem: 2 kB\n");
  studio::Machine machine(workspace, queue, burnish, system.root());
  auto jobs = machine.state()["jobs"];
  std::ofstream(scratch / "go") << "";
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0]["run"], "cat");
  EXPECT_EQ(jobs[0]["memory_bytes"], 7 * 1024) << "files that are mapped are no memory of its own";
  ASSERT_TRUE(comes_true([&] { return queue.jobs()[0].state == studio::Job::State::ended; }));
}

TEST_F(StudioTest, SaysWhatItsMachineIsAt) {
  auto machine = ask("/api/machine");
  EXPECT_GT(machine["total_bytes"].get<int64_t>(), 0);
  EXPECT_EQ(machine["seconds"], 300);
  EXPECT_EQ(ask("/api/machine/notes")["advice"], json::array({"a note"}));
}
