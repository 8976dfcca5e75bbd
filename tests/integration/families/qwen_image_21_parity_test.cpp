// Qwen-Image-2.1 in the whole program beside diffusers and peft: sampled latents and replayed training steps
// (tests/golden/make_qwen_image_21.py).
#include "tests/integration/families/qwen_image_21.h"
#include "tests/integration/parity.h"

namespace burnish::qwen_image_21_parity_test {
using namespace burnish::test;

namespace {

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(
      kQwenImage21, name,
      qwen_image_21_model() +
          "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " + options,
      1e-5, kQwenImage21Size);
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kQwenImage21, name, qwen_image_21_model() + qwen_image_21_data() + "--loss_weighting uniform " + options, 2e-6);
}

const std::string kLoraFile = "'" + (kQwenImage21 / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(QwenImage21SampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(QwenImage21SampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
TEST(QwenImage21SampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(QwenImage21SampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(QwenImage21SampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kLoraFile); }

TEST(QwenImage21ReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(QwenImage21ReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(QwenImage21ReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

}  // namespace burnish::qwen_image_21_parity_test
