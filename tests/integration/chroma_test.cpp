// Chroma in the whole program: beside diffusers and peft (tests/golden/make_chroma.py), and in all ways of running it.
#include <gmock/gmock.h>

#include "tests/integration/chroma.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kChroma, name, chroma_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat' " + options);
}
void expect_trained(const std::string& name, const std::string& options) {
  expect_steps(kChroma, name, chroma_model() + golden_data() + "--loss_weighting uniform " + options);
}

const std::string kAdapterFile = quoted(kChroma / "lora.safetensors") + " ";
const std::string kSmallLora = "--learning_rate 1e-3 --lora_rank 4 --max_steps 4 ";

class ChromaRun : public BadInput {
 protected:
  std::string run(const std::string& arguments) const {
    auto out = run_burnish(arguments);
    EXPECT_EQ(out.exit_code, 0) << arguments << "\n" << out.output;
    return out.output;
  }
  std::string train(const std::string& options, const std::string& to) const {
    return run("train " + chroma_model() + golden_data() + options + "--output_path " + quoted(at(to)));
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (auto& line : read_log(at(name))) values.push_back(line["loss"]);
    EXPECT_FALSE(values.empty()) << name;
    return values;
  }
};

}  // namespace

TEST(ChromaSampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(ChromaSampleParity, InABatch) { expect_drawn("latents.plain", "--batch_size 2"); }
TEST(ChromaSampleParity, Guided) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5 --batch_size 2"); }
TEST(ChromaSampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kAdapterFile); }
TEST(ChromaReplayParity, Lora) { expect_trained("lora", "--lora_checkpoint " + kAdapterFile); }
TEST(ChromaReplayParity, LoraCheckpointed) { expect_trained("lora", "--use_gradient_checkpointing --lora_checkpoint " + kAdapterFile); }
TEST(ChromaReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

TEST_F(ChromaRun, GivesTheSameLossesInAllWaysOfRunning) {
  train(kSmallLora + "--precompute none --precompute_timesteps off ", "live");
  train(kSmallLora, "kept");
  train(kSmallLora + "--precompute_timesteps on ", "ahead");
  train("--task sft:data_process ", "cache");
  run("train " + chroma_model() + kSmallLora + "--task sft:train --dataset_base_path " + quoted(at("cache")) + " --output_path " +
      quoted(at("split")));
  for (const char* other : {"kept", "ahead", "split"}) EXPECT_EQ(losses("live"), losses(other)) << other;
}

TEST_F(ChromaRun, ABatchIsItsSamples) {
  train(kSmallLora + "--batch_size 2 ", "batch");
  train(kSmallLora + "--gradient_accumulation_steps 2 ", "singles");
  auto batch = losses("batch"), singles = losses("singles");
  ASSERT_EQ(batch.size(), singles.size());
  for (size_t i = 0; i < batch.size(); ++i) EXPECT_NEAR(batch[i], singles[i], 1e-5 * singles[i]) << i;
}

TEST_F(ChromaRun, ASingleFileInOriginalNamesIsTheSameModel) {
  run("convert --model " + quoted(kChroma / "model/transformer") + " " + quoted(at("single.safetensors")));
  auto drawn = [&](const std::string& model, const std::string& name) {
    run("sample " + model + "--dtype fp32 --prompt 'red apple' --height 48 --width 64 --num_inference_steps 2 --save_latents " +
        quoted(at(name)) +
        " --output_path " + quoted(at("pictures")));
    return io::SafetensorsFile::open(at(name))->tensor("latents").clone();
  };
  auto folder = drawn("--model " + quoted(kChroma / "model") + " ", "folder.safetensors");
  auto single =
      drawn("--model " + quoted(at("single.safetensors")) + " --model " + quoted(kChroma / "model") + " ", "single_latents.safetensors");
  EXPECT_TRUE(at::equal(folder, single));
  EXPECT_THAT(run("inspect " + quoted(at("single.safetensors"))), HasSubstr("Chroma transformer (2 double and 2 single blocks, width 32"));
}

TEST_F(ChromaRun, WeightsInFp8AndThePlanOfTheWholeModel) {
  EXPECT_THAT(train(kSmallLora + "--fp8_models dit ", "fp8"), HasSubstr("dit"));
  auto plan =
      run_burnish("plan --json --num_threads 1 --model chroma --height 512 --width 512 --max_steps 10 --lora_rank 4", "BURNISH_LOG=error");
  EXPECT_EQ(plan.exit_code, 0) << plan.output;
}
