// MOSS-Image in the whole program beside DiffSynth-Studio and peft: sampled latents and replayed training steps
// (tests/golden/make_moss_image.py).
#include "tests/integration/families/moss_image.h"
#include "tests/integration/parity.h"

namespace burnish::moss_image_parity_test {
using namespace burnish::test;

namespace {

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(
      kMossImage, name,
      moss_image_model() +
          "--prompt ' red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it\n' " + options,
      1e-5);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kMossImage, name, moss_image_model() + "--loss_weighting uniform " + options, 2e-6);
}

const fs::path kReferencePictures = golden_path("references");
const std::string kLoraFile = "'" + (kMossImage / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;
const std::string kAllBlocks = "--uncond_skip_layer -1 ";

std::string reference(const std::string& name) { return "--reference '" + (kReferencePictures / name).string() + "' "; }

}  // namespace

TEST(MossImageSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(MossImageSampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
TEST(MossImageSampleParity, Guidance) { expect_latents("latents.cfg", kAllBlocks + "--negative_prompt cat --cfg_scale 2.5"); }
TEST(MossImageSampleParity, GuidanceFromTheEmptyPrompt) { expect_latents("latents.cfg_empty", kAllBlocks + "--cfg_scale 2.5"); }
TEST(MossImageSampleParity, GuidanceFromFewerBlocks) {
  expect_latents("latents.skipped", "--uncond_skip_layer 1 --negative_prompt cat --cfg_scale 2.5");
}
TEST(MossImageSampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }
TEST(MossImageSampleParity, ReferencePictures) { expect_latents("latents.references", reference("a.png") + reference("b.png")); }

TEST(MossImageReplayParity, Lora) { expect_steps("lora", golden_data() + kLora); }
TEST(MossImageReplayParity, LoraCheckpointed) { expect_steps("lora", golden_data() + kLora + "--use_gradient_checkpointing"); }
TEST(MossImageReplayParity, Full) { expect_steps("full", golden_data() + "--trainable_models dit"); }

TEST(MossImageReplayParity, ReferencePictures) {
  Scratch folder;
  write_rows_with_references(folder / "data.jsonl", kReferencePictures);
  expect_steps("references", kLora + "--extra_inputs edit_image --dataset_metadata_path '" + (folder / "data.jsonl").string() + "'");
}

}  // namespace burnish::moss_image_parity_test
