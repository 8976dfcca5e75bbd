// Samples whose losses stand out, among visits that are made here: a loss falls with noise and over the run, and is off by half as often as
// not.
#include "records/sample_losses.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "io/files.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::records;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

constexpr int64_t kSamples = 40;

struct Made {
  std::mt19937 random{7};
  std::vector<Visit> visits;

  /// Visits every sample once in each of so many epochs; `factor` says how a sample's loss differs at a time.
  void train(int epochs, const std::function<double(int64_t row, double time)>& factor) {
    std::uniform_real_distribution<double> time_of(0, 1);
    std::lognormal_distribution<double> luck(0, 0.4);
    for (int64_t step = 1; step <= epochs * kSamples; ++step) {
      const auto row = step % kSamples;
      const double time = time_of(random), expected = (1.1 - time) * (1 + std::exp(-static_cast<double>(step) / 200));
      visits.push_back({step, row, time, expected * luck(random) * factor(row, time)});
    }
  }
  std::vector<int64_t> standing_out(double sign, double SampleLosses::*distance) const {
    std::vector<int64_t> rows;
    for (const auto& sample : compare_samples(visits)) {
      if (sign * (sample.*distance) > kStandsOut) rows.push_back(sample.row);
    }
    return rows;
  }
};

double alike(int64_t, double) { return 1; }

}  // namespace

TEST(SampleLosses, NoneStandsOutOfEqualOnes) {
  Made made;
  made.train(20, alike);
  for (double sign : {-1.0, 1.0}) EXPECT_THAT(made.standing_out(sign, &SampleLosses::distance), IsEmpty());
  const auto losses = compare_samples(made.visits);
  EXPECT_EQ(losses.size(), kSamples);
  for (const auto& sample : losses) {
    EXPECT_EQ(sample.num_visits, 20);
    EXPECT_NEAR(sample.difference, 0, 0.4);
  }
}

TEST(SampleLosses, WhatLosesMoreThanItsKinStandsOut) {
  Made made;
  made.train(20, [](int64_t row, double) { return row % 10 == 3 ? 1.8 : 1.0; });
  EXPECT_THAT(made.standing_out(1, &SampleLosses::distance), ElementsAre(3, 13, 23, 33));
  EXPECT_THAT(made.standing_out(-1, &SampleLosses::distance), IsEmpty());
}

TEST(SampleLosses, WhatIsKnownByHeartStandsOutWhereNoiseIsHigh) {
  Made made;
  made.train(30, [](int64_t row, double time) { return row == 5 && time >= 0.5 ? 0.4 : 1.0; });
  EXPECT_THAT(made.standing_out(-1, &SampleLosses::noisy_distance), ElementsAre(5));
}

TEST(SampleLosses, LuckWithTimesIsNoDifference) {
  Made made;
  made.train(20, alike);
  std::erase_if(made.visits, [](const Visit& visit) { return visit.row == 8 && visit.time > 0.3; });  // its losses are all large
  EXPECT_THAT(made.standing_out(1, &SampleLosses::distance), IsEmpty());
}

TEST(SampleLosses, FewVisitsSayLittle) {
  Made made;
  made.train(20, alike);
  made.visits.push_back({801, 99, 0.5, 1.5});
  const auto losses = compare_samples(made.visits);
  EXPECT_EQ(losses.back().row, 99);
  EXPECT_GT(losses.back().difference, 0.7);
  EXPECT_LT(losses.back().distance, kStandsOut);
  EXPECT_THAT(compare_samples({}), IsEmpty());
  EXPECT_THAT(compare_samples({{1, 0, 0.5, 1}}), IsEmpty()) << "nothing to compare it with";
}

TEST(VisitLog, HoldsSamplesAndGoesOnWhereARunDoes) {
  test::Scratch run;
  const std::vector<VisitedSample> samples{{0, "a.png", "a cat"}, {2, "b.png", ""}};
  {
    VisitLog log(run.path(), -1, samples);
    for (int64_t step = 1; step <= 3; ++step) log.write(step, {{step, 0, 0.123456, 0.00123456}, {step, 2, 1, 12345.678}});
  }
  VisitLog(run.path(), 2, samples).write(3, {{3, 2, 0.5, 7}});
  const auto visits = read_visits(run.path());
  ASSERT_EQ(visits.samples.size(), 2);
  EXPECT_EQ(visits.samples[1].file, "b.png");
  ASSERT_EQ(visits.all.size(), 5);
  EXPECT_EQ(visits.all[0].time, 0.1235);
  EXPECT_EQ(visits.all[0].loss, 0.0012346);
  EXPECT_EQ(visits.all[1].loss, 12346);
  EXPECT_EQ(visits.all[4].loss, 7);
  io::write_text_atomic(visits_path(run.path()), io::read_text(visits_path(run.path())) + "{\"step\": 4, \"visits\": [[0]]}\nno json\n");
  EXPECT_EQ(read_visits(run.path()).all.size(), 5) << "what is no record is passed over";
  EXPECT_THAT(test::error_of([&] { read_visits(run / "none"); }), HasSubstr("none has no visits.jsonl"));
}
