// Stable Diffusion 3.5 in the whole program beside diffusers and peft: sampled latents and replayed training steps
// (tests/golden/make_sd3.py).
#include "tests/integration/families/sd3.h"
#include "tests/integration/parity.h"

namespace burnish::sd3_parity_test {
using namespace burnish::test;

namespace {

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kSd3, name, sd3_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat' " + options, 1e-5);
}
void expect_trained(const std::string& name, const std::string& options) {
  expect_steps(kSd3, name, sd3_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

std::string file_of(const char* name) { return "'" + (kSd3 / name).string() + "' "; }
const std::string kLora = "--lora_checkpoint " + file_of("lora.safetensors"), kDora = "--lora_checkpoint " + file_of("dora.safetensors");

}  // namespace

TEST(Sd3SampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(Sd3SampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
TEST(Sd3SampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(Sd3SampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(Sd3SampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + file_of("lora.safetensors")); }

TEST(Sd3ReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(Sd3ReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(Sd3ReplayParity, Dora) { expect_trained("dora", kDora); }
TEST(Sd3ReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

}  // namespace burnish::sd3_parity_test
