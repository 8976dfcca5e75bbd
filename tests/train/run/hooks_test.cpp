// What the hooks of a run write, say and measure; saves are in save_hook_test.cpp.
#include "train/run/hooks/hooks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/text.h"
#include "config/command_line.h"
#include "config/settings.h"
#include "data/animated_webp.h"
#include "data/clip.h"
#include "io/files.h"
#include "records/previews.h"
#include "tests/scratch.h"
#include "tests/train/run/skeleton_run.h"
#include "train/objectives/dpo.h"
#include "train/options/fields.h"

using namespace burnish;
using namespace burnish::train;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

namespace fs = std::filesystem;
using Hooks = std::vector<std::unique_ptr<Hook>>;

template <class... H>
Hooks list(H... hook) {
  Hooks hooks;
  (hooks.push_back(std::move(hook)), ...);
  return hooks;
}

size_t times_in(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Where the logger of this program writes.
std::string said_by(const std::function<void()>& action) {
  testing::internal::CaptureStdout();
  action();
  return testing::internal::GetCapturedStdout();
}

class HooksTest : public testing::Test {
 protected:
  fs::path run_folder() const { return settings.output.folder; }
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> all;
    for (std::istringstream text(io::read_text(run_folder() / "log.jsonl")); text.peek() != EOF;) {
      std::string line;
      std::getline(text, line);
      all.push_back(nlohmann::json::parse(line));
    }
    return all;
  }
  nlohmann::json validation() const { return nlohmann::json::parse(io::read_text(run_folder() / "validation.json")); }
  /// The mean loss of held-out samples as the trainee is now.
  static double held_out_loss(const test::SkeletonRun& run) {
    at::NoGradGuard no_grad;
    double sum = 0;
    for (int64_t i = 0; i < run.course.num_held_out(); ++i) sum += losses_of(run.trainee, run.training.batch({true, i})).item<double>();
    return sum / static_cast<double>(run.course.num_held_out());
  }
  static void tell(Hook& hook, StepReport report) { hook.stepped(report); }

  test::Scratch scratch;
  Settings settings = test::SkeletonRun::settings_in(scratch.path());
};

}  // namespace

TEST_F(HooksTest, AreThoseThatAreAskedFor) {
  test::SkeletonRun plain(settings), judged(settings, {.num_held_out = 1});
  EXPECT_EQ(make_hooks(plain.training).size(), 4u) << "log, bar, gradients and save";
  EXPECT_FALSE(make_validate(plain.training) || make_preview(plain.training));
  EXPECT_EQ(make_hooks(judged.training).size(), 5u);
  settings.output.previews.prompts = "prompts.txt";
  test::SkeletonRun drawn(settings);
  EXPECT_TRUE(make_preview(drawn.training));
}

TEST_F(HooksTest, TheLogHasALineAStep) {
  settings.course.batch_size = 2;
  test::SkeletonRun run(settings);
  std::vector<StepReport> reports;
  struct Reports final : Hook {
    explicit Reports(std::vector<StepReport>& to) : to(to) {}
    void stepped(StepReport& r) override { to.push_back(r); }
    std::vector<StepReport>& to;
  };
  run.loop(list(make_log(run.training), std::unique_ptr<Hook>(std::make_unique<Reports>(reports))));
  auto found = lines();
  ASSERT_EQ(found.size(), 4u);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& line = found[i];
    EXPECT_EQ(line["step"], i + 1);
    EXPECT_EQ(line["loss"], reports[i].loss);
    EXPECT_EQ(line["grad_norm"], reports[i].grad_norm);
    EXPECT_EQ(line["lr"], 0.01);
    EXPECT_DOUBLE_EQ(line["samples_per_second"], 2 / reports[i].seconds);
    EXPECT_FALSE(line.contains("validation_loss"));
    double sum = 0;
    for (const auto& bin : line["loss_by_time"]) {
      EXPECT_EQ(bin["raw"].is_null(), bin["count"] == 0);
      if (bin["count"] > 0) sum += bin["weighted"].get<double>() * bin["count"].get<double>();
    }
    EXPECT_NEAR(sum / 2, reports[i].loss, 1e-5 * reports[i].loss);
  }
  EXPECT_FALSE(fs::exists(run_folder() / "log.csv") || fs::exists(run_folder() / "tensorboard"));
}

