// The plan of one of several processes beside what it takes. The other one is forked off.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dist/store.h"
#include "tests/train/small_run.h"
#include "train/memory_plan.h"

using namespace burnish;
using namespace burnish::train;

namespace {

/// What a process of two takes at the peak of a run, by a counting allocator.
int64_t peak_of(int64_t rank, const TrainOptions& options) {
  auto store = dist::serve_store("127.0.0.1", 0);
  auto place_of = [&](int64_t one) {
    dist::Place place{.rank = one, .size = 2, .local_rank = one, .local_size = 2, .launcher = "a test", .host = "127.0.0.1"};
    place.port = store->port();
    place.launcher_serves = true;
    return place;
  };
  auto run = [&](int64_t one) {
    dist::World world(place_of(one), 60);
    train::train(options, world);
    world.leave();
  };
  auto other = fork();
  if (other == 0) {
    int code = 0;
    try {
      run(1 - rank);
    } catch (const std::exception&) {
      code = 1;
    }
    _exit(code);
  }
  test::Allocations allocations;
  run(rank);
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  return allocations.peak();
}

class StagesPlan : public testing::TestWithParam<std::string> {};

}  // namespace

TEST_P(StagesPlan, IsWhatEachProcessTakes) {
  test::Scratch scratch;
  auto options = test::options_of(test::small_run("flux", "--dtype bf16 --height 128 --width 192 --batch_size 4 " + GetParam()));
  options.cache_path = (scratch / "cache").string();
  for (int64_t rank : {0, 1}) {
    auto own = options;
    own.output_path = (scratch / ("first-" + std::to_string(rank))).string();
    if (rank == 0) peak_of(rank, own);  // after which the cache is there
    auto plan = plan_memory(own, {.num_processes = 2, .process_index = rank});
    own.output_path = (scratch / ("second-" + std::to_string(rank))).string();
    auto peak = peak_of(rank, own);
    EXPECT_NEAR(static_cast<double>(plan.num_bytes(plan.step())) / static_cast<double>(peak), 1, 0.03) << "process " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, StagesPlan,
                         testing::Values("--trainable_models dit", "--trainable_models dit --zero_stage 1",
                                         "--trainable_models dit --zero_stage 2 --ema_decay 0.9",
                                         "--trainable_models dit --zero_stage 2 --reduction ordered --trained_weights remainder"));

TEST(StagesPlanOfFour, DividesWhatTheStageSays) {
  auto options = [](const std::string& stage) {
    return test::options_of(test::small_run("flux", "--dtype bf16 --optimizer adamw --trainable_models dit --zero_stage " + stage));
  };
  auto of = [&](const std::string& stage, int64_t processes) {
    return plan_memory(options(stage), {.num_processes = processes}).step().profile.peak;
  };
  auto whole = of("0", 4), states = of("1", 4), gradients = of("2", 4);
  auto most = [](memory::Kind kind, const auto& peak) { return static_cast<double>(peak[kind]); };
  EXPECT_NEAR(most(memory::Kind::optimizer, states) / most(memory::Kind::optimizer, whole), 0.25, 0.05);
  EXPECT_NEAR(most(memory::Kind::optimizer, gradients) / most(memory::Kind::optimizer, whole), 0.25, 0.05);
  EXPECT_LT(gradients.total(), states.total());
}
