// Qwen-Image in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_qwen_image.py).
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/parity.h"

namespace burnish::qwen_image_parity_test {
using namespace burnish::test;

namespace {

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(
      kQwenImage, name,
      qwen_image_model() +
          "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " + options);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kQwenImage, name, qwen_image_model() + golden_data() + "--loss_weighting uniform " + options);
}

const std::string kLoraFile = "'" + (kQwenImage / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(QwenImageSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(QwenImageSampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
TEST(QwenImageSampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(QwenImageSampleParity, GuidanceFromTheEmptyPrompt) { expect_latents("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(QwenImageSampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }

TEST(QwenImageReplayParity, Lora) { expect_steps("lora", kLora); }
TEST(QwenImageReplayParity, LoraCheckpointed) { expect_steps("lora", kLora + "--use_gradient_checkpointing"); }
TEST(QwenImageReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }

}  // namespace burnish::qwen_image_parity_test