TEST_F(HooksTest, TheLogGoesOnAfterTheStepThatIsResumedAt) {
  settings.output.logs = {.tensorboard = true, .csv = true};
  settings.output.validation_steps = 2;
  {
    test::SkeletonRun run(settings, {.num_held_out = 1});
    run.loop(list(make_validate(run.training), make_log(run.training)));
  }
  auto before = lines();
  ASSERT_EQ(before.size(), 5u);
  EXPECT_EQ(before[0]["step"], 0);
  EXPECT_TRUE(before[0]["validation_loss"].is_number());
  EXPECT_TRUE(before[1]["validation_loss"].is_null()) << "a column from the first row on";
  EXPECT_TRUE(before[2]["validation_loss"].is_number());
  test::SkeletonRun run(settings, {.num_held_out = 1});
  run.training.trainee.progress.step = 3;  // a state of step 3, of a run that was killed after its fourth
  run.settings.output.resume = true;
  auto log = make_log(run.training);
  log->before();
  tell(*log, test::report_of(4, 7));
  auto after = lines();
  ASSERT_EQ(after.size(), 5u);
  EXPECT_TRUE(std::equal(after.begin(), after.begin() + 4, before.begin()));
  EXPECT_EQ(after[4]["loss"], 7);
  auto table = io::read_text(run_folder() / "log.csv");
  EXPECT_EQ(times_in(table, "\n"), 6u);
  auto events = fs::directory_iterator(run_folder() / "tensorboard");
  EXPECT_EQ(std::distance(begin(events), end(events)), 2) << "a file a session";
}

TEST_F(HooksTest, TheLogLeavesAFileThatStartsTheRunAnew) {
  settings.given.course.max_steps = 0;
  settings.given.course.num_epochs = 3;
  settings.given.output.overwrite = true;
  settings.given.data.metadata_path = "pictures.csv";
  settings.course.max_steps = 0;
  settings.course.num_epochs = 3;
  test::SkeletonRun run(settings);
  make_log(run.training)->before();
  TrainOptions again;
  config::Fields listed;
  fields(listed, again);
  config::read_command_line("train", "", {"--config", (run_folder() / "config.toml").string()}, listed);
  EXPECT_EQ(again.course.max_steps, 0) << "which nobody asked for";
  EXPECT_EQ(again.course.num_epochs, 3);
  EXPECT_FALSE(again.output.resume || again.output.overwrite);
  EXPECT_EQ(again.data.metadata_path, fs::current_path() / "pictures.csv") << "from wherever it is started";
}

TEST_F(HooksTest, ValidationIsTheMeanOfAllHeldOutDraws) {
  settings.output.validation_steps = 2;
  test::SkeletonRun run(settings, {.num_held_out = 2});
  std::map<int64_t, std::optional<double>> reported;
  std::map<int64_t, double> expected{{0, held_out_loss(run)}};
  struct Look final : Hook {
    explicit Look(std::function<void(StepReport&)> act) : act(std::move(act)) {}
    void stepped(StepReport& r) override { act(r); }
    std::function<void(StepReport&)> act;
  };
  auto look = [&](StepReport& r) {
    reported[r.step] = r.validation_loss;
    expected[r.step] = held_out_loss(run);
  };
  auto said = said_by([&] { run.loop(list(make_validate(run.training), std::unique_ptr<Hook>(std::make_unique<Look>(look)))); });
  EXPECT_EQ(reported[2], expected[2]);
  EXPECT_EQ(reported[4], expected[4]);
  EXPECT_FALSE(reported[1] || reported[3]);
  EXPECT_EQ(validation(), (nlohmann::json{{"before", expected[0]}, {"after", expected[4]}}));
  EXPECT_THAT(said, HasSubstr(fmt::format("before {:.5f}, after {:.5f}", expected[0], expected[4])));
  EXPECT_NE(expected[0], expected[4]);
}

