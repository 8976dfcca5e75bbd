// FLUX.3 klein in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_flux3.py).
#include "tests/integration/families/flux3.h"
#include "tests/integration/parity.h"

namespace burnish::flux3_parity_test {
using namespace burnish::test;

namespace {

const std::string kPrompts =
    "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it, and a tree behind "
    "it, "
    "and a red cat face, and a smiling apple' ";

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(kFlux3, name, flux3_model() + kPrompts + options, 1e-5);
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kFlux3, name, flux3_model() + "--loss_weighting uniform " + options, 2e-6);
}

const fs::path kReferencePictures = golden_path("references");
const std::string kLoraFile = "'" + (kFlux3 / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

std::string reference(const std::string& name) { return "--reference '" + (kReferencePictures / name).string() + "' "; }

}  // namespace

// The first text has a window of 80 tokens, the second one two.
TEST(Flux3SampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(Flux3SampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
TEST(Flux3SampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(Flux3SampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(Flux3SampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kLoraFile); }
TEST(Flux3SampleParity, ReferencePictures) { expect_drawn("latents.references", reference("a.png") + reference("b.png")); }

// Each step of the distilled model is told where it leads.
TEST(Flux3SampleParity, Distilled) {
  Scratch folder;
  test::expect_latents(kFlux3, "latents.distilled", flux3_model(make_distilled(folder / "model")) + kPrompts, 1e-5);
}

TEST(Flux3ReplayParity, Lora) { expect_trained("lora", golden_data() + kLora); }
TEST(Flux3ReplayParity, LoraCheckpointed) { expect_trained("lora", golden_data() + kLora + "--use_gradient_checkpointing"); }
TEST(Flux3ReplayParity, Full) { expect_trained("full", golden_data() + "--trainable_models dit"); }

TEST(Flux3ReplayParity, DistilledTrainsWhereStepsLeadToTheirOwnTime) {
  Scratch folder;
  test::expect_steps(kFlux3, "distilled",
                     flux3_model(make_distilled(folder / "model")) + golden_data() + "--loss_weighting uniform " + kLora, 2e-6);
}

// A LoRA that keeps the distilled model's way while others train is a preset; what trains beside it begins at zero.
TEST(Flux3ReplayParity, AnAssistantIsAPreset) {
  Scratch folder;
  auto log = replayed(kFlux3, flux3_model(make_distilled(folder / "model")) + golden_data() +
                                  "--loss_weighting uniform --lora_rank 4 --preset_lora_path " + kLoraFile);
  const auto expected = expected_in(kFlux3).tensor("distilled.loss")[0].item<double>();
  EXPECT_NEAR(log.at(0)["loss"].get<double>(), expected, tolerance(2e-6) * expected);
}

TEST(Flux3ReplayParity, ReferencePictures) {
  Scratch folder;
  write_rows_with_references(folder / "data.jsonl", kReferencePictures);
  expect_trained("references", kLora + "--extra_inputs edit_image --dataset_metadata_path '" + (folder / "data.jsonl").string() + "'");
}

}  // namespace burnish::flux3_parity_test
