// Runs of the program: resuming, interruption, saving, and the gradients of a LoRA beside peft's.
#include <gmock/gmock.h>
#include <signal.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "adapters/adapter_file.h"
#include "data/dataset.h"
#include "data/resize.h"
#include "loras/lora_file.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/integration/program.h"
#include "tests/integration/refused.h"
#include "tests/places.h"
#include "tests/rows.h"
#include "train/objectives/sample_loss.h"

using namespace burnish;
using namespace burnish::test;

namespace {

/// Of all tests of this program: what burnish remembers for its user, they have a folder of their own for.
struct OwnCache : Scratch {
  OwnCache() { ::setenv("XDG_CACHE_HOME", path().c_str(), 1); }
};
const OwnCache kOwnCache;

const std::string kCommon = "train " + golden_model() + golden_data() + "--learning_rate 1e-3 --lr_warmup_steps 2 ";
const std::string kLora = "--lora_rank 4 --lora_target_modules to_q,to_v,proj_mlp ";
const std::string kFull = "--trainable_models dit ";

std::string output_to(const fs::path& folder) { return "--output_path '" + folder.string() + "' "; }

void expect_ok(const std::string& arguments) {
  auto outcome = run_burnish(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
}

void expect_same_run(const fs::path& a, const fs::path& b, const std::string& file) {
  ASSERT_TRUE(fs::exists(a / file) && fs::exists(b / file)) << file;
  EXPECT_EQ(read_file(a / file), read_file(b / file)) << file;
  EXPECT_EQ(logged_steps(a), logged_steps(b));
}

/// Starts the program and sends it `signal` once its log has `lines` lines and `file` is there; the exit code.
int interrupt_after(const std::string& arguments, const fs::path& run, size_t lines, int signal, const std::string& file = "") {
  auto command = "exec " + quoted(test::kProgram) + " " + arguments + " >/dev/null 2>&1";
  auto child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  for (int i = 0; i < 6000; ++i) {
    auto text = read_file(run / "log.jsonl");
    bool there = file.empty() || fs::exists(run / file);
    if ((there && static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) >= lines) || ::kill(child, 0) != 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST(Train, PicturesThatAnotherRunLookedAtAreNotLookedAtAgain) {
  Scratch folder;
  auto cache = "XDG_CACHE_HOME='" + (folder / "cache").string() + "'";
  auto run = [&](const std::string& name) { return run_burnish(kCommon + kLora + "--max_steps 2 " + output_to(folder / name), cache); };
  auto first = run("first");
  ASSERT_EQ(first.exit_code, 0) << first.output;
  std::vector<fs::path> notes(fs::directory_iterator(folder / "cache/burnish"), {});
  ASSERT_EQ(notes.size(), 1u);
  auto known = nlohmann::json::parse(read_file(notes[0]));
  ASSERT_FALSE(known.empty()) << "pictures that were not changed just now";
  for (auto& [file, size] : known.items()) {
    EXPECT_EQ(size, "48 64") << file;
    size = "50 64";
  }
  std::ofstream(notes[0]) << known;
  auto second = run("second");
  EXPECT_EQ(second.exit_code, 3) << "it took the sizes that were remembered";
  EXPECT_THAT(second.output, testing::HasSubstr("was changed while"));
}

TEST(Train, CaptionsThatAreCutAreCounted) {
  Scratch folder;
  std::string words, picture = (kGolden / "pictures/0.png").string();
  for (int i = 0; i < 200; ++i) words += " cat";
  std::ofstream(folder / "data.csv") << "image,prompt\n" << picture << ",a dog\n" << picture << "," << words << "\n";
  auto run = [&](const std::string& name, const std::string& more) {
    auto outcome = run_burnish("train " + golden_model() + "--dataset_metadata_path '" + (folder / "data.csv").string() +
                               "' --height 48 --width 64 --lora_rank 2 --max_steps 1 " + output_to(folder / name) + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  };
  using testing::HasSubstr, testing::AllOf, testing::Not;
  EXPECT_THAT(
      run("short", " --max_sequence_length 32"),
      AllOf(HasSubstr("1 of 2 captions have more than the 24 tokens that text_encoder reads, and are cut; the longest has 202\n"),
            HasSubstr("32 tokens that text_encoder_2 reads, and are cut; the longest has 201 (--max_sequence_length reads more)\n")));
  EXPECT_THAT(run("long", " --max_sequence_length 256"), Not(HasSubstr("that text_encoder_2 reads")));
}

struct ResumeCase {
  std::string name, options;
};
void PrintTo(const ResumeCase& c, std::ostream* out) { *out << c.name; }

class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, EqualsTheUninterruptedRunBitForBit) {
  Scratch folder;
  auto options = kCommon + GetParam().options;
  expect_ok(options + "--max_steps 7 " + output_to(folder / "whole"));
  expect_ok(options + "--max_steps 3 " + output_to(folder / "parts"));
  expect_ok(options + "--max_steps 7 --resume " + output_to(folder / "parts"));
  expect_same_run(folder / "whole", folder / "parts", "step-7.safetensors");
}

INSTANTIATE_TEST_SUITE_P(
    Of, Resume,
    testing::Values(ResumeCase{"lora", kLora}, ResumeCase{"lora_in_batches", kLora + "--batch_size 2 --gradient_accumulation_steps 2 "},
                    ResumeCase{"full", kFull}, ResumeCase{"full_bf16_checkpointed", kFull + "--dtype bf16 --use_gradient_checkpointing "},
                    ResumeCase{"full_bf16_remainder", kFull + "--dtype bf16 --trained_weights remainder --save_dtype fp32 "},
                    ResumeCase{"lora_averaged", kLora + "--ema_decay 0.9 "}, ResumeCase{"oft", kLora + "--lora_type oft --dtype bf16 "},
                    ResumeCase{"full_delta", kLora + "--lora_type full --use_gradient_checkpointing "},
                    ResumeCase{"full_bf16_averaged", kFull + "--dtype bf16 --trained_weights remainder --ema_decay 0.99 "},
                    ResumeCase{"full_fp8", kFull + "--dtype bf16 --trained_weights fp8 "},
                    ResumeCase{"lora_prodigy", kLora + "--optimizer prodigy --loraplus_lr_ratio 4 "},
                    ResumeCase{"full_bf16_schedulefree", kFull + "--dtype bf16 --optimizer adamw_schedulefree "},
                    ResumeCase{"full_fp8_adamw8bit", kFull + "--dtype bf16 --trained_weights fp8 --optimizer adamw8bit "},
                    ResumeCase{"full_fp8_clipped_in_batches", kFull + "--trained_weights fp8 --fp8_compute --max_grad_norm 0.5 " +
                                                                  "--use_gradient_checkpointing --gradient_accumulation_steps 2 "}),
    [](const auto& info) { return info.param.name; });

TEST(MovingAverage, IsThatOfTheWeightsOnTheWayWhichItDoesNotChange) {
  Scratch folder;
  for (const auto& adapter : {kLora, kLora + "--lora_type dora "}) {
    auto options = kCommon + adapter + "--max_steps 4 --save_steps 1 --dtype fp32 --validation_metadata_path '" +
                   (kGolden / "pictures/metadata.csv").string() + "' ";
    expect_ok(options + output_to(folder / "plain"));
    expect_ok(options + "--ema_decay 0.3 " + output_to(folder / "averaged"));
    EXPECT_EQ(logged_steps(folder / "plain"), logged_steps(folder / "averaged"));

    auto file = [&](const char* run, int step) {
      return io::SafetensorsFile::open(folder / run / ("step-" + std::to_string(step) + ".safetensors"));
    };
    auto last = file("averaged", 4);
    int64_t moved = 0;
    for (const auto& [name, info] : last->tensors()) {
      // Decays of min(0.3, (1 + step) / (10 + step)); the average starts at what step 1 started from, as if nothing had been trained.
      auto second = file("averaged", 2)->tensor(name), value = second;
      for (int step : {3, 4}) value = value * 0.3 + file("plain", step)->tensor(name) * 0.7;
      EXPECT_LE(relative_error(last->tensor(name), value), tolerance(1e-5)) << name;
      auto from_first = file("averaged", 1)->tensor(name) * 0.25 + file("plain", 2)->tensor(name) * 0.75;
      EXPECT_LE(relative_error(second, from_first), tolerance(1e-5)) << name;
      moved += !at::equal(last->tensor(name), file("plain", 4)->tensor(name));
    }
    EXPECT_GT(moved, 0);
    auto loss = [&](const char* run) { return nlohmann::json::parse(read_file(folder / run / "validation.json")); };
    EXPECT_EQ(loss("plain")["before"], loss("averaged")["before"]);
    EXPECT_NE(loss("plain")["after"], loss("averaged")["after"]);
    fs::remove_all(folder / "plain");
    fs::remove_all(folder / "averaged");
  }
}

TEST(Interrupt, SavesAndGoesOnBitForBit) {
  Scratch folder;
  auto options = kCommon + kLora + "--max_steps 300 ";
  EXPECT_EQ(interrupt_after(options + output_to(folder / "parts"), folder / "parts", 5, SIGINT), 130);
  auto done = read_log(folder / "parts").size();
  ASSERT_GE(done, 5u);
  ASSERT_LT(done, 300u);
  EXPECT_TRUE(fs::exists(folder / ("parts/step-" + std::to_string(done) + ".safetensors")));
  auto end = "--max_steps " + std::to_string(done + 4) + " ";
  expect_ok(kCommon + kLora + end + "--resume " + output_to(folder / "parts"));
  expect_ok(kCommon + kLora + end + output_to(folder / "whole"));
  expect_same_run(folder / "whole", folder / "parts", "step-" + std::to_string(done + 4) + ".safetensors");
}

TEST(Interrupt, KilledRunResumesFromTheLastSaveAndItsLogIsCutThere) {
  Scratch folder;
  auto options = kCommon + kLora + "--save_steps 4 --max_steps ";
  // Steps go on while a state is being written, so that how far the run is when it is killed is the machine's choice.
  auto parts = options + "3000 " + output_to(folder / "parts");
  EXPECT_EQ(interrupt_after(parts, folder / "parts", 6, SIGKILL, "state/state.safetensors"), 128 + SIGKILL);
  auto log = read_file(folder / "parts/log.jsonl");
  auto last = std::to_string(std::count(log.begin(), log.end(), '\n') + 4);
  expect_ok(options + last + " --resume " + output_to(folder / "parts"));
  expect_ok(options + last + " " + output_to(folder / "whole"));
  expect_same_run(folder / "whole", folder / "parts", "step-" + last + ".safetensors");
}

TEST(Checkpointing, GivesTheSameRun) {
  Scratch folder;
  auto options = kCommon + kFull + "--max_steps 5 ";
  expect_ok(options + output_to(folder / "plain"));
  expect_ok(options + "--use_gradient_checkpointing " + output_to(folder / "recomputed"));
  auto plain = read_log(folder / "plain"), recomputed = read_log(folder / "recomputed");
  for (size_t i = 0; i < 5; ++i) {
    auto loss = plain[i]["loss"].get<double>();
    EXPECT_NEAR(recomputed[i]["loss"].get<double>(), loss, tolerance(1e-5) * loss) << "step " << i;
  }
}

TEST(Saved, WholeModelHasEveryKeyAndLoadsAgain) {
  Scratch folder;
  expect_ok(kCommon + kFull + "--max_steps 2 " + output_to(folder / "run"));
  fs::copy(kGolden / "model", folder / "model", fs::copy_options::recursive);
  fs::copy_file(folder / "run/step-2.safetensors", folder / "model/transformer/diffusion_pytorch_model.safetensors",
                fs::copy_options::overwrite_existing);
  auto replay = " --replay '" + (kGolden / "replay.safetensors").string() + "' ";
  auto again = "train --model '" + (folder / "model").string() + "' --dtype fp32 --tokenizer_path '" + (kAssets / "tokenizer").string() +
               "' --tokenizer_2_path '" + (kAssets / "tokenizer_2").string() + "' ";
  expect_ok(again + golden_data() + kFull + "--max_steps 1 " + output_to(folder / "again") + replay);
  auto source = io::SafetensorsFile::open(folder / "run/step-2.safetensors");
  auto original = io::TensorSource::open_folder(kGolden / "model/transformer", {"diffusion_pytorch_model"});
  EXPECT_EQ(source->tensors().size(), original.names().size());
}

TEST(Saved, LoraStartsAgainFromItsFile) {
  Scratch folder;
  expect_ok(kCommon + kLora + "--lora_alpha 2 --max_steps 3 " + output_to(folder / "run"));
  auto file = folder / "run/step-3.safetensors";
  auto trained = io::SafetensorsFile::open(file);
  EXPECT_EQ(trained->metadata().at("rank"), "4");
  EXPECT_EQ(trained->metadata().at("alpha"), "2");
  // At this rate a step moves no number by as much as its last bit, so that what is saved is what was read.
  expect_ok("train " + golden_model() + golden_data() + "--learning_rate 1e-30 --max_steps 1 " + option("lora_checkpoint", file) +
            output_to(folder / "again"));
  auto again = io::SafetensorsFile::open(folder / "again/step-1.safetensors");
  EXPECT_EQ(again->metadata().at("rank"), "4");
  EXPECT_EQ(again->metadata().at("alpha"), "2");
  EXPECT_EQ(again->tensors().size(), trained->tensors().size());
  for (const auto& [name, info] : trained->tensors()) {
    EXPECT_GT(trained->tensor(name).abs().max().item<double>(), 0) << name;
    EXPECT_LE(relative_error(again->tensor(name), trained->tensor(name)), 1e-6) << name;
  }
}

TEST(LoraParity, GradientsArePeftsInTheFirstReplayedStep) {
  auto model = models::open_model(
      models::open_model_files({{(kGolden / "model").string()}, "", ""}),
      {.dtype = at::kFloat, .tokenizer_path = (kAssets / "tokenizer").string(), .tokenizer_2_path = (kAssets / "tokenizer_2").string()});
  auto groups = model->units();
  auto replay = io::SafetensorsFile::open(kGolden / "replay.safetensors");
  data::Dataset dataset({.subsets = {{.base_path = (kGolden / "pictures").string(),
                                      .metadata_path = (kGolden / "pictures/metadata.csv").string(),
                                      .size = {48, 64, 1 << 20, model->latent_space().side}}}});
  const auto row = replay->tensor("step.0.sample").item<int64_t>();
  pipeline::Values values{{"prompt", dataset.row(row).prompt},
                          {"image", data::to_model_range(test::read_target(dataset, row)).unsqueeze(0)},
                          {"noise", replay->tensor("step.0.noise").unsqueeze(0)},
                          {"sigma", replay->tensor("step.0.sigma").reshape({1})}};
  for (const auto* group : {&groups.encode_prompt, &groups.encode_image}) {
    at::NoGradGuard no_grad;
    for (const auto& name : pipeline::models_of(*group)) model->components().load(name);
    pipeline::run(*group, values);
  }
  model->components().load("dit");
  auto& root = model->components().module("dit");
  auto weights = loras::read(*model, (kGolden / "lora.safetensors").string()).at("dit");
  auto adapted = adapters::attach_weights(root, weights, "lora.safetensors");
  for (const auto& group : {groups.add_noise, groups.denoise, train::loss_units(*model, {})}) pipeline::run(group, values);
  torch::autograd::backward({std::get<at::Tensor>(values.at("loss")).sum()}, {});

  auto expected = io::TensorSource::open({(kGolden / "expected.safetensors").string()}).below("lora.grad.");
  EXPECT_EQ(expected.names().size(), 2 * adapted.size());
  for (const auto& item : adapted) {
    for (const auto& [name, value] : item.adapter->parameters())
      EXPECT_LE(relative_error(value.grad(), expected.tensor(item.path + "." + name)), tolerance(1e-4)) << item.path << name;
  }
}

TEST(Sigma, IsDrawnByTheSchemeAndCutByMinAndMax) {
  Scratch folder;
  // The log counts losses by tenths of the way to noise.
  auto bins = [&](const std::string& options) {
    expect_ok(kCommon + kLora + "--max_steps 12 " + options + output_to(folder / "run"));
    std::vector<int> counts(10);
    for (const auto& line : read_log(folder / "run")) {
      for (size_t i = 0; i < 10; ++i) counts[i] += line["loss_by_time"][i]["count"].get<int>();
    }
    fs::remove_all(folder / "run");
    return counts;
  };
  EXPECT_EQ(bins("--timestep_sampling logsnr --min_t 0.81 --max_t 0.89 ")[8], 12);
  EXPECT_EQ(bins("--timestep_sampling beta --noising_weight 400 --noising_bias 400 --discrete_flow_shift 20 ")[9], 12) << "20/21";
  EXPECT_EQ(bins("--timestep_sampling inverted_parabola --noising_weight 3000 --noising_bias 0.25 --discrete_flow_shift 1 ")[7], 12);
}
