// When hooks hear of steps whose numbers come late, and that no step of a run reads a scalar.
#include "train/run/telling.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/input_error.h"
#include "tests/scalar_reads.h"
#include "tests/scratch.h"
#include "tests/train/options/small_options.h"
#include "train/run/run.h"

using namespace burnish;
using namespace burnish::train;
using testing::ElementsAre;

namespace {

/// Of numbers that come when the test, or whoever waits, says.
class Late final : public memory::Numbers::Arrival {
 public:
  bool is_there() const override { return there; }
  void wait() const override { there = true; }
  mutable bool there = false;
};

class Listener final : public Hook {
 public:
  bool looks_at(const StepReport& r) override { return r.step == looked_at; }
  void stepped(StepReport& r) override { heard.push_back(r.step * 100 + static_cast<int64_t>(r.loss)); }
  int64_t looked_at = -1;
  std::vector<int64_t> heard;
};

class TellingTest : public testing::Test {
 protected:
  TellingTest() {
    hooks_.push_back(std::make_unique<Listener>());
    listener = static_cast<Listener*>(hooks_.back().get());
  }

  /// A step whose loss is its number.
  std::shared_ptr<Late> add(int64_t step) {
    auto late = std::make_shared<Late>();
    auto number = at::full({1}, static_cast<double>(step), at::kDouble);
    Taken taken{};
    taken.report.step = step;
    taken.start = std::chrono::steady_clock::now();
    taken.last = memory::Numbers({number}, late);
    taken.read = [numbers = taken.last, this](StepReport& report) {
      report.loss = numbers.read().front();
      if (report.step == bad_step) data_error("train", "step {} is not finite", report.step);
    };
    telling.add(std::move(taken));
    return late;
  }

  std::vector<std::unique_ptr<Hook>> hooks_;
  Listener* listener;
  Telling telling{hooks_};
  int64_t bad_step = -1;
};

}  // namespace

TEST_F(TellingTest, HooksHearOfAStepWhenTheNextWasTaken) {
  auto first = add(1);
  EXPECT_FALSE(first->there) << "nobody waits";
  EXPECT_TRUE(listener->heard.empty());
  auto second = add(2);
  EXPECT_TRUE(first->there);
  EXPECT_FALSE(second->there);
  EXPECT_THAT(listener->heard, ElementsAre(101));
  telling.finish();
  EXPECT_THAT(listener->heard, ElementsAre(101, 202));
}

TEST_F(TellingTest, AHookThatLooksAtWeightsHearsOfTheirStepAtOnce) {
  listener->looked_at = 2;
  add(1);
  add(2);
  EXPECT_THAT(listener->heard, ElementsAre(101, 202));
}

TEST_F(TellingTest, OfAStepThatIsNotFiniteNoHookHears) {
  bad_step = 1;
  listener->looked_at = 2;
  add(1);
  EXPECT_THROW(add(2), Error);
  EXPECT_TRUE(listener->heard.empty());
}

namespace {

/// What the host reads in a run of so many steps.
int64_t reads_of(const std::string& flags, int num_steps, const test::Scratch& scratch) {
  auto options = test::options_of(test::small_run("flux", flags + " --plan off"));
  options.course.max_steps = num_steps;
  options.cache.path = (scratch / "cache").string();
  options.output_path = (scratch / std::to_string(num_steps)).string();
  const test::ScalarReads reads;
  train::train(options);
  return reads.count();
}

}  // namespace

class RunsWithoutReads : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Of, RunsWithoutReads,
                         testing::Values("--dtype fp32 --lora_rank 4 --max_grad_norm 0.1 --ema_decay 0.9",
                                         "--dtype bf16 --trainable_models dit --trained_weights fp8 --fused_backward_pass",
                                         "--dtype bf16 --trainable_models dit --trained_weights remainder --gradient_accumulation_steps 2 "
                                         "--optimizer prodigy --learning_rate 1 --use_gradient_checkpointing"),
                         [](const auto& info) { return std::to_string(info.index); });

TEST_P(RunsWithoutReads, ReadAsMuchOfManyStepsAsOfFew) {
  test::Scratch scratch;
  reads_of(GetParam(), 1, scratch);  // makes the cache
  EXPECT_EQ(reads_of(GetParam(), 6, scratch), reads_of(GetParam(), 2, scratch));
}
