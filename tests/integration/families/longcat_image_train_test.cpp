// What of LongCat-Image other families have not: names of other programs' adapters, single files, whose text encoder it is.
#include <gmock/gmock.h>

#include "models/families/longcat_image/keys.h"
#include "tests/integration/families/longcat_image.h"
#include "tests/integration/model_run.h"

namespace burnish::longcat_image_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kAdapterFile = quoted(kLongCatImage / "lora.safetensors") + " ";

class LongCatImageRun : public ModelRun {
 protected:
  LongCatImageRun() : ModelRun(longcat_image_model()) {}
};

}  // namespace

TEST_F(LongCatImageRun, AdaptersOfEveryProgramAreTheSame) {
  const auto expected = latents(longcat_image_model(), "--lora " + kAdapterFile);
  EXPECT_GT(relative_error(latents(longcat_image_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("diffusers", "transformer.single_transformer_blocks.1.proj_mlp.lora_A.weight"),
                                    {"kohya", "lora_unet_double_blocks_1_img_attn_qkv.lora_down.weight"},
                                    {"comfyui", "diffusion_model.single_blocks.2.linear1.lora_A.weight"},
                                    {"onetrainer", "lora_transformer_transformer_blocks_0_attn_add_q_proj.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapterFile + quoted(file) + " --lora_format " + format + " --model " + quoted(kLongCatImage / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(longcat_image_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

/// The layer that modulates the last norm has its halves in the other order in original names.
TEST_F(LongCatImageRun, AnAdapterOfTheLastModulationIsOurs) {
  at::manual_seed(3);
  const auto down = at::randn({4, 32}) * 0.1, up = at::randn({64, 4}) * 0.1;
  const auto halves = up.chunk(2);
  io::save_safetensors(at("theirs.safetensors"), {{"diffusion_model.final_layer.adaLN_modulation.1.lora_A.weight", down},
                                                  {"diffusion_model.final_layer.adaLN_modulation.1.lora_B.weight", up}});
  io::save_safetensors(at("ours.safetensors"), {{"transformer.norm_out.linear.lora_A.weight", down.clone()},
                                                {"transformer.norm_out.linear.lora_B.weight", at::cat({halves[1], halves[0]})}});
  const auto expected = latents(longcat_image_model(), "--lora " + quoted(at("ours.safetensors")));
  EXPECT_LE(relative_error(latents(longcat_image_model(), "--lora " + quoted(at("theirs.safetensors"))), expected), 1e-6);
  EXPECT_GT(relative_error(latents(longcat_image_model(), ""), expected), 1e-4);
}

TEST_F(LongCatImageRun, ConvertedToASingleFileItDrawsTheSame) {
  auto model = quoted(kLongCatImage / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("LongCat-Image"));
  const auto file = io::TensorSource::open({at("single.safetensors").string()});
  for (const char* name : {"model.diffusion_model.time_in.in_layer.weight", "model.diffusion_model.double_blocks.1.img_mod.lin.weight",
                           "text_encoders.qwen25_7b.transformer.model.layers.0.self_attn.q_proj.bias", "vae.decoder.conv_in.weight"})
    EXPECT_TRUE(file.contains(name)) << name;
  EXPECT_THAT(run_ok("inspect " + single), HasSubstr("LongCat-Image transformer (2 double and 3 single blocks, width 32, original names) + "
                                                     "Qwen2.5 text encoder + KL autoencoder"));
  // How wide the small text encoder's heads are, and what the small autoencoder scales latents by, config.json alone says.
  const auto parts = "--model " + quoted(kLongCatImage / "model/text_encoder") + " --model " + quoted(kLongCatImage / "model/vae") +
                     " --model " + single + " --tokenizer_path " + quoted(kLongCatImage / "model/tokenizer") + " --dtype fp32 ";
  EXPECT_LE(relative_error(latents(parts, ""), latents(longcat_image_model(), "")), tolerance(1e-5));
}

/// Without the transformer the text encoder beside this autoencoder is told; Qwen-Image's has another one beside it.
TEST_F(LongCatImageRun, AStageThatOnlyEncodesIsToldByBothEncoders) {
  const auto encoders = "--model " + quoted(kLongCatImage / "model/text_encoder") + " --model " + quoted(kLongCatImage / "model/vae") +
                        " --tokenizer_path " + quoted(kLongCatImage / "model/tokenizer") + " --dtype fp32 ";
  run_ok("train " + encoders + golden_data() + "--lora_rank 4 --task sft:data_process --output_path " + quoted(at("cached")));
  EXPECT_FALSE(fs::is_empty(at("cached")));
}

/// How many tokens are read decides where the picture sits.
TEST_F(LongCatImageRun, ShorterTextsAreAnotherModelsInput) {
  const auto whole = latents(longcat_image_model(), "");
  EXPECT_GT(relative_error(latents(longcat_image_model(), "--max_sequence_length 64"), whole), 1e-4);
}

TEST_F(LongCatImageRun, TheTextEncoderTrainsBesideTheTransformer) {
  train("texts", "--lora_rank 4 --lora_base_model dit,text_encoder ");
  auto adapter = io::TensorSource::open({(at("texts") / "step-3.safetensors").string()});
  auto has = [&](const std::string& start) {
    return std::ranges::any_of(adapter.names(), [&](const std::string& name) { return name.starts_with(start); });
  };
  for (const char* start : {"transformer.", "text_encoder."}) EXPECT_TRUE(has(start)) << start;
}

}  // namespace burnish::longcat_image_train_test
