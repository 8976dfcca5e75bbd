// Wan in the whole program beside diffusers and peft: sampled latents and replayed training steps on pictures, which are clips of one frame
// (tests/golden/make_wan.py).
#include "tests/integration/parity.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const fs::path kWan = golden_path("wan_pipeline");

std::string wan_model() { return "--model '" + (kWan / "model").string() + "' --dtype fp32 "; }

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(kWan, name, wan_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat' " + options);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kWan, name, wan_model() + "--loss_weighting uniform " + golden_data() + options);
}

const std::string kLoraFile = "'" + (kWan / "lora.safetensors").string() + "' ";

}  // namespace

TEST(WanSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(WanSampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(WanSampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }

TEST(WanReplayParity, Lora) { expect_steps("lora", "--lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, LoraCheckpointed) { expect_steps("lora", "--use_gradient_checkpointing --lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }
