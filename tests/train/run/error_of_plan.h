#pragma once
#include "tests/allocations.h"
#include "tests/scratch.h"
#include "tests/train/options/small_options.h"
#include "train/run/run.h"

namespace burnish::test {

/// What the step of a run is planned to take over what it takes by a counting allocator, less 1. The run keeps its cache in `scratch`. With
/// `--plan off` it makes values again that it keeps where its plan finds room for them.
inline double error_of_plan(train::TrainOptions options, const Scratch& scratch) {
  options.cache.path = (scratch / "cache").string();
  auto run = [&](const std::string& name) {
    auto own = options;
    own.output_path = (scratch / name).string();
    train::train(own);
  };
  run("first");  // after which the cache is there
  auto plan = train::plan_memory(options);
  Allocations allocations;
  run("second");
  return static_cast<double>(plan.num_bytes(plan.step())) / static_cast<double>(allocations.peak()) - 1;
}

}  // namespace burnish::test
