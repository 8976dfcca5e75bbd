// What happens beside the steps of a run: previews, validation on the way, logs in other formats, what is kept, and kills at any instant.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include "data/image.h"
#include "tests/integration/program.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kHookLora = "--learning_rate 1e-3 --lora_rank 2 --lora_target_modules to_q,to_v ";

std::string held_out() { return option("validation_metadata_path", kGolden / "pictures/metadata.csv"); }

Outcome trained_with_hooks(const std::string& options, const fs::path& run) {
  auto outcome = run_burnish("train " + golden_model() + golden_data() + kHookLora + options + option("output_path", run));
  EXPECT_EQ(outcome.exit_code, 0) << options << "\n" << outcome.output;
  return outcome;
}

/// All files of a run by their paths in it: bytes, and of the logs what does not depend on the clock.
std::map<std::string, std::string> contents(const fs::path& run) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    auto name = fs::relative(entry.path(), run).string();
    if (!entry.is_regular_file() || name == "log.csv" || name == "report.html" || name == "status.json" ||
        name.starts_with("tensorboard") || name.starts_with("state/checked"))
      continue;
    files[name] = name == "log.jsonl" ? "" : read_file(entry.path());
  }
  for (auto& line : read_log(run)) {
    for (const char* name : {"samples_per_second", "step_seconds", "data_seconds", "time", "peak_memory_bytes"}) line.erase(name);
    files["log.jsonl"] += line.dump() + "\n";
  }
  return files;
}

std::vector<std::string> names(const std::map<std::string, std::string>& files) {
  std::vector<std::string> list;
  for (const auto& [name, bytes] : files) list.push_back(name);
  return list;
}

/// The command in a process of its own.
pid_t start(const std::string& command) {
  auto child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  return child;
}

class Hooks : public testing::Test {
 protected:
  fs::path prompts() {
    std::ofstream(folder / "prompts.txt") << "a red circle --s 3\na blue square --w 48 --h 48 --d 7 --s 3\n";
    return folder / "prompts.txt";
  }
  Scratch folder;
};

}  // namespace

TEST_F(Hooks, PreviewsAreWhatTheVerbDraws) {
  auto difference = [](const at::Tensor& a, const at::Tensor& b) { return (a.to(at::kInt) - b.to(at::kInt)).abs().max().item<int>(); };
  std::vector<at::Tensor> seen;
  for (const char* average : {"", "--ema_decay 0.5 "}) {  // of which the file has the averages
    trained_with_hooks("--max_steps 3 --learning_rate 0.1 " + std::string(average) + option("preview_prompts", prompts()), folder / "run");
    auto drawn =
        run_burnish("sample " + golden_model() + "--prompt 'a red circle' --seed 0 --num_inference_steps 3 --height 48 --width 64 " +
                    option("lora", folder / "run/step-3.safetensors") + option("output_path", folder / "drawn"));
    ASSERT_EQ(drawn.exit_code, 0) << drawn.output;
    seen.push_back(data::decode_image(folder / "drawn/0000.png"));
    // The verb merges what a run adds.
    EXPECT_LE(difference(data::decode_image(folder / "run/samples/step-000003/00.png"), seen.back()), 1) << average;
    fs::remove_all(folder / "run");
  }
  EXPECT_GT(difference(seen[0], seen[1]), 1);
}

TEST_F(Hooks, OldWeightsGoAndTheBestStay) {
  trained_with_hooks("--max_steps 7 --save_steps 2 --keep_last 2 --validation_steps 3 --keep_best " + held_out(), folder / "run");
  auto files = contents(folder / "run");
  EXPECT_THAT(names(files), testing::ElementsAre("best.safetensors", "config.toml", "log.jsonl", "plan.json", "state/state.safetensors",
                                                 "step-6.safetensors", "step-7.safetensors", "validation.json", "visits.jsonl"));
  std::map<double, int64_t> by_loss;
  for (const auto& line : read_log(folder / "run")) {
    auto step = line["step"].get<int64_t>();
    if (step % 3 == 0 || step == 7) by_loss[line["validation_loss"]] = step;  // the last one is judged in any case
    else EXPECT_TRUE(line["validation_loss"].is_null());
  }
  ASSERT_EQ(by_loss.size(), 3u);
  EXPECT_THAT(files.at("best.safetensors"), HasSubstr("\"step\":\"" + std::to_string(by_loss.begin()->second) + "\""));
}

