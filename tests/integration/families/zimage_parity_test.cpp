// Z-Image in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_zimage.py).
#include "tests/integration/families/zimage.h"
#include "tests/integration/parity.h"

namespace burnish::zimage_parity_test {
using namespace burnish::test;

namespace {

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(
      kZImage, name,
      zimage_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " +
          options);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kZImage, name, zimage_model() + golden_data() + "--loss_weighting uniform " + options);
}

const std::string kLoraFile = "'" + (kZImage / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(ZImageSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(ZImageSampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
// The pipeline adds guidance_scale times the difference to the prediction, here it is cfg_scale - 1 times.
TEST(ZImageSampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(ZImageSampleParity, GuidanceFromTheEmptyPrompt) { expect_latents("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(ZImageSampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }

TEST(ZImageReplayParity, Lora) { expect_steps("lora", kLora); }
TEST(ZImageReplayParity, LoraCheckpointed) { expect_steps("lora", kLora + "--use_gradient_checkpointing"); }
TEST(ZImageReplayParity, LoraAsInDiffSynthStudio) { expect_diffsynth_losses(kZImage, "zimage", zimage_model() + golden_data() + kLora); }
TEST(ZImageReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }

}  // namespace burnish::zimage_parity_test
