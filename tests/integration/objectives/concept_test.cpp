// Sliders and erased concepts, whole runs without data: what they begin with, that they learn, resume, split and plan, and what they
// refuse.
#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "data/image.h"
#include "io/safetensors.h"
#include "tests/integration/families/stable_diffusion.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kAge = "--task slider --target_class 'a person' --positive_prompt 'an old person' --negative_prompt 'a young person' ";
const std::string kForget = "--task erase --erase_prompt 'a red apple' --neutral_prompt 'a fruit' ";
const std::string kLora = "--lora_rank 2 --learning_rate 2e-3 ", kDrawn = kLora + "--max_denoising_steps 3 ";

class Concepts : public testing::Test {
 protected:
  static std::string flux() { return golden_model() + "--height 48 --width 64 "; }
  static std::string data() { return option("dataset_metadata_path", kGolden / "pictures/metadata.csv"); }
  std::vector<nlohmann::json> train(const std::string& options, const std::string& run, const std::string& how = "--overwrite ") {
    auto out = run_burnish("train " + how + options + option("output_path", folder / run));
    EXPECT_EQ(out.exit_code, 0) << options << "\n" << out.output;
    return read_log(folder / run);
  }
  at::Tensor weights(const std::string& run, int steps) const {
    auto file = io::SafetensorsFile::open(folder / run / fmt::format("step-{}.safetensors", steps));
    std::vector<at::Tensor> all;
    for (const auto& [name, info] : file->tensors()) all.push_back(file->tensor(name).to(at::kDouble).flatten());
    return at::cat(all);
  }
  void expect_refused(const std::string& options, const char* text) {
    auto out = run_burnish("train " + options + flux() + option("output_path", folder / "refused"));
    EXPECT_EQ(out.exit_code, 2) << options << "\n" << out.output;
    EXPECT_THAT(out.output, HasSubstr(text));
  }
  Scratch folder;
};

double mean_of(const std::vector<nlohmann::json>& log, const char* name, size_t from, size_t to) {
  double sum = 0;
  for (size_t i = from; i < to; ++i) sum += log.at(i)[name].get<double>();
  return sum / static_cast<double>(to - from);
}

}  // namespace

TEST_F(Concepts, ASliderBeginsWithBothEndsEquallyFarAndComesNearerToBoth) {
  for (const std::string from : {"drawn", "pictures"}) {
    auto log = train(kAge + (from == "drawn" ? kDrawn : kLora + data()) + "--max_steps 30 --concept_latents " + from + " " + flux(), from);
    ASSERT_EQ(log.size(), 30u);
    const auto first = log[0]["positive_loss"].get<double>();
    EXPECT_GT(first, 0);
    EXPECT_NEAR(log[0]["loss"].get<double>() / (2. / 3 * (first + log[0]["negative_loss"].get<double>())), 1, 1e-5);
    for (const char* end : {"positive_loss", "negative_loss"}) EXPECT_LT(mean_of(log, end, 24, 30), 0.9 * mean_of(log, end, 0, 6)) << end;
  }
}

TEST_F(Concepts, ErasingLowersWhatIsErasedAndHoldsTheAnchor) {
  auto log = train(kForget + kDrawn + "--anchor_class 'a dog' --max_steps 30 --use_gradient_checkpointing " + flux(), "erased");
  EXPECT_LE(log[0]["anchor_loss"].get<double>(), kDevice.is_cpu() ? 0 : 1e-12) << "with a fresh adapter";
  EXPECT_LT(mean_of(log, "erased_loss", 24, 30), 0.9 * mean_of(log, "erased_loss", 0, 6));
  EXPECT_GT(log[5]["anchor_loss"].get<double>(), 0);
  // Drawn at several strengths, of which 0 is the model without it.
  const std::string draw = "--prompt 'a red apple' --num_inference_steps 2 --height 48 --width 64 ";
  auto out =
      run_burnish("sample " + draw + "--lora_strengths -1,0,1 " + option("run", folder / "erased") + option("output_path", folder / "row"));
  EXPECT_EQ(out.exit_code, 0) << out.output;
  out = run_burnish("sample " + draw + golden_model() + option("output_path", folder / "base"));
  EXPECT_EQ(out.exit_code, 0) << out.output;
  auto drawn = [&](const char* name) { return data::decode_image(folder / name); };
  EXPECT_TRUE(at::equal(drawn("row/0001.png"), drawn("base/0000.png")));
  EXPECT_FALSE(at::equal(drawn("row/0000.png"), drawn("row/0002.png")));
  const auto row = drawn("row/row-0000.png");
  ASSERT_EQ(row.size(1), 3 * 64);
  for (int i : {0, 1, 2})
    EXPECT_TRUE(at::equal(row.slice(0, row.size(0) - 48).slice(1, 64 * i, 64 * (i + 1)), drawn(fmt::format("row/000{}.png", i).c_str())));
}