TEST_F(Hooks, HeldOutSamplesAreJudgedAndPreviewsDrawnAtStrengths) {
  auto outcome = trained_with_hooks(
      "--max_steps 3 --learning_rate 0.05 --validation_steps 2 --validation_strengths '0,0.5,-1; 1:.*to_q=0,.*to_v=0; 1:.*to_v=0' " +
          held_out() + option("preview_prompts", prompts()),
      folder / "run");
  const auto losses = nlohmann::json::parse(read_file(folder / "run/validation.json"));
  EXPECT_EQ(losses["at"]["0"], losses["before"]) << "a fresh adapter is none";
  EXPECT_NE(losses["at"]["0.5"], losses["after"]);
  EXPECT_NE(losses["at"]["-1"], losses["at"]["0.5"]);
  EXPECT_EQ(losses["at"]["1:.*to_q=0,.*to_v=0"], losses["before"]) << "without all its layers it is none";
  EXPECT_NE(losses["at"]["1:.*to_v=0"], losses["before"]);
  EXPECT_NE(losses["at"]["1:.*to_v=0"], losses["after"]);
  const auto log = read_log(folder / "run");
  for (const auto& line : log) {
    const auto step = line["step"].get<int64_t>();
    if (step > 0) {
      EXPECT_EQ(line["validation_loss_at_0.5"].is_null(), step == 1) << step;
    }
  }
  EXPECT_EQ(log.back()["validation_loss_at_0.5"], losses["at"]["0.5"]);
  EXPECT_THAT(outcome.output, HasSubstr(", at strength 0.5 "));
  auto preview = [&](int step, int number) {
    return data::decode_image(folder / fmt::format("run/samples/step-{:06}/{:02}.png", step, number));
  };
  EXPECT_TRUE(at::equal(preview(3, 2), preview(0, 0))) << "strength 0 draws what is drawn before training";
  EXPECT_FALSE(at::equal(preview(3, 4), preview(3, 0)));
  EXPECT_EQ(data::read_png_text(folder / "run/samples/step-000003/05.png").at("strength"), "0.5");
  EXPECT_TRUE(at::equal(preview(3, 8), preview(0, 0)));
  EXPECT_FALSE(at::equal(preview(3, 10), preview(0, 0)));
  EXPECT_EQ(data::read_png_text(folder / "run/samples/step-000003/10.png").at("strength"), "1:.*to_v=0");
  EXPECT_EQ(logged_steps(folder / "run"), [&] {
    trained_with_hooks("--max_steps 3 --learning_rate 0.05 ", folder / "plain");
    return logged_steps(folder / "plain");
  }());
  auto refused =
      run_burnish("train " + golden_model() + golden_data() + kHookLora + "--max_steps 1 --lora_type dora --validation_strengths 0.5 " +
                  held_out() + option("output_path", folder / "dora"));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("has a magnitude (dora)"));
  refused = run_burnish("train " + golden_model() + golden_data() + kHookLora + "--max_steps 1 --validation_strengths 1:style=0 " +
                        held_out() + option("output_path", folder / "layers"));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("the layers of the adapter in training: 'style' fits nothing that it adapts"));
}

TEST_F(Hooks, ALossThatNothingTrainedReachesIsRefused) {
  auto outcome = run_burnish("train " + golden_model() + golden_data() + "--max_steps 2 --trainable_models vae.decoder " +
                             option("output_path", folder / "run"));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the loss depends on nothing that trains"));
}

