// Whether threads that wait for each other really sleep, by the processor time that waiting takes.
#include "base/short_waits.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

using namespace burnish;

namespace {

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The processor time that a thread takes which waits fifty times for another that does nothing for two milliseconds.
double spent_waiting() {
  auto before = processor_seconds();
  for (int i = 0; i < 50; ++i)
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return processor_seconds() - before;
}

/// The status of this test in a process whose environment leaves open how threads wait; nothing where this one is such a process.
std::optional<int> in_a_process_of_its_own(const std::string& test) {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr && std::getenv("GOMP_SPINCOUNT") == nullptr) return std::nullopt;
  auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  return std::system(("env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT '" + program + "' --gtest_filter=" + test + " >&2").c_str());
}

}  // namespace

TEST(ShortWaits, TakeLessProcessorTimeWhileTheyLast) {
  if (omp_get_num_procs() < 2) GTEST_SKIP() << "on one core libgomp waits briefly by itself";
  if (auto status = in_a_process_of_its_own("ShortWaits.TakeLessProcessorTimeWhileTheyLast")) {
    EXPECT_EQ(*status, 0);
    return;
  }
  auto before = spent_waiting();
  double during = 0;
  {
    ShortWaits short_waits;
    EXPECT_TRUE(short_waits.has_effect());
    during = spent_waiting();
  }
  auto after = spent_waiting();
  EXPECT_LT(during, before / 2);
  EXPECT_LT(during, after / 2) << "waiting is as it was";
}

TEST(ShortWaits, LeaveTheNumberOfThreadsAsItIs) {
  auto num_threads = [] {
    int num = 0;
#pragma omp parallel
#pragma omp single
    num = omp_get_num_threads();
    return num;
  };
  auto before = num_threads();
  ShortWaits short_waits;
  EXPECT_EQ(num_threads(), before);
}
