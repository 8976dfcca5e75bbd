// The loop over steps: what its hooks are told, what a report has, and how a run ends that cannot go on.
#include "train/run/loop.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <csignal>
#include <new>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"
#include "train/run/hooks/hooks.h"

using namespace burnish;
using namespace burnish::train;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Hooks = std::vector<std::unique_ptr<Hook>>;

namespace {

/// Notes what it is told, and does something after a step.
class Notes final : public Hook {
 public:
  using After = std::function<void(StepReport&)>;
  Notes(std::vector<std::string>& told, std::string name, After after = {})
      : told_(told), name_(std::move(name)), after_(std::move(after)) {}
  void before() override { told_.push_back(name_ + " before"); }
  void stepped(StepReport& r) override {
    told_.push_back(name_ + " " + std::to_string(r.step));
    if (after_) after_(r);
  }
  void interrupted() override { told_.push_back(name_ + " interrupted"); }
  void ended() override { told_.push_back(name_ + " ended"); }

 private:
  std::vector<std::string>& told_;
  std::string name_;
  After after_;
};

/// An objective that looks at the losses of each part of a batch, or makes something else of them. Only `reduce` and `counted` are asked.
class Reduced final : public Objective {
 public:
  using Reduce = std::function<at::Tensor(const at::Tensor& loss)>;
  Reduced(const Objective& of, Reduce reduce) : of_(of), reduce_(std::move(reduce)) {}
  pipeline::Units units() const override { return of_.units(); }
  pipeline::Values draws(const DrawRequest& request) const override { return of_.draws(request); }
  pipeline::Values held_out_draws(const DrawRequest& request, int64_t number) const override { return of_.held_out_draws(request, number); }
  std::vector<Counted> counted(const pipeline::Values& draws) const override { return of_.counted(draws); }
  at::Tensor reduce(const pipeline::Values& written, const pipeline::Values& draws) const override {
    return reduce_(of_.reduce(written, draws));
  }

 private:
  const Objective& of_;
  Reduce reduce_;
};

class LoopTest : public testing::Test {
 protected:
  Hooks noted(Notes::After after = {}) {
    Hooks hooks;
    hooks.push_back(std::make_unique<Notes>(told, "hook", std::move(after)));
    return hooks;
  }
  /// The loop with other losses.
  static std::optional<NoMemory> loop_over(test::SkeletonRun& run, Reduced::Reduce reduce, const Hooks& hooks) {
    Reduced objective(*run.objective, std::move(reduce));
    Training training{run.settings, run.subject, objective,   run.schedule,       run.course,         run.batches,
                      nullptr,      nullptr,     run.trainee, run.training.world, run.training.status};
    return loop(training, hooks);
  }
  /// A loss that cannot be had from a step on.
  static Reduced::Reduce missing_from(int64_t step, int64_t& num_asked) {
    return [step, &num_asked](const at::Tensor& loss) {
      if (++num_asked >= step) throw std::bad_alloc();
      return loss;
    };
  }

  test::Scratch scratch;
  Settings settings = test::SkeletonRun::settings_in(scratch.path());
  std::vector<std::string> told;
};

}  // namespace

TEST_F(LoopTest, TellsItsHooksInTheirOrder) {
  settings.course.max_steps = 2;
  test::SkeletonRun run(settings);
  Hooks hooks;
  hooks.push_back(std::make_unique<Notes>(told, "first", [](StepReport& r) { r.validation_loss = 0.5; }));
  hooks.push_back(std::make_unique<Notes>(told, "second", [](StepReport& r) { EXPECT_EQ(r.validation_loss, 0.5); }));
  EXPECT_FALSE(run.loop(hooks));
  EXPECT_THAT(told,
              ElementsAre("first before", "second before", "first 1", "second 1", "first 2", "second 2", "first ended", "second ended"));
}

TEST_F(LoopTest, ReportsWhatAStepCameTo) {
  settings.course.batch_size = 2;
  settings.course.batches_per_step = 2;
  settings.step.schedule.warmup_steps = 4;
  std::vector<StepReport> reports;
  test::SkeletonRun run(settings), other(settings);
  run.loop(noted([&](StepReport& r) { reports.push_back(r); }));
  ASSERT_EQ(reports.size(), 4u);
  auto first = compute_gradients(other.trainee, *other.objective, 2,
                                 [&, i = int64_t{0}]() mutable { return other.training.batch({.number = i++}); });
  EXPECT_EQ(reports[0].loss, first.loss.item<double>());
  EXPECT_EQ(reports[0].grad_norm, first.norm.item<double>());
  for (int64_t i = 0; i < 4; ++i) {
    const auto& r = reports[static_cast<size_t>(i)];
    EXPECT_EQ(r.step, i + 1);
    EXPECT_EQ(r.num_samples, 4);
    EXPECT_EQ(r.learning_rate, 0.01 * optim::lr_factor(settings.step.schedule, i)) << "the rate that step was taken with";
    EXPECT_GT(r.data_seconds, 0);
    EXPECT_GT(r.seconds, r.data_seconds);
    int64_t count = 0;
    double weighted = 0;
    for (const auto& bin : r.by_time) {
      count += bin.count;
      weighted += bin.weighted;
    }
    EXPECT_EQ(r.by_time.size(), 10u);
    EXPECT_EQ(count, 4);
    EXPECT_NEAR(weighted / 4, r.loss, 1e-5 * r.loss);
  }
  EXPECT_LT(reports[0].learning_rate, reports[3].learning_rate);
  EXPECT_EQ(run.trainee.progress.batch, 8);
}

