// Ideogram 4 in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_ideogram4.py).
#include "tests/integration/families/ideogram4.h"
#include "tests/integration/parity.h"

namespace burnish::ideogram4_parity_test {
using namespace burnish::test;

namespace {

const std::string kPrompts =
    "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' ";
const std::string kJson =
    R"({"high_level_description":"a red apple","compositional_deconstruction":{"background":"tree","elements":[{"type":"obj","desc":"a cat -- smiling --w"}]}})";

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(kIdeogram4, name, ideogram4_model() + options, 1e-5);
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kIdeogram4, name, ideogram4_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

const std::string kLoraFile = "'" + (kIdeogram4 / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(Ideogram4SampleParity, FourSteps) { expect_drawn("latents.plain", kPrompts); }
TEST(Ideogram4SampleParity, OneAtATime) { expect_drawn("latents.plain", kPrompts + "--batch_size 1"); }
// Guidance leads away from what the other transformer draws without a text.
TEST(Ideogram4SampleParity, Guidance) { expect_drawn("latents.cfg", kPrompts + "--cfg_scale 2.5"); }
TEST(Ideogram4SampleParity, GuidanceIsWeakerAtTheLastStep) { expect_drawn("latents.schedule", kPrompts + "--cfg_scale 7"); }
TEST(Ideogram4SampleParity, WithLora) { expect_drawn("latents.lora", kPrompts + "--lora " + kLoraFile); }
TEST(Ideogram4SampleParity, ACaptionThatIsJson) { expect_drawn("latents.json", "--prompt '" + kJson + "' --prompt 'red apple'"); }

// A line of a prompt file that is JSON may hold what looks like a flag.
TEST(Ideogram4SampleParity, ACaptionThatIsJsonInAFile) {
  Scratch folder;
  std::ofstream(folder / "prompts.txt") << kJson << " --s 4\nred apple\n";
  expect_drawn("latents.json", "--prompts '" + (folder / "prompts.txt").string() + "'");
}

TEST(Ideogram4ReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(Ideogram4ReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(Ideogram4ReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

}  // namespace burnish::ideogram4_parity_test