TEST_F(Concepts, SeveralAreLearnedByOneAdapter) {
  std::ofstream(folder / "two.toml") << "[[concepts]]\nerase_prompt = \"a red apple\"\n"
                                        "[[concepts]]\nerase_prompt = \"a dog\"\nneutral_prompt = \"a cat\"\nerase_strength = -0.5\n"
                                        "anchor_class = \"a house\"\nloss_weight = 2.0\nnum_repeats = 3\n";
  const auto config = option("concept_config", folder / "two.toml");
  const auto run = "--task erase --neutral_prompt 'a fruit' " + kDrawn + "--dtype fp32 " + flux();
  auto log = train(run + config + "--max_steps 8 --batch_size 2 ", "two");
  EXPECT_GT(log.back()["grad_norm"].get<double>(), 0);
  EXPECT_GT(log[4]["anchor_loss"].get<double>(), 0);
  EXPECT_GT(log[0]["erased_loss"].get<double>(), 0);
  // With the same file the run resumes, and with another concept in it it does not.
  train(run + config + "--max_steps 9 --batch_size 2 ", "two", "--resume ");
  std::ofstream(folder / "two.toml", std::ios::app) << "[[concepts]]\nerase_prompt = \"a bird\"\n";
  auto out = run_burnish("train --resume " + run + config + "--max_steps 10 --batch_size 2 " + option("output_path", folder / "two"));
  EXPECT_NE(out.exit_code, 0) << out.output;
  EXPECT_THAT(out.output, HasSubstr("a bird"));
  // Pictures are seen under each of them.
  auto seen =
      train("--task erase --neutral_prompt 'a fruit' --concept_latents pictures --max_steps 2 " + kLora + flux() + data() + config, "seen");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_GT(seen.back()["grad_norm"].get<double>(), 0);
}

TEST_F(Concepts, OneOfAFileIsTheOneOfTheOptions) {
  std::ofstream(folder / "one.toml") << "[[concepts]]\ntarget_class = \"a person\"\npositive_prompt = \"an old person\"\n"
                                        "negative_prompt = \"a young person\"\nanchor_class = \"a dog\"\nanchor_strength = 0.5\n";
  const auto run = kDrawn + "--dtype fp32 --max_steps 3 " + flux();
  train(kAge + "--anchor_class 'a dog' --anchor_strength 0.5 " + run, "options");
  train("--task slider " + option("concept_config", folder / "one.toml") + run, "file");
  EXPECT_TRUE(at::equal(weights("options", 3), weights("file", 3)));
}

TEST_F(Concepts, ResumedAndRecomputedRunsAreTheUnsplitOne) {
  for (const auto& [name, task] :
       {std::pair("slider", kAge + "--anchor_class 'a dog' "), {"erase", kForget + "--denoising_cfg_scale 2 "}}) {
    const auto run = task + kDrawn + "--batch_size 2 --dtype fp32 " + flux();
    train(run + "--max_steps 4 ", std::string(name) + "-whole");
    train(run + "--max_steps 2 ", std::string(name) + "-halves");
    train(run + "--max_steps 4 ", std::string(name) + "-halves", "--resume ");
    train(run + "--max_steps 4 --use_gradient_checkpointing ", std::string(name) + "-again");
    const auto whole = weights(std::string(name) + "-whole", 4);
    EXPECT_TRUE(at::equal(whole, weights(std::string(name) + "-halves", 4))) << name;
    EXPECT_TRUE(at::equal(whole, weights(std::string(name) + "-again", 4))) << name;
  }
}

