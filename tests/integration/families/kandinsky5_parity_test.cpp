// Kandinsky 5 in the whole program beside diffusers, transformers and peft: sampled latents and replayed training steps
// (tests/golden/make_kandinsky5.py).
#include "tests/integration/families/kandinsky5.h"
#include "tests/integration/parity.h"

namespace burnish::kandinsky5_parity_test {
using namespace burnish::test;

namespace {

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kKandinsky5, name,
                 kandinsky5_model() +
                     "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " +
                     options,
                 1e-5);
}
void expect_trained(const std::string& name, const std::string& options) {
  expect_steps(kKandinsky5, name, kandinsky5_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

const std::string kAdapter = "'" + (kKandinsky5 / "lora.safetensors").string() + "' ";

}  // namespace

TEST(Kandinsky5SampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(Kandinsky5SampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
TEST(Kandinsky5SampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(Kandinsky5SampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(Kandinsky5SampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kAdapter); }

TEST(Kandinsky5ReplayParity, Lora) { expect_trained("lora", "--lora_checkpoint " + kAdapter); }
TEST(Kandinsky5ReplayParity, LoraCheckpointed) { expect_trained("lora", "--lora_checkpoint " + kAdapter + "--use_gradient_checkpointing"); }
TEST(Kandinsky5ReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

}  // namespace burnish::kandinsky5_parity_test
