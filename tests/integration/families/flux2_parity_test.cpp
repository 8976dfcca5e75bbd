// FLUX.2 klein in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_flux2.py).
#include "tests/integration/families/flux2.h"
#include "tests/integration/parity.h"

namespace burnish::flux2_parity_test {
using namespace burnish::test;

namespace {

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(
      kFlux2, name,
      flux2_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " +
          options);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kFlux2, name, flux2_model() + "--loss_weighting uniform " + options);
}

const fs::path kReferencePictures = golden_path("references");
const std::string kLoraFile = "'" + (kFlux2 / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

std::string reference(const std::string& name) { return "--reference '" + (kReferencePictures / name).string() + "' "; }

}  // namespace

TEST(Flux2SampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(Flux2SampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
TEST(Flux2SampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(Flux2SampleParity, GuidanceFromTheEmptyPrompt) { expect_latents("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(Flux2SampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }
TEST(Flux2SampleParity, ReferencePictures) { expect_latents("latents.references", reference("a.png") + reference("b.png")); }

TEST(Flux2ReplayParity, Lora) { expect_steps("lora", golden_data() + kLora); }
TEST(Flux2ReplayParity, LoraCheckpointed) { expect_steps("lora", golden_data() + kLora + "--use_gradient_checkpointing"); }
TEST(Flux2ReplayParity, LoraAsInDiffSynthStudio) { expect_diffsynth_losses(kFlux2, "flux2", flux2_model() + golden_data() + kLora); }
TEST(Flux2ReplayParity, Full) { expect_steps("full", golden_data() + "--trainable_models dit"); }

TEST(Flux2ReplayParity, ReferencePictures) {
  Scratch folder;
  write_rows_with_references(folder / "data.jsonl", kReferencePictures);
  const auto how = kLora + "--extra_inputs edit_image --dataset_metadata_path '" + (folder / "data.jsonl").string() + "'";
  expect_steps("references", how);
  expect_diffsynth_losses(kFlux2, "flux2.references", flux2_model() + how);
}

}  // namespace burnish::flux2_parity_test
