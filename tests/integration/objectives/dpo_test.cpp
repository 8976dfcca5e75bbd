// Preference optimization beside plain torch with peft (tests/golden/make_dpo.py), in all ways of running it, and what it refuses.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/integration/families/stable_diffusion.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

/// The pictures of the golden pipeline: of each row the next one was liked less.
class Dpo : public testing::Test {
 protected:
  Dpo() {
    std::ofstream metadata(folder / "pairs.csv");
    metadata << "image,rejected_image,prompt\n";
    const char* prompts[] = {"red apple", "\"a cat face, smiling\"", "tree", "red apple"};
    for (int i = 0; i < 4; ++i) metadata << i << ".png," << (i + 1) % 4 << ".png," << prompts[i] << "\n";
  }
  std::string data(const std::string& size = "--height 48 --width 64 ") const {
    return option("dataset_metadata_path", folder / "pairs.csv") + option("dataset_base_path", kGolden / "pictures") + size;
  }
  std::string flux() const { return golden_model() + data(); }
  std::string held_out() {  // names start from the metadata's folder
    for (const char* name : {"0.png", "1.png", "2.png", "3.png"})
      fs::copy_file(kGolden / "pictures" / name, folder / name, fs::copy_options::skip_existing);
    return option("validation_metadata_path", folder / "pairs.csv");
  }
  std::vector<nlohmann::json> train(const std::string& options, const std::string& run) {
    auto out = run_burnish("train " + options + option("output_path", folder / run));
    EXPECT_EQ(out.exit_code, 0) << options << "\n" << out.output;
    return read_log(folder / run);
  }
  void expect_refused(const std::string& options, int code, const char* text) {
    auto out = run_burnish("train --task dpo " + options + option("output_path", folder / "refused"));
    EXPECT_EQ(out.exit_code, code) << options << "\n" << out.output;
    EXPECT_THAT(out.output, HasSubstr(text));
  }
  Scratch folder;
};

const std::string kPairLora = "--lora_rank 2 --learning_rate 1e-3 ";

std::vector<std::string> numbers(const std::vector<nlohmann::json>& log) {
  std::vector<std::string> lines;
  for (const auto& line : log)
    lines.push_back(nlohmann::json{line["loss"], line["grad_norm"], line["margin"], line["implicit_accuracy"]}.dump());
  return lines;
}

}  // namespace

TEST_F(Dpo, EqualsPlainTorch) {
  auto expected = golden("dpo.safetensors");
  auto sd15 = sd_model("sd15_pipeline") + data(sd_size("sd15_pipeline"));
  for (const auto& [name, model, pipeline] : {std::tuple{"flux", flux(), "pipeline"}, {"sd15", sd15, "sd15_pipeline"}}) {
    auto log = train("--task dpo --beta_dpo 50 --learning_rate 1e-3 --max_steps 4 " + model +
                         option("replay", golden_path(std::string(pipeline) + "/replay.safetensors")) +
                         option("lora_checkpoint", golden_path(std::string(pipeline) + "/lora.safetensors")),
                     name);
    ASSERT_EQ(log.size(), 4u);
    for (size_t i = 0; i < log.size(); ++i) {
      auto of = [&](const char* what) { return expected.tensor(std::string(name) + "." + what)[static_cast<int64_t>(i)].item<double>(); };
      EXPECT_NEAR(log[i]["margin"].get<double>(), of("margin"), 2e-5) << name << " step " << i;
      EXPECT_NEAR(log[i]["loss"].get<double>(), of("loss"), 2e-5) << name << " step " << i;
      EXPECT_NEAR(log[i]["grad_norm"].get<double>(), of("grad_norm"), 2e-4 * of("grad_norm")) << name << " step " << i;
      EXPECT_EQ(log[i]["implicit_accuracy"].get<double>(), of("margin") > 0 ? 1 : 0);
      EXPECT_NEAR(log[i]["gradient_weight"].get<double>(), 1 / (1 + std::exp(of("margin"))), 1e-5);
    }
  }
}

TEST_F(Dpo, BeginsAtTheReferenceAndMovesToThePreferred) {
  auto fp8_dora = "--lora_type dora --lora_dropout 0.2 --use_gradient_checkpointing --fp8_models dit --dtype bf16 " + flux();
  auto encoders = "--lora_base_model dit,text_encoder,text_encoder_2 " + flux();
  auto sdxl = sd_model("sdxl_pipeline") + data(sd_size("sdxl_pipeline"));
  for (const auto& options : {fp8_dora, encoders, sdxl}) {
    auto log = train("--overwrite --task dpo --batch_size 2 --max_steps 8 --beta_dpo 500 " + kPairLora + options, "run");
    ASSERT_EQ(log.size(), 8u);
    EXPECT_EQ(log[0]["margin"], 0.0) << options;
    EXPECT_NEAR(log[0]["loss"].get<double>(), std::log(2.0), 1e-7) << options;
    double last = log[6]["margin"].get<double>() + log[7]["margin"].get<double>();
    EXPECT_GT(last, 0) << options;
  }
}

TEST_F(Dpo, SplitStagedAndResumedRunsAreTheUnsplitOne) {
  auto more = "--max_steps 4 --batch_size 2 --random_flip --latents sample " + kPairLora;
  auto whole = train("--task dpo " + flux() + more, "whole");
  auto log = numbers(whole);
  EXPECT_EQ(numbers(train("--task dpo --precompute none " + flux() + more, "live")), log);
  train("--task dpo --max_steps 2 --batch_size 2 --random_flip --latents sample " + kPairLora + flux(), "resumed");
  EXPECT_EQ(numbers(train("--task dpo --resume " + flux() + more, "resumed")), log);
  auto cache =
      run_burnish("train --task dpo:data_process --random_flip --latents sample " + flux() + option("output_path", folder / "cache"));
  ASSERT_EQ(cache.exit_code, 0) << cache.output;
  auto split = "--task dpo:train --max_steps 4 --batch_size 2 --latents sample --dtype fp32 " + kPairLora +
               option("model", kGolden / "model/transformer") + option("dataset_base_path", folder / "cache");
  EXPECT_EQ(numbers(train(split, "split")), log);
}

TEST_F(Dpo, WholeModelsAreComparedWithWhatWasComputedAhead) {
  expect_refused("--trainable_models dit --max_steps 1 " + flux(), 2, "dit trains whole");
  auto options = "--task dpo --trainable_models dit,text_encoder --precompute_timesteps on --learning_rate 1e-5 " + flux() + held_out();
  auto whole = train(options + "--max_steps 4 ", "whole");
  EXPECT_EQ(whole[0]["margin"], 0.0);
  EXPECT_NE(whole[1]["margin"], 0.0);
  auto validation = nlohmann::json::parse(read_file(folder / "whole/validation.json"));
  EXPECT_NEAR(validation["before"].get<double>(), std::log(2.0), 1e-7);
  EXPECT_NE(validation["after"], validation["before"]);
  train(options + "--max_steps 2 ", "resumed");
  EXPECT_EQ(numbers(train(options + "--max_steps 4 --resume ", "resumed")), numbers(whole)) << "the reference is not what was resumed";
}

TEST_F(Dpo, RefusesWhatItCannotHonour) {
  expect_refused(golden_model() + golden_data(), 3, "row 0: the column rejected_image must name the picture");
  expect_refused(flux() + option("validation_metadata_path", kGolden / "pictures/metadata.csv"), 3, "rejected_image");
  expect_refused(flux() + "--loss_type huber ", 2, "dpo compares squared errors");
  expect_refused(flux() + "--loss_weighting diffsynth ", 2, "dpo has no loss weights");
  expect_refused(flux() + "--beta_dpo 0 ", 2, "beta_dpo must be above 0");
  expect_refused(flux() + "--extra_inputs seed ", 2, "is no column that task dpo or a model here reads");
}

TEST_F(Dpo, PairsOfOnePictureAreCounted) {
  fs::copy_file(kGolden / "pictures/0.png", folder / "copy.png");
  std::ofstream(folder / "pairs.csv") << "image,rejected_image,prompt\n0.png,0.png,a\n0.png," << (folder / "copy.png").string()
                                      << ",b\n1.png,2.png,c\n";
  auto out = run_burnish("train --task dpo --max_steps 1 " + flux() + kPairLora + option("output_path", folder / "equal"));
  EXPECT_EQ(out.exit_code, 0) << out.output;
  EXPECT_THAT(out.output, HasSubstr("2 samples have in rejected_image the very picture that is liked more"));
}

TEST_F(Dpo, ThePlanCountsItsPasses) {
  auto out = run_burnish("plan --graph --objective dpo --max_steps 4 " + kPairLora + flux());
  ASSERT_EQ(out.exit_code, 0) << out.output;
  EXPECT_THAT(out.output, HasSubstr("dit.body 4 (2 with gradients)"));
}