TEST_F(Concepts, GoWithEveryAdapterThatHasAStrengthAndWithDiscreteTimes) {
  for (const std::string kind : {"lora", "loha", "lokr", "oft", "full"}) {
    auto log = train(kAge + kDrawn + "--max_steps 2 --lora_type " + kind + " " + flux(), kind);
    EXPECT_GT(log.at(1)["grad_norm"].get<double>(), 0) << kind;
  }
  train(kForget + kDrawn + "--lora_type dora --max_steps 1 " + flux(), "dora");
  train(kForget + kDrawn + "--denoising_cfg_scale 3 --max_steps 1 --height 64 --width 64 " + sd_model("sdxl_pipeline"), "sdxl");
  auto plan = run_burnish("plan " + kAge + kDrawn + flux());
  EXPECT_EQ(plan.exit_code, 0) << plan.output;
}

TEST_F(Concepts, SetsAtTheirStrengths) {
  std::ofstream(folder / "sets.toml") << fmt::format(
      "[[datasets]]\nmetadata_file = \"{0}\"\nslider_strength = 1.0\n[[datasets]]\nmetadata_file = \"{0}\"\nslider_strength = -1.0\n",
      (kGolden / "pictures/metadata.csv").string());
  const auto run = kLora + flux() + option("dataset_config", folder / "sets.toml");
  auto log = train(run + "--max_steps 4 --batch_size 2 ", "sets");
  EXPECT_GT(log.back()["grad_norm"].get<double>(), 0);
  auto plain = train(run.substr(0, run.find("--dataset_config")) + data() + "--max_steps 4 --batch_size 2 ", "plain");
  EXPECT_GT((weights("sets", 4) - weights("plain", 4)).abs().max().item<double>(), 1e-6);
  auto dora = run_burnish("train --lora_type dora " + run + option("output_path", folder / "refused"));
  EXPECT_EQ(dora.exit_code, 2) << dora.output;
  EXPECT_THAT(dora.output, HasSubstr("magnitudes of a DoRA"));
}

TEST_F(Concepts, WhatIsRefused) {
  expect_refused(kAge + "--lora_type dora ", "magnitudes of a DoRA have none but 1");
  expect_refused(kForget + "--trainable_models dit ", "train an adapter, or set concept_latents to pictures");
  expect_refused("--task slider --target_class x ", "which prompts tell apart");
  expect_refused("--task erase ", "what the model is to forget");
  expect_refused(kForget + "--concept_latents pictures ", "no data given");
  std::ofstream(folder / "other.toml") << "[[concepts]]\npositive_prompt = \"an old person\"\n";
  const auto other = option("concept_config", folder / "other.toml");
  expect_refused(kForget + other, "positive_prompt of a concept is for task slider");
  std::ofstream(folder / "other.toml") << "[general]\nerase_prompt = \"a dog\"\n";
  expect_refused(kForget + other, "holds no [[concepts]]");
  std::ofstream(folder / "other.toml") << "[[concepts]]\nnum_repeats = 0\n";
  expect_refused(kForget + other, "num_repeats of a concept must be more than 0");
}

TEST_F(Concepts, ARecordedDrawSaysHowFarTheModelDraws) {
  for (const auto& [replay, text] :
       {std::pair{kGolden / "replay.safetensors", "holds no 'drawn_steps' beside a time"},
        {fs::path(golden_path("flux_concepts.safetensors")), "must be a whole number below max_denoising_steps, which is 2"}}) {
    auto out = run_burnish("train " + kForget + kLora + "--max_steps 1 --max_denoising_steps 2 " + flux() + option("replay", replay) +
                           option("output_path", folder / "refused"));
    EXPECT_EQ(out.exit_code, 3) << out.output;
    EXPECT_THAT(out.output, HasSubstr(text));
  }
}

TEST_F(Concepts, ACacheIsOfTheSlidersPrompts) {
  auto made = run_burnish("train --task slider:data_process " + flux() + data() + "--concept_latents pictures " +
                          kAge.substr(kAge.find("--target")) + option("output_path", folder / "cache"));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  auto trained = [&](const std::string& prompts) {
    return run_burnish("train --task slider:train " + flux() + "--concept_latents pictures --overwrite --max_steps 1 " + kLora + prompts +
                       option("dataset_base_path", folder / "cache") + option("output_path", folder / "run"));
  };
  EXPECT_EQ(trained(kAge.substr(kAge.find("--target"))).exit_code, 0);
  auto other = trained("--target_class 'a person' --positive_prompt 'a very old person' --negative_prompt 'a young person' ");
  EXPECT_EQ(other.exit_code, 3) << other.output;
  EXPECT_THAT(other.output, HasSubstr("with another positive_prompt than this run has"));
}
