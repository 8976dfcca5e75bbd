// What others take of this process's cores, by files as systems have them, and what follows for how threads wait.
#include "base/core_contention.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/made_up_system.h"

using namespace burnish;

namespace {

/// The times of one thread, in seconds.
std::map<int64_t, CoreTime> of_one(double ran, double queued, double turns = 0) { return {{1, {ran, queued, turns}}}; }

/// After how many stretches alike, at most 3000, the decision is another.
int num_until_change(SleepDecision& decision, double taken, bool sleeps) {
  for (int i = 1; i <= 3000; ++i)
    if (decision.sleeps_after(taken) != sleeps) return i;
  return 3000;
}

}  // namespace

TEST(CoreTimes, AreReadOfEveryThread) {
  test::MadeUpSystem system;
  EXPECT_THAT(core_times(system.root()), testing::IsEmpty()) << "no such files";
  system.write("proc/self/task/12/schedstat", "2000000000 500000000 30\n");
  system.write("proc/self/task/13/schedstat", "1000000000 0 1\n");
  system.write("proc/self/task/14/schedstat", "");
  system.write("proc/self/task/15/schedstat", "12");
  system.write("proc/self/task/16/other", "1 2 3");
  system.write("proc/self/task/self/schedstat", "1 2 3");
  auto times = core_times(system.root());
  ASSERT_EQ(times.size(), 2u);
  EXPECT_DOUBLE_EQ(times.at(12).ran, 2);
  EXPECT_DOUBLE_EQ(times.at(12).queued, 0.5);
  EXPECT_DOUBLE_EQ(times.at(12).turns, 30);
  EXPECT_DOUBLE_EQ(times.at(13).ran, 1);
}

TEST(CoresTaken, AreWhatThreadsQueuedForWhileCoresWereTaken) {
  EXPECT_NEAR(cores_taken(of_one(1, 1), of_one(1.4, 1.6), 0.5, 2), 1.2, 1e-9) << "of two cores, threads ran on 0.8";
  EXPECT_NEAR(cores_taken(of_one(0, 0), of_one(0.98, 3), 0.5, 2), 0.04, 1e-9) << "they queued behind each other";
  EXPECT_NEAR(cores_taken(of_one(0, 0), of_one(0.6, 0.4), 0.5, 1.2), 0, 1e-9) << "a quota of 1.2 cores was used up";
  EXPECT_NEAR(cores_taken(of_one(0, 0), of_one(3, 3), 0.5, 2), 0, 1e-9) << "clocks that disagree";
  EXPECT_NEAR(cores_taken(of_one(0, 0, 0), of_one(0.5, 0.05, 10000), 0.5, 2), 0, 1e-9) << "what waking takes";
  EXPECT_NEAR(cores_taken(of_one(9, 9), of_one(1, 1), 0.5, 2), 0, 1e-9) << "another thread of the same number";
  EXPECT_NEAR(cores_taken({}, of_one(50, 50), 0.5, 2), 0, 1e-9) << "nothing could be read before";
  EXPECT_NEAR(cores_taken(of_one(50, 50), {}, 0.5, 2), 0, 1e-9) << "nor after";
  EXPECT_NEAR(cores_taken(of_one(1, 1), of_one(2, 2), 0, 2), 0, 1e-9) << "no time went by";
  auto more = of_one(0.1, 0.1);
  more[2] = {0.1, 0.2, 0};
  EXPECT_NEAR(cores_taken(of_one(0, 0), more, 0.5, 2), 0.6, 1e-9) << "a thread that began since";
}

TEST(SleepDecision, StaysAwakeOnAMachineOfItsOwn) {
  for (double cores : {2, 64}) {
    SleepDecision decision(cores);
    for (int i = 0; i < 1000; ++i) ASSERT_FALSE(decision.sleeps_after(i % 3 == 0 ? 2.0 : 0.2)) << "moments alone";
  }
}

TEST(SleepDecision, SleepsWithinSecondsAndWakesAfterTenQuietOnes) {
  SleepDecision decision(2);
  EXPECT_EQ(num_until_change(decision, 0.6, false), 2);
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(decision.sleeps_after(0.1));
  EXPECT_TRUE(decision.sleeps_after(0.45)) << "one busy process beside threads that sleep";
  EXPECT_EQ(num_until_change(decision, 0.1, true), 20);
  EXPECT_EQ(num_until_change(decision, 0.45, false), 3000) << "as little as that puts nobody to sleep";
}

TEST(SleepDecision, AwaitsMoreQuietWhereSleepMadeIt) {
  SleepDecision decision(2);
  std::vector<int> quiet;
  for (int i = 0; i < 5; ++i) {
    num_until_change(decision, 1, false);
    quiet.push_back(num_until_change(decision, 0, true));
  }
  EXPECT_THAT(quiet, testing::ElementsAre(20, 40, 80, 120, 160)) << "the fourth is a trial after a minute";
  for (int i = 0; i < 20; ++i) decision.sleeps_after(0);
  num_until_change(decision, 1, false);
  EXPECT_EQ(num_until_change(decision, 0, true), 20) << "it came back later";
}

TEST(SleepDecision, TriesToBeAwakeEverMoreRarely) {
  SleepDecision decision(2);
  std::vector<int> asleep;
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(num_until_change(decision, 1, false), 2);
    asleep.push_back(num_until_change(decision, 1, true));
  }
  EXPECT_THAT(asleep, testing::ElementsAre(120, 240, 480, 960, 1920, 1920));
  num_until_change(decision, 1, false);
  EXPECT_EQ(num_until_change(decision, 0, true), 20) << "quiet wakes as soon as ever";
}
