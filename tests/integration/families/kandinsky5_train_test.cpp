// What of Kandinsky 5 other families have not: names of other programs' adapters, single files, whose text encoders they are, texts that
// are tidied, latents without a shift.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/families/kandinsky5.h"
#include "tests/integration/model_run.h"
#include "tests/integration/refused.h"

namespace burnish::kandinsky5_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kAdapterFile = quoted(kKandinsky5 / "lora.safetensors") + " ";

/// Writes another value into a file of JSON.
void rewrite(const fs::path& file, const char* key, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(read_file(file));
  json[key] = value;
  std::ofstream(file) << json.dump();
}

class Kandinsky5Run : public ModelRun {
 protected:
  Kandinsky5Run() : ModelRun(kandinsky5_model()) {}
};

}  // namespace

TEST_F(Kandinsky5Run, AdaptersOfEveryProgramAreTheSame) {
  const auto expected = latents(kandinsky5_model(), "--lora " + kAdapterFile);
  EXPECT_GT(relative_error(latents(kandinsky5_model(), ""), expected), 1e-3);
  for (const auto& [format, key] :
       {std::pair("diffusers", "transformer.visual_transformer_blocks.1.cross_attention.to_query.lora_A.weight"),
        {"kohya", "lora_unet_text_transformer_blocks_1_feed_forward_in_layer.lora_down.weight"},
        {"comfyui", "diffusion_model.visual_transformer_blocks.2.visual_modulation.out_layer.lora_A.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapterFile + quoted(file) + " --lora_format " + format + " --model " + quoted(kKandinsky5 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(kandinsky5_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

TEST_F(Kandinsky5Run, ConvertedToASingleFileItDrawsTheSame) {
  auto model = quoted(kKandinsky5 / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("Kandinsky 5 T2I Lite"));
  const auto file = io::TensorSource::open({at("single.safetensors").string()});
  for (const char* name : {"model.diffusion_model.visual_embeddings.in_layer.weight", "vae.decoder.conv_in.weight",
                           "text_encoders.qwen25_7b.transformer.model.layers.0.self_attn.q_proj.bias",
                           "text_encoders.clip_l.transformer.text_model.embeddings.token_embedding.weight"})
    EXPECT_TRUE(file.contains(name)) << name;
  EXPECT_THAT(run_ok("inspect " + single), HasSubstr("Kandinsky 5 T2I Lite transformer (2 blocks of texts and 3 of pictures, width 32, "
                                                     "diffusers names) + Qwen2.5 text encoder + CLIP text encoder + KL autoencoder"));
  // How wide the small encoders' heads are, and what the small autoencoder scales latents by, config.json alone says.
  std::string parts;
  for (const char* part : {"text_encoder", "text_encoder_2", "vae"}) parts += "--model " + quoted(kKandinsky5 / "model" / part) + " ";
  parts += "--model " + single + " --tokenizer_path " + quoted(kKandinsky5 / "model/tokenizer") + " --tokenizer_2_path " +
           quoted(kKandinsky5 / "model/tokenizer_2") + " --dtype fp32 ";
  // Without the folder's scheduler file the shift of drawing is 5.
  const auto copy = at("model");
  fs::copy(kKandinsky5 / "model", copy, fs::copy_options::recursive);
  rewrite(copy / "scheduler/scheduler_config.json", "shift", 5.0);
  EXPECT_LE(relative_error(latents(parts, ""), latents(kandinsky5_model(copy), "")), tolerance(1e-5));
}

/// Without the transformer both text encoders are told; Qwen-Image's has none beside it.
TEST_F(Kandinsky5Run, AStageThatOnlyEncodesIsToldByBothEncoders) {
  std::string encoders;
  for (const char* part : {"text_encoder", "text_encoder_2", "vae"}) encoders += "--model " + quoted(kKandinsky5 / "model" / part) + " ";
  run_ok("train " + encoders + "--tokenizer_path " + quoted(kKandinsky5 / "model/tokenizer") + " --tokenizer_2_path " +
         quoted(kKandinsky5 / "model/tokenizer_2") + " --dtype fp32 " + golden_data() +
         "--lora_rank 4 --task sft:data_process --output_path " + quoted(at("cached")));
  EXPECT_FALSE(fs::is_empty(at("cached")));
}

TEST_F(Kandinsky5Run, CaptionsOfUnequalLengthAreABatch) {
  expect_captions_batched({"--lora_rank 4 ", "--lora_rank 4 --use_gradient_checkpointing "});
}

TEST_F(Kandinsky5Run, TextsAreTidied) {
  auto drawn = [&](const std::string& prompt) {
    run_ok("sample " + kandinsky5_model() + "--prompt " + "'" + prompt + "'" + " --height 48 --width 64 --num_inference_steps 2 --seed 1 " +
           "--save_latents " + quoted(at("latents.safetensors")) + " --output_path " + quoted(at("drawn")));
    return io::TensorSource::open({at("latents.safetensors").string()}).tensor("latents").clone();
  };
  const auto plain = drawn("red apple & \"good\"");
  EXPECT_TRUE(at::equal(drawn("  red \t apple &amp;amp; \u201cgood\u201d "), plain));
  EXPECT_FALSE(at::equal(drawn("red apple"), plain));
}

/// The folder's config.json says a shift, which pictures are encoded and decoded without.
TEST_F(Kandinsky5Run, LatentsAreScaledAlone) {
  auto copy = at("model");
  fs::copy(kKandinsky5 / "model", copy, fs::copy_options::recursive);
  const auto steps = [&](const fs::path& model, const std::string& name) {
    run_ok("train " + kandinsky5_model(model) + golden_data() + "--lora_rank 4 --max_steps 2 --output_path " + quoted(at(name)));
    return logged_steps(at(name));
  };
  const auto with = steps(copy, "with");
  rewrite(copy / "vae/config.json", "shift_factor", 0.7);
  EXPECT_EQ(steps(copy, "without"), with);
}

TEST_F(Kandinsky5Run, ModelsOfClipsAndOfPicturesToChangeAreRefused) {
  for (const char* pipeline : {"Kandinsky5T2VPipeline", "Kandinsky5I2VPipeline"}) {
    auto copy = at(pipeline);
    fs::copy(kKandinsky5 / "model", copy, fs::copy_options::recursive);
    rewrite(copy / "model_index.json", "_class_name", pipeline);
    expect_one_error(run_burnish("train " + kandinsky5_model(copy) + golden_data() + "--lora_rank 4 --max_steps 1 --output_path " +
                                     quoted(at("refused")),
                                 "BURNISH_LOG=error"),
                     3, {pipeline, "-I2I-Lite was expected: take that"});
  }
}

TEST_F(Kandinsky5Run, BothTextEncodersTrainBesideTheTransformer) {
  train("texts", "--lora_rank 4 --lora_base_model dit,text_encoder,text_encoder_2 ");
  auto adapter = io::TensorSource::open({(at("texts") / "step-3.safetensors").string()});
  auto has = [&](const std::string& start) {
    return std::ranges::any_of(adapter.names(), [&](const std::string& name) { return name.starts_with(start); });
  };
  for (const char* start : {"transformer.", "text_encoder.", "text_encoder_2."}) EXPECT_TRUE(has(start)) << start;
}

}  // namespace burnish::kandinsky5_train_test