TEST_F(HooksTest, EveryPlaceHasTheSameValidationLosses) {
  settings.output.logs.csv = true;
  for (int64_t every : {0, 3}) {  // neither measures the last step on its way
    settings.output.validation_steps = every;
    test::SkeletonRun run(settings, {.num_held_out = 1});
    auto said = said_by([&] { run.loop(list(make_validate(run.training), make_log(run.training))); });
    const auto found = lines();
    ASSERT_EQ(found.size(), 5u) << "and nothing of the run before";
    EXPECT_EQ(found[0]["step"], 0);
    EXPECT_EQ(found[0]["validation_loss"], validation()["before"]);
    EXPECT_EQ(found[4]["validation_loss"], validation()["after"]);
    EXPECT_EQ(found[3]["validation_loss"].is_number(), every == 3);
    EXPECT_THAT(said, HasSubstr(fmt::format("before {:.5f}, after {:.5f}", found[0]["validation_loss"].get<double>(),
                                            found[4]["validation_loss"].get<double>())));
    const auto table = split_list(io::read_text(run_folder() / "log.csv"), '\n');
    EXPECT_TRUE(table.at(1).starts_with("0,") && table.at(2).starts_with("1,")) << table.at(1);
    EXPECT_THAT(table.at(1), HasSubstr(fmt::format("{}", validation()["before"].get<double>())));
    EXPECT_EQ(times_in(table.at(1), ","), times_in(table.at(2), ","));
  }
}

/// DiffSynth-Studio's weights go from nothing at noise alone to nearly twice the loss half-way.
TEST_F(HooksTest, TheLossIsShownBeforeItIsWeighted) {
  settings.objective.loss.weighting = "diffsynth";
  settings.course.batch_size = 2;
  settings.course.batches_per_step = 2;
  test::SkeletonRun run(settings);
  run.loop(list(make_log(run.training)));
  for (const auto& line : lines()) {
    double raw = 0, weighted = 0;
    for (const auto& bin : line["loss_by_time"]) {
      if (bin["count"] == 0) continue;
      raw += bin["raw"].get<double>() * bin["count"].get<double>();
      weighted += bin["weighted"].get<double>() * bin["count"].get<double>();
    }
    EXPECT_NEAR(line["raw_loss"].get<double>(), raw / 4, 1e-6 * raw) << line;
    EXPECT_NEAR(line["loss"].get<double>(), weighted / 4, 1e-5 * weighted) << line;
    EXPECT_GT(std::abs(line["raw_loss"].get<double>() / line["loss"].get<double>() - 1), 1e-3);
  }

  test::SkeletonRun again(settings);
  setenv("BURNISH_PROGRESS_SECONDS", "1e-9", 1);
  auto said = said_by([&] {
    auto bar = make_bar(again.training);
    bar->before();
    auto report = test::report_of(1, 22);
    report.raw_loss = 0.5;
    tell(*bar, report);
    bar->ended();
  });
  unsetenv("BURNISH_PROGRESS_SECONDS");
  EXPECT_THAT(said, HasSubstr("loss 0.5000, mean of 1 step 0.5000"));
}

namespace {

/// An objective that logs what preferences log.
class Preferring final : public Objective {
 public:
  pipeline::Units units() const override { return {}; }
  pipeline::Values draws(const DrawRequest&) const override { return {}; }
  pipeline::Values held_out_draws(const DrawRequest&, int64_t) const override { return {}; }
  std::vector<std::string> logged() const override { return {"margin", kGradientWeight}; }
};

}  // namespace

