// Saves: when, what stays, and that they are written whole, beside the steps that go on.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "checkpoint/state.h"
#include "records/json_log.h"
#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"
#include "tests/train/run/stoppable_disk.h"
#include "train/run/hooks/hooks.h"
#include "train/step/snapshot.h"

using namespace burnish;
using namespace burnish::train;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

namespace fs = std::filesystem;

/// Does something after a step.
class After final : public Hook {
 public:
  explicit After(std::function<void(int64_t step)> act) : act_(std::move(act)) {}
  void stepped(StepReport& r) override { act_(r.step); }

 private:
  std::function<void(int64_t step)> act_;
};

class SaveHook : public testing::Test {
 protected:
  fs::path folder() const { return settings.output.folder; }
  bool is_there(const std::string& name) const { return fs::exists(folder() / name); }
  /// Names of the weights that are there.
  std::vector<std::string> weights() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder())) {
      if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  bool has_partial() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder())) {
      if (entry.path().string().find(".partial") != std::string::npos) return true;
    }
    return false;
  }
  /// A run whose steps are told to its save hook alone, with `validation` as their loss of held-out samples, NaN for none.
  void tell(test::SkeletonRun& run, const std::vector<double>& validation, bool ends = true) {
    auto save = make_save(run.training);
    save->before();
    for (auto loss : validation) {
      auto report = test::report_of(++run.trainee.progress.step);
      if (!std::isnan(loss)) report.validation_loss = loss;
      save->looks_at(report);
      save->stepped(report);
    }
    if (ends) save->ended();
  }
  void tell_steps(int64_t count) {
    test::SkeletonRun run(settings);
    tell(run, std::vector<double>(static_cast<size_t>(count), std::nan("")));
  }
  std::vector<std::unique_ptr<Hook>> saving_and(const test::SkeletonRun& run, std::function<void(int64_t)> act) {
    std::vector<std::unique_ptr<Hook>> hooks;
    hooks.push_back(make_save(run.training));
    hooks.push_back(std::make_unique<After>(std::move(act)));
    return hooks;
  }
  /// What a run of so many steps leaves at its end.
  std::map<std::string, std::string> left_after(int64_t num_steps) {
    auto own = settings;
    own.output.folder = scratch / "other";
    own.course.max_steps = num_steps;
    test::SkeletonRun run(own);
    run.loop(saving_and(run, [](int64_t) {}));
    return {{"weights", test::content(own.output.folder / ("step-" + std::to_string(num_steps) + ".safetensors"))},
            {"state", test::content(own.output.state() / "state.safetensors")}};
  }
  std::string step_in(const std::string& file) const { return io::SafetensorsFile::open(folder() / file)->metadata().at("step"); }

  test::Scratch scratch;
  Settings settings = test::SkeletonRun::settings_in(scratch.path());
};

}  // namespace

TEST_F(SaveHook, SavesWhenItIsTime) {
  struct {
    SaveSettings save;
    std::vector<std::string> expected;
  } const rows[]{{{}, {"step-10"}},
                 {{.steps = 4}, {"step-10", "step-4", "step-8"}},
                 {{.epochs = 1}, {"step-10", "step-2", "step-4", "step-6", "step-8"}},
                 {{.epochs = 2}, {"step-10", "step-4", "step-8"}},
                 {{.steps = 3, .epochs = 2}, {"step-10", "step-3", "step-4", "step-6", "step-8", "step-9"}},
                 {{.minutes = 60}, {"step-10"}},
                 {{.steps = 3, .keep_last = 2}, {"step-10", "step-9"}}};
  settings.course.batches_per_step = 2;  // of four samples, so that an epoch has two steps
  for (const auto& row : rows) {
    fs::remove_all(folder());
    fs::create_directories(folder());
    settings.output.save = row.save;
    tell_steps(10);
    EXPECT_EQ(weights(), row.expected) << "steps " << row.save.steps << ", epochs " << row.save.epochs;
    EXPECT_EQ(checkpoint::read_progress(settings.output.state(), "test").step, 10);
  }
  settings.output.save = {.minutes = 1e-9};
  tell_steps(2);
  EXPECT_TRUE(is_there("step-1.safetensors"));
}

TEST_F(SaveHook, LongRunsSaveUnasked) {
  auto unasked = [](SaveSettings save, int64_t num_steps, bool whole = false) {
    save.steps = -1;
    auto s = settled(save, num_steps, whole);
    return std::pair(s.steps, s.keep_last);
  };
  EXPECT_EQ(unasked({}, 251), std::pair(int64_t{250}, int64_t{0}));
  EXPECT_EQ(unasked({}, 10000), std::pair(int64_t{1000}, int64_t{0}));
  EXPECT_EQ(unasked({}, 10000, true), std::pair(int64_t{1000}, int64_t{1})) << "of whole models one stays";
  EXPECT_EQ(unasked({.keep_last = 3}, 10000, true), std::pair(int64_t{1000}, int64_t{3}));
  EXPECT_EQ(unasked({.epochs = 1}, 10000, true), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(unasked({.minutes = 5}, 10000), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(settled({.steps = 0}, 10000, true).steps, 0);

  settings.output.save.steps = -1;
  settings.course.max_steps = 501;
  tell_steps(501);
  EXPECT_THAT(weights(), ElementsAre("step-250", "step-500", "step-501"));
  fs::remove_all(folder());
  settings.trained.adapted.clear();
  settings.trained.whole = {"dit.patch_out"};
  tell_steps(501);
  EXPECT_THAT(weights(), ElementsAre("step-501"));
}

TEST_F(SaveHook, KeepsTheLastAndLeavesOtherFilesAlone) {
  settings.output.save = {.steps = 2, .keep_last = 2};
  for (const char* other : {"step-final.safetensors", "step-2.txt", "mine.safetensors", "step-99.safetensors", "step-1.vae.safetensors"})
    std::ofstream(folder() / other) << "other";
  tell_steps(7);
  EXPECT_THAT(weights(), ElementsAre("mine", "step-6", "step-7", "step-99", "step-final"));
  EXPECT_TRUE(is_there("step-2.txt"));
}

TEST_F(SaveHook, FilesBeginWithTheNameOfTheRun) {
  auto none = std::nan("");
  settings.output.name = "my.cat";
  settings.output.save = {.steps = 2, .keep_last = 1, .keep_best = true};
  for (const char* other : {"step-1.safetensors", "my.dog-step-1.safetensors"}) std::ofstream(folder() / other) << "other";
  test::SkeletonRun run(settings);
  auto said = [&] {
    testing::internal::CaptureStdout();
    tell(run, {0.5, none, 0.3, none, none});
    return testing::internal::GetCapturedStdout();
  }();
  EXPECT_THAT(weights(), ElementsAre("my.cat-best", "my.cat-step-5", "my.dog-step-1", "step-1")) << "other runs' files stay";
  EXPECT_EQ(step_in("my.cat-best.safetensors"), "3");
  EXPECT_THAT(said, HasSubstr("saved " + (folder() / "my.cat-step-5.safetensors").string()));
  EXPECT_THAT(said, HasSubstr("burnish sample --run '" + folder().string() + "'"));
}

TEST_F(SaveHook, TheSizeOfTheRunsPicturesIsInTheFile) {
  test::SkeletonRun run(settings);
  for (size_t i : {0, 1, 2}) run.samples.listed.samples.list[i].extent = {1, 48, 64};  // of four
  tell(run, {std::nan("")});
  EXPECT_EQ(io::SafetensorsFile::open(folder() / "step-1.safetensors")->metadata().at("resolution"), "64x48");
}

TEST_F(SaveHook, TheLossBeforeTrainingIsNotTheBest) {
  settings.output.save = {.keep_best = true};
  records::JsonLog log(folder() / "log.jsonl", -1);
  log.write({{"step", 0}, {"validation_loss", 0.1}});
  log.write({{"step", 1}, {"validation_loss", 0.5}});
  test::SkeletonRun run(settings);
  run.settings.output.resume = true;  // of a state that is not there
  tell(run, {0.4}, /*ends=*/false);
  EXPECT_TRUE(is_there("best.safetensors"));
}

TEST_F(SaveHook, KeepsTheBestBesideThem) {
  auto none = std::nan("");
  settings.output.save = {.steps = 3, .keep_last = 1, .keep_best = true};
  {
    test::SkeletonRun run(settings);
    tell(run, {0.5, none, 0.3, 0.4, none, 0.3}, /*ends=*/false);
  }
  EXPECT_THAT(weights(), ElementsAre("best", "step-6"));
  EXPECT_EQ(step_in("best.safetensors"), "3") << "an equal loss is no better one";
  records::JsonLog log(folder() / "log.jsonl", 0);
  for (const auto& [step, loss] : {std::pair(1, nlohmann::json(0.5)), {2, {}}, {3, 0.3}, {4, 0.4}})
    log.write({{"step", step}, {"validation_loss", loss}});
  settings.output.resume = true;
  {
    test::SkeletonRun run(settings);
    tell(run, {0.35}, /*ends=*/false);
  }
  EXPECT_EQ(step_in("best.safetensors"), "3") << "by the log of what went before";
  test::SkeletonRun run(settings);
  tell(run, {0.2}, /*ends=*/false);
  EXPECT_EQ(step_in("best.safetensors"), "7");
  EXPECT_FALSE(is_there("step-7.safetensors")) << "it was no time for one";
  EXPECT_EQ(checkpoint::read_progress(settings.output.state(), "test").step, 6);
}

TEST_F(SaveHook, WritesAStepOnce) {
  settings.output.save = {.steps = 2};
  test::SkeletonRun run(settings);
  auto save = make_save(run.training);
  auto at_step = [&](int64_t step) {
    run.trainee.progress.step = step;
    auto report = test::report_of(step);
    save->stepped(report);
  };
  at_step(2);
  save->interrupted();
  EXPECT_EQ(run.trainee.saved_step, 2);
  auto written = fs::last_write_time(folder() / "step-2.safetensors");
  save->ended();
  EXPECT_EQ(fs::last_write_time(folder() / "step-2.safetensors"), written);
  fs::remove(folder() / "step-2.safetensors");
  save->ended();
  EXPECT_TRUE(is_there("step-2.safetensors")) << "unless it is gone";
}

TEST_F(SaveHook, SavesAveragesWhereThereAreAnyAndLeavesTheTraineeAlone) {
  settings.step.ema_decay = 0.9;
  settings.course.max_steps = 3;
  test::SkeletonRun run(settings);
  run.loop({});
  auto trained = run.values();
  make_save(run.training)->ended();
  EXPECT_TRUE(test::all_equal(run.values(), trained));
  auto file = io::SafetensorsFile::open(folder() / "step-3.safetensors");
  auto is_in_file = [&](const at::Tensor& value) {
    return std::ranges::any_of(file->tensors(), [&](const auto& item) {
      auto saved = file->tensor(item.first);
      return saved.sizes() == value.sizes() && at::equal(saved, value);
    });
  };
  for (size_t i = 0; i < trained.size(); ++i) {
    EXPECT_TRUE(is_in_file(run.trainee.ema->average(i)));
    EXPECT_FALSE(is_in_file(trained[i]));
  }
  settings.output.resume = true;
  test::SkeletonRun resumed(settings);
  EXPECT_TRUE(test::all_equal(resumed.values(), trained)) << "the state has both";
}

TEST_F(SaveHook, IsWrittenBesideTheStepsThatGoOn) {
  settings.output.save.steps = 2;
  auto expected = left_after(2);
  test::SkeletonRun run(settings);
  std::map<std::string, std::string> found;
  test::disk.stop("step-2.safetensors");
  run.loop(saving_and(run, [&](int64_t step) {
    if (step != 3) return;
    EXPECT_TRUE(test::disk.wait_for(1));
    EXPECT_TRUE(has_partial()) << "it is under way";
    EXPECT_FALSE(is_there("step-2.safetensors") || is_there("state/state.safetensors")) << "and not there before it is whole";
    EXPECT_EQ(run.trainee.saved_step, -1);
    EXPECT_FALSE(test::disk.go_on()) << "the step waited for the disk";
    for (int i = 0; i < 20000 && !is_there("state/state.safetensors"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    found = {{"weights", test::content(folder() / "step-2.safetensors")},
             {"state", test::content(settings.output.state() / "state.safetensors")}};
  }));
  EXPECT_EQ(found, expected) << "what step 3 changed is not in it";
  EXPECT_THAT(weights(), ElementsAre("step-2", "step-4"));
  EXPECT_EQ(run.trainee.saved_step, 4);
  EXPECT_FALSE(has_partial());
}

TEST_F(SaveHook, WaitsForWhatIsBeingWrittenBeforeTheNext) {
  settings.output.save.steps = 1;
  test::SkeletonRun run(settings);
  std::atomic<int64_t> last = 0;
  test::disk.stop("step-1.safetensors");
  std::thread disk_goes_on([&] {
    EXPECT_TRUE(test::disk.wait_for(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(last, 1) << "one save is under way at a time";
    EXPECT_FALSE(test::disk.go_on());
  });
  run.loop(saving_and(run, [&](int64_t step) { last = step; }));
  disk_goes_on.join();
  EXPECT_THAT(weights(), ElementsAre("step-1", "step-2", "step-3", "step-4"));
}

TEST_F(SaveHook, AFailureEndsTheRunAtTheNextPoint) {
  settings.course.max_steps = 400;
  settings.output.save.steps = 200;
  test::SkeletonRun run(settings);
  int64_t last = 0;
  test::disk.fail("step-200.safetensors", ENOSPC);
  auto error = test::error_of([&] {
    run.loop(saving_and(run, [&](int64_t step) {
      last = step;
      if (step != 200) return;
      EXPECT_TRUE(test::disk.wait_for(1));
    }));
  });
  test::disk.go_on();
  EXPECT_THAT(error, testing::AllOf(HasSubstr("step-200.safetensors"), HasSubstr("No space left on device")));
  EXPECT_GE(last, 200);
  EXPECT_LT(last, 399) << "at a step, and not when the next save is due";
  EXPECT_EQ(run.trainee.saved_step, -1);
  EXPECT_TRUE(weights().empty());
  EXPECT_FALSE(is_there("state/state.safetensors")) << "weights first";
  EXPECT_FALSE(has_partial());
}

TEST_F(SaveHook, AFailureAtTheEndIsToldToo) {
  settings.output.save.steps = 3;
  for (const char* file : {"step-3.safetensors", "step-4.safetensors", "state.safetensors"}) {
    test::SkeletonRun run(settings);
    test::disk.fail(file, EIO);
    EXPECT_THAT(test::error_of([&] { run.loop(saving_and(run, [](int64_t) {})); }), HasSubstr(file)) << file;
    test::disk.go_on();
  }
}

TEST_F(SaveHook, AStateThatCannotBeWrittenLeavesTheOneBefore) {
  settings.output.save.steps = 2;
  test::SkeletonRun run(settings);
  auto error = test::error_of([&] {
    run.loop(saving_and(run, [&](int64_t step) {
      for (int i = 0; i < 20000 && step == 3 && !is_there("state/state.safetensors"); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (step == 3) test::disk.fail("state.safetensors", ENOSPC);
    }));
  });
  test::disk.go_on();
  EXPECT_THAT(error, HasSubstr("what stood there before is unchanged"));
  EXPECT_EQ(checkpoint::read_progress(settings.output.state(), "test").step, 2);
  EXPECT_EQ(run.trainee.saved_step, 2);
  settings.output.resume = true;
  test::SkeletonRun resumed(settings);
  EXPECT_EQ(resumed.trainee.progress.step, 2);
}

/// A state that counts never knows of steps that the log does not.
TEST_F(SaveHook, StandsBehindTheLog) {
  settings.course.max_steps = 400;
  settings.output.save.steps = 10;
  test::SkeletonRun run(settings);
  test::disk.fail("step-10.safetensors", ENOSPC);
  test::error_of([&] { run.loop(make_hooks(run.training)); });
  test::disk.go_on();
  EXPECT_EQ(records::LogFollower(folder() / "log.jsonl").next().log.steps.back(), run.trainee.progress.step);
}

TEST_F(SaveHook, CopiesWhatIsSmallAndNoMore) {
  auto of = [](int64_t num_bytes) {
    Snapshot snapshot;
    snapshot.num_state_bytes = num_bytes;
    return is_written_beside(snapshot);
  };
  EXPECT_TRUE(of(int64_t{2} << 30));
  EXPECT_FALSE(of((int64_t{2} << 30) + 1));
}
