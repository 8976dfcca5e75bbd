// ERNIE-Image in the whole program beside diffusers and peft: sampled latents and replayed training steps
// (tests/golden/make_ernie_image.py).
#include "tests/integration/families/ernie_image.h"
#include "tests/integration/parity.h"

namespace burnish::ernie_image_parity_test {
using namespace burnish::test;

namespace {

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(
      kErnieImage, name,
      ernie_image_model() +
          "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " + options,
      1e-5);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kErnieImage, name, ernie_image_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

const std::string kLoraFile = "'" + (kErnieImage / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(ErnieImageSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(ErnieImageSampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
TEST(ErnieImageSampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(ErnieImageSampleParity, GuidanceFromTheEmptyPrompt) { expect_latents("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(ErnieImageSampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }

TEST(ErnieImageReplayParity, Lora) { expect_steps("lora", kLora); }
TEST(ErnieImageReplayParity, LoraCheckpointed) { expect_steps("lora", kLora + "--use_gradient_checkpointing"); }
TEST(ErnieImageReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }

}  // namespace burnish::ernie_image_parity_test
