// Qwen-Image in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_qwen_image.py).
#include "tests/integration/qwen_image.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const std::string kFiles = kQwenImage.string();

io::TensorSource expected_of_qwen_image() { return io::TensorSource::open({kFiles + "/expected.safetensors"}); }

void expect_latents(const std::string& name, const std::string& options) {
  TempFolder folder;
  auto source = expected_of_qwen_image();
  io::save_safetensors(folder / "noise.safetensors", {{"noise", source.tensor("noise")}});
  auto out = run_burnish("sample " + qwen_image_model() +
                         "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' "
                         "--height 48 --width 64 --num_inference_steps 4 --noise " +
                         (folder / "noise.safetensors").string() + " --save_latents " + (folder / "latents.safetensors").string() +
                         " --output_path " + (folder / "out").string() + " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto latents = io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
  EXPECT_LE(relative_error(latents, source.tensor(name)), 1e-4) << name;
  EXPECT_TRUE(fs::exists(folder / "out/0001.png"));
}

void expect_steps(const std::string& name, const std::string& options) {
  TempFolder folder;
  auto out = run_burnish("train " + qwen_image_model() + golden_data() +
                         "--max_steps 10 --learning_rate 1e-3 --loss_weighting uniform --replay '" + kFiles +
                         "/replay.safetensors' --output_path " + (folder / "run").string() + " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto log = read_log(folder / "run");
  auto source = expected_of_qwen_image();
  auto losses = source.tensor(name + ".loss"), norms = source.tensor(name + ".grad_norm");
  ASSERT_EQ(log.size(), 10u);
  for (size_t i = 0; i < log.size(); ++i) {
    auto loss = losses[static_cast<int64_t>(i)].item<double>(), norm = norms[static_cast<int64_t>(i)].item<double>();
    EXPECT_NEAR(log[i]["loss"].get<double>(), loss, 1e-5 * loss) << name << " step " << i;
    EXPECT_NEAR(log[i]["grad_norm"].get<double>(), norm, 1e-4 * norm) << name << " step " << i;
  }
}

const std::string kLora = "--lora_checkpoint '" + kFiles + "/lora.safetensors' ";

}  // namespace

TEST(QwenImageSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(QwenImageSampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
TEST(QwenImageSampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(QwenImageSampleParity, GuidanceFromTheEmptyPrompt) { expect_latents("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(QwenImageSampleParity, WithLora) { expect_latents("latents.lora", "--lora '" + kFiles + "/lora.safetensors'"); }

TEST(QwenImageReplayParity, Lora) { expect_steps("lora", kLora); }
TEST(QwenImageReplayParity, LoraCheckpointed) { expect_steps("lora", kLora + "--use_gradient_checkpointing"); }
TEST(QwenImageReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }
