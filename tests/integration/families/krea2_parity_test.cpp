// Krea 2 in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_krea2.py).
#include "tests/integration/families/krea2.h"
#include "tests/integration/parity.h"

namespace burnish::krea2_parity_test {
using namespace burnish::test;

namespace {

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(
      kKrea2, name,
      krea2_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " +
          options,
      1e-5);
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kKrea2, name, krea2_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

const std::string kLoraFile = "'" + (kKrea2 / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(Krea2SampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(Krea2SampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
// The pipeline adds guidance_scale times the difference to the prediction, here it is cfg_scale - 1 times.
TEST(Krea2SampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(Krea2SampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(Krea2SampleParity, AsTurboDraws) { expect_drawn("latents.turbo", "--is_distilled"); }
// What ends the conversation is read of a text that is cut, too.
TEST(Krea2SampleParity, OfTextsThatAreCut) { expect_drawn("latents.cut", "--max_sequence_length 20"); }
TEST(Krea2SampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kLoraFile); }

TEST(Krea2ReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(Krea2ReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(Krea2ReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

}  // namespace burnish::krea2_parity_test