TEST_F(Hooks, WhatAFamilyLeavesWithoutAGradientIsNoWarning) {
  const std::string vae = "--max_steps 1 --learning_rate 1e-5 --trainable_models ";
  auto whole = run_burnish("train " + golden_model() + golden_data() + vae + "vae " + option("output_path", folder / "vae")).output;
  EXPECT_THAT(whole, HasSubstr("104 of 176 trained parameters are never reached by a gradient in this model: vae.decoder.conv_in.weight"));
  EXPECT_THAT(whole, testing::Not(HasSubstr("got no gradient")));
}

TEST_F(Hooks, ARunEndsWithItsPage) {
  trained_with_hooks("--max_steps 2 " + option("preview_prompts", prompts()), folder / "run");
  auto page = read_file(folder / "run/report.html");
  EXPECT_THAT(page, testing::AllOf(HasSubstr("a red circle"), HasSubstr("\"steps\":[1,2]")));
  trained_with_hooks("--max_steps 2 --write_report false ", folder / "without");
  EXPECT_FALSE(fs::exists(folder / "without/report.html"));
}

TEST_F(Hooks, AClosedTerminalAndARequestToEndSaveLikeCtrlC) {
  for (int signal : {SIGHUP, SIGTERM}) {
    auto run = folder / std::to_string(signal);
    auto child = start(quoted(test::kProgram) + " train " + golden_model() + golden_data() + kHookLora + "--max_steps 100000 " +
                       option("output_path", run) + ">/dev/null 2>&1");
    for (int i = 0; i < 2400 && (!fs::exists(run / "log.jsonl") || read_log(run).empty()); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 130) << signal;
    EXPECT_TRUE(fs::exists(run / "state/state.safetensors")) << signal;
    EXPECT_THAT(read_file(run / "report.html"), HasSubstr("\"state\":\"interrupted\"")) << signal;
  }
}

/// BURNISH_KILLS in the environment kills more often.
TEST_F(Hooks, KilledAtAnyInstantARunEndsAsOneThatWasNot) {
  auto prompt_file = prompts();
  auto options = golden_model() + golden_data() + kHookLora + held_out() + option("preview_prompts", prompt_file) +
                 "--max_steps 12 --batch_size 2 --caption_dropout 0.3 --lora_dropout 0.2 --ema_decay 0.9 --save_steps 1 --keep_last 3 " +
                 "--validation_steps 4 --keep_best --preview_steps 4 --enable_csv_log --enable_tensorboard_log ";
  auto command = [&](const fs::path& run) {
    auto state = fs::exists(run / "state/state.safetensors") ? "--resume " : "";
    return "train " + options + state + option("output_path", run);
  };
  auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_burnish(command(folder / "whole")).exit_code, 0);
  auto whole_ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
  auto expected = contents(folder / "whole");

  const char* asked = std::getenv("BURNISH_KILLS");
  int num_kills = asked ? std::atoi(asked) : 10;
  std::mt19937 random(11);
  for (int i = 0; i < num_kills; ++i) {
    auto run = folder / "killed";
    if (i % 5 == 0) fs::remove_all(run);
    auto child = start(quoted(test::kProgram) + " " + command(run) + ">/dev/null 2>&1");
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int64_t>(0, whole_ms)(random)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (i % 5 != 4) continue;
    auto rest = run_burnish(command(run));
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    auto found = contents(run);
    for (const auto& [name, bytes] : expected) {
      if (name == "config.toml" || name == "plan.json") continue;  // names its own folder; says what the program took when it was made
      EXPECT_TRUE(found.contains(name) && found.at(name) == bytes) << name << " after kill " << i;
    }
    for (const auto& [name, bytes] : found) EXPECT_TRUE(expected.contains(name) || name.find(".partial") != name.npos) << name;
  }
}
