// MiniMax-H3 in the whole program beside diffusers and peft: sampled latents and replayed training steps of stills
// (tests/golden/make_minimax_h3.py).
#include "tests/integration/families/minimax_h3.h"
#include "tests/integration/parity.h"

namespace burnish::minimax_h3_parity_test {
using namespace burnish::test;

namespace {

const std::string kPrompts =
    "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' ";
const std::string kSilent = "--sound_of_stills none ";

// What is drawn with tokens of sound begins with noise of its own, which diffusers does not draw.
void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(kMiniMaxH3, name, minimax_h3_model() + kSilent + options, 1e-5, kMiniMaxH3Size);
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kMiniMaxH3, name, minimax_h3_model() + minimax_h3_data() + options, 2e-6);
}

const std::string kLoraFile = "'" + (kMiniMaxH3 / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(MiniMaxH3SampleParity, FourSteps) { expect_drawn("latents.plain", kPrompts); }
TEST(MiniMaxH3SampleParity, OneAtATime) { expect_drawn("latents.plain", kPrompts + "--batch_size 1"); }
TEST(MiniMaxH3SampleParity, WithLora) { expect_drawn("latents.lora", kPrompts + "--lora " + kLoraFile); }
// Without a text guidance leads away from a single space.
TEST(MiniMaxH3SampleParity, Guidance) { expect_drawn("latents.cfg", kPrompts + "--cfg_scale 2.5"); }
TEST(MiniMaxH3SampleParity, AnEmptyPromptIsASpace) { expect_drawn("latents.space", "--prompt '' --prompt 'red apple'"); }

TEST(MiniMaxH3ReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(MiniMaxH3ReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(MiniMaxH3ReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }
TEST(MiniMaxH3ReplayParity, WithoutTokensOfSound) { expect_trained("silent", kLora + kSilent); }

}  // namespace burnish::minimax_h3_parity_test
