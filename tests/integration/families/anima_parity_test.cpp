// Anima in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_anima.py).
#include "tests/integration/families/anima.h"
#include "tests/integration/parity.h"

namespace burnish::anima_parity_test {
using namespace burnish::test;

namespace {

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(
      kAnima, name,
      anima_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " +
          options,
      1e-5);
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kAnima, name, anima_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

std::string file(const char* name) { return "'" + (kAnima / name).string() + "' "; }

const std::string kLora = "--lora_checkpoint " + file("lora.safetensors"), kBoth = "--lora_checkpoint " + file("both.safetensors");

}  // namespace

TEST(AnimaSampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(AnimaSampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
TEST(AnimaSampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
// Of the empty prompt the text encoder has no token, and T5 its end.
TEST(AnimaSampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(AnimaSampleParity, OfTextsThatAreCut) { expect_drawn("latents.cut", "--max_sequence_length 8"); }
TEST(AnimaSampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + file("lora.safetensors")); }
TEST(AnimaSampleParity, WithLoraOfTheConditionerToo) { expect_drawn("latents.both", "--lora " + file("both.safetensors")); }

TEST(AnimaReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(AnimaReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(AnimaReplayParity, LoraOfTheConditionerToo) { expect_trained("both", kBoth); }
TEST(AnimaReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

}  // namespace burnish::anima_parity_test