TEST_F(LoopTest, GoesOnAsIfItHadNotStopped) {
  settings.course.batch_size = 3;
  settings.step.ema_decay = 0.9;
  settings.trained.adapter.dropout = 0.2;
  auto run_to = [&](const std::string& folder, int64_t step, bool resume) {
    settings.output.folder = scratch / folder;
    settings.output.resume = resume;
    settings.course.max_steps = step;
    test::SkeletonRun run(settings);
    Hooks hooks = noted();
    hooks.push_back(make_save(run.training));
    run.loop(hooks);
  };
  run_to("at once", 5, false);
  run_to("in two", 2, false);
  told.clear();
  run_to("in two", 5, true);
  EXPECT_THAT(told, ElementsAre("hook before", "hook 3", "hook 4", "hook 5", "hook ended"));
  for (const char* file : {"step-5.safetensors", "state/state.safetensors"})
    EXPECT_EQ(test::content(scratch / "in two" / file), test::content(scratch / "at once" / file)) << file;
}

TEST_F(LoopTest, RefusesAStepThatIsNotFinite) {
  test::SkeletonRun run(settings);
  auto before = run.values();
  auto too_much = [](const at::Tensor& loss) { return loss * std::numeric_limits<double>::infinity(); };
  EXPECT_THAT(test::error_of([&] { loop_over(run, too_much, noted()); }),
              AllOf(HasSubstr("step 1: loss inf"), HasSubstr("try a lower learning_rate"), HasSubstr("nothing was saved yet")));
  EXPECT_THAT(told, ElementsAre("hook before")) << "so that nothing is saved of it";
  EXPECT_TRUE(test::all_equal(run.values(), before));
  EXPECT_EQ(run.trainee.progress.step, 0);

  run.trainee.saved_step = 1;
  run.subject.model->components().module("dit").visit_parameters([](const std::string& path, at::Tensor& p) {
    if (path == "blocks.1.to_out.weight") p.view(-1)[3] = std::nan("");
  });
  EXPECT_THAT(test::error_of([&] { run.loop({}); }),
              AllOf(HasSubstr("'blocks.1.to_out.weight' (dit) is not finite"), HasSubstr("the last saved state is intact")));
}

TEST_F(LoopTest, TriesAStepThatOverflowedAgainAtASmallerScale) {
  settings.step.scales_loss = true;
  settings.course.max_steps = 1;
  test::SkeletonRun run(settings), other(settings);
  std::vector<double> losses;
  std::vector<StepReport> reports;
  auto overflow_above = [&](double most) {
    return [&losses, most](const at::Tensor& loss) {
      losses.push_back(loss.item<double>());
      loss.register_hook([most](const at::Tensor& gradient) {
        return gradient.item<double>() > most ? gradient * std::numeric_limits<double>::infinity() : gradient;
      });
      return loss;
    };
  };
  loop_over(run, overflow_above(5000), noted([&](StepReport& r) { reports.push_back(r); }));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(std::isfinite(reports[0].grad_norm));
  EXPECT_EQ(run.trainee.progress.loss_scale.factor, 4096);
  ASSERT_EQ(losses.size(), 5u);
  EXPECT_THAT(losses, testing::Each(losses[0])) << "the same batch each time";
  EXPECT_EQ(run.trainee.progress.batch, 1);
  EXPECT_EQ(reports[0].num_samples, 1);

  EXPECT_THAT(test::error_of([&] { loop_over(other, overflow_above(1), {}); }), HasSubstr("are not finite")) << "whatever the scale";
}

TEST_F(LoopTest, SavesWhatItHasWhereMemoryIsMissing) {
  test::SkeletonRun run(settings);
  Hooks hooks = noted();
  hooks.push_back(make_save(run.training));
  int64_t asked = 0;
  auto missing = loop_over(run, missing_from(3, asked), hooks);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->step, 3);
  EXPECT_EQ(missing->place, "forward");
  EXPECT_EQ(missing->saved_step, 2);
  EXPECT_GT(missing->host_bytes, 1 << 20);
  EXPECT_THAT(told, ElementsAre("hook before", "hook 1", "hook 2", "hook interrupted"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "run/step-2.safetensors"));

  told.clear();
  test::SkeletonRun at_once(settings);
  asked = 0;
  EXPECT_EQ(loop_over(at_once, missing_from(1, asked), noted())->saved_step, -1);
  EXPECT_THAT(told, ElementsAre("hook before")) << "nothing was made yet";

  told.clear();
  test::SkeletonRun after_step(settings);
  missing = after_step.loop(noted([](StepReport&) { throw std::bad_alloc(); }));
  EXPECT_EQ(missing->step, 1);
  EXPECT_EQ(missing->place, "after the step");
  EXPECT_THAT(told, ElementsAre("hook before", "hook 1", "hook interrupted"));
}

TEST_F(LoopTest, SavesNothingOfHalfAStep) {
  settings.step.memory.updates_in_backward = true;
  test::SkeletonRun run(settings);
  int64_t asked = 0;
  auto in_backward = [&](const at::Tensor& loss) {
    if (++asked == 2) loss.register_hook([](const at::Tensor&) { throw std::bad_alloc(); });
    return loss;
  };
  auto missing = loop_over(run, in_backward, noted());
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->step, 2);
  EXPECT_EQ(missing->place, "backward");
  EXPECT_THAT(told, ElementsAre("hook before", "hook 1"));
}

TEST_F(LoopTest, LetsOtherErrorsThrough) {
  test::SkeletonRun run(settings);
  Hooks hooks = noted([](StepReport&) { data_error("test", "the disk is full"); });
  hooks.push_back(std::make_unique<Notes>(told, "later"));
  EXPECT_THAT(test::error_of([&] { run.loop(hooks); }), HasSubstr("the disk is full"));
  EXPECT_THAT(told, ElementsAre("hook before", "later before", "hook 1"));
}

/// In a process of its own, which stays interrupted.
TEST_F(LoopTest, EndsAfterTheStepInWhichItIsInterrupted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto interrupted_run = [&] {
    watch_for_interrupt("");
    test::SkeletonRun run(settings);
    auto hooks = noted([](StepReport& r) {
      if (r.step == 1) std::raise(SIGINT);
    });
    std::cerr << test::error_of([&] { run.loop(hooks); }, Exit::interrupted) << "\n";
    for (const auto& what : told) std::cerr << what << "; ";
    std::filesystem::remove_all(scratch.path());
    std::exit(0);
  };
  EXPECT_EXIT(interrupted_run(), testing::ExitedWithCode(0),
              "interrupted at step 2; everything is saved.*\nhook before; hook 1; hook 2; hook interrupted; ");
}

TEST_F(LoopTest, DoesWhatIsAskedOfIt) {
  settings.course.max_steps = 6;
  test::SkeletonRun run(settings);
  std::vector<std::string> asked_at;
  auto ask_first = [&](StepReport& r) {
    if (r.asked.save) asked_at.push_back("save " + std::to_string(r.step));
    if (r.asked.preview) asked_at.push_back("preview " + std::to_string(r.step));
    if (r.step == 2) records::ask(settings.output.folder, "save");
    if (r.step == 4) records::ask(settings.output.folder, "preview");
  };
  auto hooks = noted(ask_first);
  hooks.push_back(make_save(run.training));
  EXPECT_FALSE(run.loop(hooks));
  EXPECT_THAT(asked_at, ElementsAre("save 3", "preview 5")) << "once each";
  EXPECT_TRUE(std::filesystem::exists(settings.output.folder / "step-3.safetensors"));
  EXPECT_FALSE(records::read_asked(settings.output.folder).any());
}

TEST_F(LoopTest, EndsWithTheEpochWhenAsked) {
  settings.course.max_steps = 100;
  test::SkeletonRun run(settings);
  const auto steps_an_epoch = run.course.batches_per_epoch();
  ASSERT_GT(steps_an_epoch, 2);
  Hooks hooks = noted([&](StepReport& r) {
    if (r.step == steps_an_epoch + 1) records::ask(settings.output.folder, "stop_after_epoch");
  });
  hooks.push_back(make_save(run.training));
  try {
    run.loop(hooks);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::interrupted);
    EXPECT_THAT(error.what(), HasSubstr("ended with its epoch at step " + std::to_string(2 * steps_an_epoch)));
  }
  EXPECT_TRUE(std::filesystem::exists(settings.output.folder / ("step-" + std::to_string(2 * steps_an_epoch) + ".safetensors")));
  EXPECT_FALSE(records::read_asked(settings.output.folder).any()) << "a run that goes on is not stopped by it";
}
