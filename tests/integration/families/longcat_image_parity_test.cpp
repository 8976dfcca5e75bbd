// LongCat-Image in the whole program beside diffusers, transformers and peft: sampled latents and replayed training steps
// (tests/golden/make_longcat_image.py).
#include "tests/integration/families/longcat_image.h"
#include "tests/integration/parity.h"

namespace burnish::longcat_image_parity_test {
using namespace burnish::test;

namespace {

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kLongCatImage, name,
                 longcat_image_model() + "--prompt 'red apple' --prompt \"tree of the north, with 'a cat' on it\" " + options, 1e-5);
}
void expect_trained(const std::string& name, const std::string& options) {
  expect_steps(kLongCatImage, name, longcat_image_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

const std::string kAdapter = "'" + (kLongCatImage / "lora.safetensors").string() + "' ";

}  // namespace

TEST(LongCatImageSampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(LongCatImageSampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
TEST(LongCatImageSampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(LongCatImageSampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(LongCatImageSampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kAdapter); }

TEST(LongCatImageReplayParity, Lora) { expect_trained("lora", "--lora_checkpoint " + kAdapter); }
TEST(LongCatImageReplayParity, LoraCheckpointed) {
  expect_trained("lora", "--lora_checkpoint " + kAdapter + "--use_gradient_checkpointing");
}
TEST(LongCatImageReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

}  // namespace burnish::longcat_image_parity_test
