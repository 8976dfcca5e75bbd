// The whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_pipeline.py).
#include "tests/integration/parity.h"

namespace burnish::parity_test {
using namespace burnish::test;

namespace {

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(kGolden, name,
                       golden_model() + "--prompt 'red apple' --prompt 'tree of the north' --embedded_guidance 3.5 " + options);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kGolden, name, golden_model() + golden_data() + options);
}

const std::string kLora = "--lora_checkpoint '" + (kGolden / "lora.safetensors").string() + "' ";
const std::string kDora = "--lora_checkpoint '" + (kGolden / "dora.safetensors").string() + "' ";

}  // namespace

TEST(SampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(SampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
TEST(SampleParity, TrueGuidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(SampleParity, WithLora) { expect_latents("latents.lora", "--lora '" + (kGolden / "lora.safetensors").string() + "'"); }

TEST(ReplayParity, Lora) { expect_steps("lora", kLora + "--loss_weighting uniform"); }
TEST(ReplayParity, LoraCheckpointed) { expect_steps("lora", kLora + "--loss_weighting uniform --use_gradient_checkpointing"); }
TEST(ReplayParity, LoraWithDiffSynthWeights) { expect_steps("lora_diffsynth", kLora); }
TEST(ReplayParity, Dora) { expect_steps("dora", kDora + "--loss_weighting uniform"); }
TEST(ReplayParity, DoraCheckpointed) { expect_steps("dora", kDora + "--loss_weighting uniform --use_gradient_checkpointing"); }
TEST(ReplayParity, Full) { expect_steps("full", "--trainable_models dit --loss_weighting uniform"); }

}  // namespace burnish::parity_test
