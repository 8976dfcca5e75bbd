// FLUX.2 dev in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_flux2_dev.py),
// and what it has beside FLUX.2 klein: an embedded guidance, Mistral's encoder in a single file.
#include "tests/integration/families/flux2_dev.h"

#include <gmock/gmock.h>

#include "data/image.h"
#include "models/families/flux2/keys.h"
#include "tests/integration/families/flux2.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"

namespace burnish::flux2_dev_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(
      kFlux2Dev, name,
      flux2_dev_model() +
          "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " + options,
      1e-5);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kFlux2Dev, name, flux2_dev_model() + "--loss_weighting uniform " + options, 2e-6);
}

const fs::path kReferencePictures = golden_path("references");
const std::string kLoraFile = "'" + (kFlux2Dev / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

std::string reference(const std::string& name) { return "--reference '" + (kReferencePictures / name).string() + "' "; }

class Flux2DevRun : public ModelRun {
 protected:
  Flux2DevRun() : ModelRun(flux2_dev_model()) {}
  io::TensorSource weights(const char* folder, const char* stem) const {
    return io::TensorSource::open_folder(kFlux2Dev / "model" / folder, {stem});
  }
};

}  // namespace

TEST(Flux2DevSampleParity, FourStepsAtAGuidanceOfFour) { expect_latents("latents.plain", ""); }
TEST(Flux2DevSampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1 --embedded_guidance 4"); }
TEST(Flux2DevSampleParity, Guidance) { expect_latents("latents.guided", "--embedded_guidance 2.5"); }
TEST(Flux2DevSampleParity, ToldInOneLineAsDiffSynthStudioHasIt) { expect_latents("latents.in_one_line", "--system_text in_one_line"); }
TEST(Flux2DevSampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }
TEST(Flux2DevSampleParity, ReferencePictures) { expect_latents("latents.references", reference("a.png") + reference("b.png")); }

TEST(Flux2DevReplayParity, Lora) { expect_steps("lora", golden_data() + kLora); }
TEST(Flux2DevReplayParity, LoraCheckpointed) { expect_steps("lora", golden_data() + kLora + "--use_gradient_checkpointing"); }
TEST(Flux2DevReplayParity, Full) { expect_steps("full", golden_data() + "--trainable_models dit"); }

TEST(Flux2DevReplayParity, ReferencePictures) {
  Scratch folder;
  write_rows_with_references(folder / "data.jsonl", kReferencePictures);
  expect_steps("references", kLora + "--extra_inputs edit_image --dataset_metadata_path '" + (folder / "data.jsonl").string() + "'");
}

/// What is asked for is drawn with, also where it is what another family draws with by itself; and the pictures say it.
TEST_F(Flux2DevRun, GuidanceThatIsAskedForIsDrawnWith) {
  auto told = [&] { return data::read_png_text(at("pictures") / "0000.png").at("embedded_guidance"); };
  const auto by_itself = latents(flux2_dev_model(), "");
  EXPECT_EQ(told(), "4");
  EXPECT_TRUE(at::equal(latents(flux2_dev_model(), "--embedded_guidance 4"), by_itself));
  EXPECT_GT(relative_error(latents(flux2_dev_model(), "--embedded_guidance 3.5"), by_itself), 1e-4);
  EXPECT_EQ(told(), "3.5");
  EXPECT_GT(relative_error(latents(flux2_dev_model(), "--embedded_guidance 1"), by_itself), 1e-4);
}

TEST_F(Flux2DevRun, KleinEmbedsNoGuidanceAndIsToldNothing) {
  auto refused = [&](const std::string& option, const std::string& words) {
    auto refusal = run_burnish("sample " + flux2_model() + "--prompt cat " + option + " --output_path " + quoted(out()));
    EXPECT_EQ(refusal.exit_code, 2);
    EXPECT_THAT(refusal.output, HasSubstr(words));
  };
  refused("--embedded_guidance 4", "embedded_guidance is not supported for this model; it embeds no guidance: take it out");
  refused("--system_text in_one_line", "system_text is not supported for this model; it is of FLUX.2 dev, leave it out");
}

TEST_F(Flux2DevRun, PromptsAreEncodedAnewForAnotherSystemText) {
  const auto cached = "--lora_rank 4 --overwrite --cache_path " + quoted(at("cache")) + " ";
  train("by_lines", cached);
  EXPECT_THAT(train("in_one_line", cached + "--system_text in_one_line"), HasSubstr("encode_prompt: 4 of 4 results to compute"));
  EXPECT_NE(of_log("by_lines", "loss"), of_log("in_one_line", "loss"));
  EXPECT_THAT(train("by_lines", cached), HasSubstr("encode_prompt: 0 of 4 results to compute"));
}

TEST_F(Flux2DevRun, TheModulationLeavesMemoryAndKnowsItsGuidance) {
  const auto cached = "--lora_rank 4 --cache_path " + quoted(at("cache")) + " --overwrite ";
  for (const std::string guidance : {"", "--embedded_guidance 3 "}) {
    train("live", cached + guidance + "--precompute_timesteps off");
    auto ahead = train("ahead", cached + guidance + "--precompute_timesteps on");
    EXPECT_THAT(ahead, HasSubstr("in memory while training: dit.body, "));
    expect_same("live", "ahead");
  }
  for (const std::string layers : {"transformer_blocks\\.1\\.attn\\.to_q", "proj_out"}) {
    auto trained = cached + "--lora_target_modules '" + layers + "' ";
    train("live", trained + "--precompute_timesteps off");
    EXPECT_THAT(train("ahead", trained + "--precompute_timesteps blocks"), HasSubstr("in memory while training: dit.last_blocks, "));
    expect_same("live", "ahead");
  }
}

TEST_F(Flux2DevRun, ASingleFileInOriginalNamesIsTheSameModel) {
  io::NamedTensors all, ours;
  auto transformer = weights("transformer", "diffusion_pytorch_model"), text = weights("text_encoder", "model");
  for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
  for (auto& [name, tensor] : models::flux2::original_keys().to_file(ours)) all.emplace_back("model.diffusion_model." + name, tensor);
  // As ComfyUI has it: the layers that are read, and beside them what sees and the vocabulary.
  const std::string theirs = "language_model.model.", comfyui = "text_encoders.mistral3_24b.transformer.";
  for (const auto& name : text.names()) {
    const bool is_cut = name.find(".layers.30.") != name.npos || name == theirs + "norm.weight";
    if (name.starts_with(theirs) && !is_cut) all.emplace_back(comfyui + "model." + name.substr(theirs.size()), text.tensor(name));
    if (name.starts_with("vision_tower.")) all.emplace_back(comfyui + name, text.tensor(name));
  }
  all.emplace_back(comfyui + "tekken_model", at::zeros({5}, at::kByte));
  io::save_safetensors(at("single.safetensors"), all);
  // The norm groups of the small autoencoder are in its config.json alone.
  auto single = "--model " + quoted(at("single.safetensors")) + " --model " + quoted(kFlux2Dev / "model/vae") + " --tokenizer_path " +
                quoted(kFlux2Dev / "model/tokenizer") + " --dtype fp32 ";
  EXPECT_LE(relative_error(latents(single, ""), latents(flux2_dev_model(), "")), tolerance(1e-5));
  EXPECT_THAT(run_ok("inspect " + quoted(at("single.safetensors"))),
              HasSubstr("FLUX.2 dev transformer (2 double and 2 single blocks, width 32, original names) + Mistral text encoder"));
}

TEST_F(Flux2DevRun, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kFlux2Dev / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("FLUX.2-dev"));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(flux2_dev_model(at("back")), ""), latents(flux2_dev_model(), "")));
}

