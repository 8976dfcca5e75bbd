// LTX-2 in the whole program beside diffusers and peft: sampled latents and replayed training steps of stills (tests/golden/make_ltx2.py).
#include "tests/integration/families/ltx2.h"
#include "tests/integration/parity.h"

namespace burnish::ltx2_parity_test {
using namespace burnish::test;

namespace {

const std::string kPrompts =
    "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' ";

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(kLtx2, name, ltx2_model() + options, 1e-5, kLtx2Size);
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kLtx2, name, ltx2_model() + ltx2_data() + options, 2e-6);
}

const std::string kLoraFile = "'" + (kLtx2 / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(Ltx2SampleParity, FourSteps) { expect_drawn("latents.plain", kPrompts); }
TEST(Ltx2SampleParity, OneAtATime) { expect_drawn("latents.plain", kPrompts + "--batch_size 1"); }
TEST(Ltx2SampleParity, WithLora) { expect_drawn("latents.lora", kPrompts + "--lora " + kLoraFile); }
// Without a text guidance leads away from the token that begins one.
TEST(Ltx2SampleParity, Guidance) { expect_drawn("latents.cfg", kPrompts + "--cfg_scale 2.5"); }

TEST(Ltx2ReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(Ltx2ReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(Ltx2ReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

}  // namespace burnish::ltx2_parity_test