TEST_F(HooksTest, AMarginBeyondWhatBetaTellsApartIsSaidOnce) {
  test::SkeletonRun run(settings);
  EXPECT_FALSE(make_saturation(run.training)) << "nothing is preferred";
  const Preferring objective;
  const Training training{run.settings, run.subject,          objective,          run.schedule,       run.course, run.batches, nullptr,
                          nullptr,      run.training.trainee, run.training.world, run.training.status};
  auto said = [&](const std::vector<double>& weights) {
    auto hook = make_saturation(training);
    return said_by([&] {
      int64_t step = 0;
      for (auto weight : weights) {
        auto report = test::report_of(++step);
        report.logged = {{"margin", 9}, {kGradientWeight, weight}};
        tell(*hook, report);
      }
    });
  };
  std::vector<double> healthy(200, 0.4), gone(200, 0.4);
  for (size_t i = 0; i < healthy.size(); i += 2) healthy[i] = 0;  // single steps may well have none
  for (size_t i = 100; i < gone.size(); ++i) gone[i] = 0.001;
  EXPECT_EQ(said(healthy), "");
  EXPECT_EQ(said(std::vector<double>(49, 0.0)), "") << "too few steps to know";
  EXPECT_EQ(times_in(said(gone), "beyond what beta_dpo tells apart"), 1u);
  EXPECT_THAT(said(gone), HasSubstr("step 144: the margin of preferred over rejected pictures (9)"));
}

TEST_F(HooksTest, ValidationRemembersWhatARunBeganWith) {
  test::SkeletonRun run(settings, {.num_held_out = 1});
  run.settings.output.resume = true;
  auto begun = [&](const std::string& file) {
    std::ofstream(run_folder() / "validation.json") << file;
    make_validate(run.training)->before();
    return validation()["before"].get<double>();
  };
  EXPECT_EQ(begun(R"({"before": 0.75})"), 0.75);
  for (const char* damaged : {"", "{", "[]", R"({"before": null})"}) EXPECT_EQ(begun(damaged), held_out_loss(run)) << damaged;
  run.settings.output.resume = false;
  EXPECT_EQ(begun(R"({"before": 0.75})"), held_out_loss(run)) << "of another run";
}

TEST_F(HooksTest, ValidationJudgesTheAverages) {
  settings.step.ema_decay = 0.9;
  settings.output.validation_steps = 4;
  test::SkeletonRun run(settings, {.num_held_out = 1});
  run.loop(list(make_validate(run.training)));
  auto trained = run.values();
  auto judged = validation()["after"].get<double>();
  EXPECT_NE(judged, held_out_loss(run));
  const auto& parameters = run.trainee.optimizer->parameters();
  {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) at::Tensor(parameters[i].value).copy_(run.trainee.ema->average(i));
  }
  EXPECT_EQ(judged, held_out_loss(run));
  EXPECT_FALSE(test::all_equal(run.values(), trained)) << "which were put back";
}

TEST_F(HooksTest, ARiseIsNotedOnceUntilItFallsAgain) {
  settings.trained.adapted.clear();
  settings.trained.whole = {"dit"};
  settings.output.validation_steps = 1;
  test::SkeletonRun run(settings, {.num_held_out = 1});
  auto validate = make_validate(run.training);
  auto& head = run.subject.model->components().module("dit");
  auto predict = [&](double factor) {  // further from the target the larger it is
    at::NoGradGuard no_grad;
    head.visit_parameters([&](const std::string& path, at::Tensor& p) {
      if (path.starts_with("patch_out.")) p.fill_(factor);
    });
  };
  auto said = [&](const std::vector<double>& factors) {
    return said_by([&] {
      for (auto factor : factors) {
        predict(factor);
        tell(*validate, test::report_of(++run.trainee.progress.step));
      }
    });
  };
  predict(1);
  validate->before();
  EXPECT_EQ(said({10, 20}), "");
  EXPECT_THAT(said({30}), AllOf(HasSubstr("step 3: the validation loss is"), HasSubstr("of step 0 in 3 looks")));
  EXPECT_EQ(said({40, 50}), "");
  EXPECT_EQ(said({0, 10, 20}), "");
  EXPECT_THAT(said({30}), HasSubstr("of step 6 in 3 looks"));
}

TEST_F(HooksTest, WhatGotNoGradientIsNamedOnce) {
  test::SkeletonRun whole(settings);
  EXPECT_THAT(said_by([&] { whole.loop(list(make_gradients(whole.training))); }), Not(HasSubstr("gradient")));

  settings.trained.adapted.clear();
  settings.trained.whole = {"dit", "vae"};
  test::SkeletonRun run(settings);
  for (const auto& p : run.trainee.optimizer->parameters()) {
    if (p.name == "dit.time_in.weight") at::Tensor(p.value).set_requires_grad(false);
  }
  auto said = said_by([&] { run.loop(list(make_gradients(run.training))); });
  EXPECT_EQ(times_in(said, "trained parameters got no gradient in the first step, so nothing changes them: dit.time_in.weight\n"), 1u)
      << said;
  EXPECT_EQ(times_in(said, "trained parameters are never reached by a gradient in this model: vae.decoder.weight, vae.decoder.bias\n"), 1u)
      << said;
}

TEST_F(HooksTest, AnExpertsGradientsAreLookedAtInItsOwnFirstStep) {
  test::save_skeleton(scratch / "model.safetensors");
  settings.trained.adapted.clear();
  settings.course.max_steps = 12;
  {
    test::SkeletonRun both(settings);
    EXPECT_THAT(said_by([&] { both.loop(list(make_gradients(both.training))); }), Not(HasSubstr("gradient")));
  }
  settings.trained.whole = {"dit", "dit_2"};
  test::SkeletonRun run(settings);
  for (const auto& p : run.trainee.optimizer->parameters()) {
    if (p.name.ends_with(".time_in.weight")) at::Tensor(p.value).set_requires_grad(false);
  }
  auto said = said_by([&] { run.loop(list(make_gradients(run.training))); });
  const auto expected = [](const char* expert, const char* name) {
    return fmt::format("trained parameters of {} got no gradient in its first step, so nothing changes them: {}.time_in.weight\n", expert,
                       name);
  };
  EXPECT_EQ(times_in(said, expected("high_noise", "dit")), 1u) << said;
  EXPECT_EQ(times_in(said, expected("low_noise", "dit_2")), 1u) << said;
  EXPECT_EQ(times_in(said, "no gradient"), 2u) << said;
}

TEST_F(HooksTest, TheBarSaysTheMeanOfAHundredSteps) {
  settings.course.max_steps = 200;
  setenv("BURNISH_PROGRESS_SECONDS", "1e-9", 1);
  test::SkeletonRun run(settings);
  auto bar = make_bar(run.training);
  auto said = said_by([&] {
    bar->before();
    for (int64_t step = 1; step <= 101; ++step) tell(*bar, test::report_of(step, step == 1 ? 1000 : 2, 3, 0.5));
    bar->ended();
  });
  unsetenv("BURNISH_PROGRESS_SECONDS");
  EXPECT_THAT(said, AllOf(HasSubstr("train 1/200, "), HasSubstr("loss 1000.0000, mean of 1 step 1000.0000  6.00 samples/s")));
  EXPECT_THAT(said, AllOf(HasSubstr("loss 2.0000, mean of 100 steps 11.9800"), HasSubstr("loss 2.0000, mean of 100 steps 2.0000")));
}

TEST_F(HooksTest, PreviewsAreDrawnWhileTheWeightsChange) {
  settings.output.previews = {.prompts = scratch.write("prompts.txt", "a cat --s 2\na dog --s 2\n").string()};
  settings.step.ema_decay = 0.5;
  settings.step.learning_rate = 0.1;
  auto drawn = [&](const std::string& folder, int64_t every, int64_t first_step) {
    settings.output.folder = scratch / folder;
    settings.output.previews.every = every;
    test::SkeletonRun run(settings), plain(settings);
    auto previews = prepare_previews(settings.output.previews, *run.subject, {1, 16, 16}, at::kCPU);
    run.training.previews = &*previews;
    run.trainee.progress.step = plain.trainee.progress.step = first_step;
    run.loop(list(make_preview(run.training)));
    plain.loop({});
    EXPECT_TRUE(test::all_equal(run.values(), plain.values())) << "and change nothing of the training";
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const auto& preview : records::find_previews(settings.output.folder)) found.emplace_back(preview.step, preview.number);
    return found;
  };
  using Found = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(drawn("ends", 0, 0), (Found{{0, 0}, {0, 1}, {4, 0}, {4, 1}}));
  EXPECT_EQ(drawn("every", 3, 0), (Found{{0, 0}, {0, 1}, {3, 0}, {3, 1}, {4, 0}, {4, 1}}));
  EXPECT_EQ(drawn("last", 4, 0), (Found{{0, 0}, {0, 1}, {4, 0}, {4, 1}}));
  EXPECT_EQ(drawn("resumed", 3, 1), (Found{{3, 0}, {3, 1}, {4, 0}, {4, 1}})) << "what a run began with was drawn before";
  auto picture = [&](const std::string& folder, int64_t step) { return test::content(records::preview_path(scratch / folder, step, 0)); };
  EXPECT_EQ(picture("ends", 0), picture("every", 0));
  EXPECT_EQ(picture("ends", 4), picture("last", 4));
  EXPECT_NE(picture("ends", 0), picture("ends", 4));
}

