// Boogu-Image in the whole program beside its authors' class, diffusers, transformers and peft: sampled latents and replayed training steps
// (tests/golden/make_boogu.py, make_boogu_edit.py).
#include "tests/integration/families/boogu.h"
#include "tests/integration/parity.h"

namespace burnish::boogu_parity_test {
using namespace burnish::test;

namespace {

const std::string kPrompts =
    "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' ";
const std::string kAdapter = "'" + (kBoogu / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kAdapter;

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kBoogu, name, boogu_model() + kPrompts + options, 1e-5);
}
void expect_trained(const std::string& name, const std::string& options) {
  expect_steps(kBoogu, name, boogu_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

std::string reference(const std::string& name) { return "--reference '" + (kBooguEdit / name).string() + "' "; }
const std::string kTwo = reference("a.png") + reference("b.png");

void expect_changed(const std::string& name, const std::string& options) {
  expect_latents(kBooguEdit, name, boogu_model() + kPrompts + options, 1e-5);
}
void expect_edits_trained(const std::string& name, const std::string& options) {
  expect_steps(kBooguEdit, name, boogu_model() + boogu_edit_data() + "--loss_weighting uniform " + options, 2e-6);
}

}  // namespace

TEST(BooguSampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(BooguSampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
TEST(BooguSampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
// Of the empty prompt the template is that of edits.
TEST(BooguSampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(BooguSampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kAdapter); }

TEST(BooguReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(BooguReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(BooguReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

TEST(BooguEditSampleParity, OnePicture) { expect_changed("latents.one", reference("a.png")); }
TEST(BooguEditSampleParity, TwoPictures) { expect_changed("latents.two", kTwo); }
// The empty text sees no pictures, and the transformer does.
TEST(BooguEditSampleParity, TwoPicturesGuidedFromTheEmptyPrompt) { expect_changed("latents.cfg", kTwo + "--cfg_scale 2.5"); }
TEST(BooguEditSampleParity, OneAtATime) { expect_changed("latents.cfg", kTwo + "--cfg_scale 2.5 --batch_size 1"); }
TEST(BooguEditSampleParity, APictureOfOtherSides) { expect_changed("latents.scaled", reference("c.png")); }

TEST(BooguEditReplayParity, Lora) { expect_edits_trained("lora", kLora); }
TEST(BooguEditReplayParity, FullCheckpointed) { expect_edits_trained("full", "--trainable_models dit --use_gradient_checkpointing"); }

}  // namespace burnish::boogu_parity_test