TEST_F(Flux2DevRun, AdaptersOfOtherProgramsAreTheSame) {
  run_ok("train " + flux2_dev_model() + golden_data() +
         "--learning_rate 1e-2 --max_steps 2 --lora_rank 4 --lora_target_modules "
         "'to_q,guidance_embedder.linear_1,norm_out.linear' --output_path " +
         quoted(at("run")));
  const auto from = at("run") / "step-2.safetensors";
  const auto expected = latents(flux2_dev_model(), "--lora " + quoted(from));
  EXPECT_GT(relative_error(latents(flux2_dev_model(), ""), expected), 1e-4);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_guidance_in_in_layer.lora_down.weight"),
                                    {"comfyui", "diffusion_model.guidance_in.in_layer.lora_A.weight"},
                                    {"diffusers", "transformer.time_guidance_embed.guidance_embedder.linear_1.lora_A.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + quoted(from) + " " + quoted(file) + " --lora_format " + format + " --model " + quoted(kFlux2Dev / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(flux2_dev_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

/// A stage that encodes needs no transformer: Mistral-Small's encoder has more layers than the one of ERNIE-Image.
TEST_F(Flux2DevRun, TextsAreEncodedWithoutTheTransformer) {
  std::string parts = "--tokenizer_path " + quoted(kFlux2Dev / "model/tokenizer") + " --dtype fp32 ";
  for (const char* part : {"text_encoder", "vae"}) parts += "--model " + quoted(kFlux2Dev / "model" / part) + " ";
  train("whole", "--lora_rank 4");
  run_ok("train " + parts + golden_data() + "--lora_rank 4 --task sft:data_process --output_path " + quoted(at("cached")));
  run_ok("train --model " + quoted(kFlux2Dev / "model/transformer") +
         " --dtype fp32 --learning_rate 1e-3 --max_steps 3 --dataset_base_path " + quoted(at("cached")) +
         " --lora_rank 4 --task sft:train --output_path " + quoted(at("split")));
  expect_same("whole", "split");
}

TEST_F(Flux2DevRun, KleinsTextEncoderIsRefused) {
  std::string parts = "--tokenizer_path " + quoted(kFlux2Dev / "model/tokenizer") + " ";
  for (const auto& part : {kFlux2Dev / "model/transformer", kFlux2 / "model/text_encoder", kFlux2Dev / "model/vae"})
    parts += "--model " + quoted(part) + " ";
  refused(3, "train " + parts + golden_data() + "--lora_rank 2 --output_path " + quoted(out()),
          {"the transformer takes texts of width 24 and the text encoder makes 48"});
}

}  // namespace burnish::flux2_dev_test