TEST_F(HooksTest, PreviewsOfSeveralFramesAreClips) {
  settings.output.folder = scratch / "clips";
  settings.output.previews = {.prompts = scratch.write("prompts.txt", "a cat --s 2 --f 3\na dog --s 2\n").string()};
  settings.output.previews.frame_rate = 8;
  test::SkeletonRun run(settings);
  auto previews = prepare_previews(settings.output.previews, *run.subject, {1, 16, 16}, at::kCPU);
  run.training.previews = &*previews;
  auto old = records::preview_path(settings.output.folder, 0, 0);  // of a run before, when it was a picture
  std::filesystem::create_directories(old.parent_path());
  std::ofstream(old) << "old";
  run.loop(list(make_preview(run.training)));
  using P = records::Preview;
  constexpr auto kClip = records::PreviewKind::webp;
  EXPECT_THAT(records::find_previews(settings.output.folder), testing::ElementsAre(P{0, 0, kClip}, P{0, 1}, P{4, 0, kClip}, P{4, 1}));
  auto text = data::read_webp_text(records::preview_path(settings.output.folder, 4, 0, kClip));
  EXPECT_EQ(text["prompt"] + " " + text["step"], "a cat 4");
  EXPECT_EQ(text["num_frames"] + " " + text["frame_rate"], "3 8");
  auto look = data::look_at_clip(records::preview_path(settings.output.folder, 4, 0, kClip));
  EXPECT_EQ(look.duration.num * 1000, 375 * look.duration.den) << "three frames at the rate of the run";
}

TEST_F(HooksTest, PreviewsAreWrittenInTheFormatThatIsAskedFor) {
  settings.output.folder = scratch / "formats";
  using Kind = records::PreviewKind;
  auto draw = [&](const std::string& format, const std::string& prompts) {
    settings.output.previews = {.prompts = scratch.write("prompts.txt", prompts).string(), .format = format};
    settings.output.previews.frame_rate = 8;
    test::SkeletonRun run(settings);
    auto previews = prepare_previews(settings.output.previews, *run.subject, {1, 16, 16}, at::kCPU);
    run.training.previews = &*previews;
    make_preview(run.training)->before();
    std::vector<Kind> found;
    for (const auto& preview : records::find_previews(settings.output.folder)) found.push_back(preview.kind);
    return found;
  };
  for (auto [format, kind] : {std::pair{"mp4", Kind::mp4}, {"webm", Kind::webm}, {"png", Kind::frames}, {"webp", Kind::webp}}) {
    EXPECT_THAT(draw(format, "a cat --s 2 --f 3\n"), testing::ElementsAre(kind)) << "and nothing of another kind is left";
    auto look = data::look_at_clip(records::preview_path(settings.output.folder, 0, 0, kind));
    const bool has_times = look.duration.num > 0;  // at which an animation holds frames that are equal, as one
    EXPECT_EQ(has_times ? 8 * look.duration.num : look.num_frames, has_times ? 3 * look.duration.den : 3) << format;
  }
  EXPECT_THAT(draw("webp", "a cat --s 2\n"), testing::ElementsAre(Kind::webp));
  auto refusal = test::error_of([&] { draw("mp4", "a cat --s 2 --f 3\na dog --s 2\n"); }, Exit::config);
  EXPECT_THAT(refusal, AllOf(HasSubstr("preview_format mp4 holds clips"), HasSubstr("--f FRAMES, or set preview_format png")));
}
