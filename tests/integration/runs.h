#pragma once
#include "tests/integration/program.h"

// Runs that succeed, and what two of them have in common.
namespace burnish::test {

/// What `burnish` prints with these arguments, with which it succeeds; `before` as for run_burnish.
inline std::string run_ok(const std::string& arguments, const std::string& before = "") {
  auto outcome = run_burnish(arguments, before);
  EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  return outcome.output;
}

/// Each step's loss is that of the other run but for `bound` of it, where sums have another order: a batch, and its samples one by one.
inline void expect_same_losses(const fs::path& run, const fs::path& other, double bound = 1e-5) {
  auto of_run = losses(run), of_other = losses(other);
  ASSERT_EQ(of_run.size(), of_other.size());
  for (size_t i = 0; i < of_run.size(); ++i)
    EXPECT_NEAR(of_run[i], of_other[i], tolerance(bound) * of_other[i]) << run << ", step " << i + 1;
}

}  // namespace burnish::test
