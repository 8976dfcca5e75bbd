// One file with all parts of LTX-2, as Lightricks publishes it: names of tensors, settings in the metadata, and what is drawn with it.
#include <gmock/gmock.h>

#include "tests/integration/families/ltx2.h"
#include "tests/integration/model_run.h"

namespace burnish::ltx2_convert_test {
using namespace burnish::test;

namespace {

constexpr const char* kVocoderFile = "vocoder/diffusion_pytorch_model.safetensors";

class Ltx2OneFile : public BadInput {
 protected:
  static std::string part(const std::string& name) { return quoted(kLtx2 / "model" / name) + " "; }
  /// Puts LTX-2.0's vocoder in place of that of a folder, as diffusers has it: one network, whose names have nothing before them.
  fs::path folder_of_20() const {
    const auto folder = at("of_20");
    fs::copy(kLtx2 / "model", folder, fs::copy_options::recursive);
    const auto golden = io::SafetensorsFile::open(golden_path("ltx2_autoencoders/vocoder_20.safetensors"));
    io::NamedTensors weights;
    for (const auto& [name, spec] : golden->tensors()) {
      if (name.starts_with("w.")) weights.emplace_back(name.substr(2), golden->tensor(name));
    }
    io::save_safetensors(folder / kVocoderFile, weights);
    auto config = nlohmann::json::parse(golden->metadata().at("config"));
    config["_class_name"] = "LTX2Vocoder";
    std::ofstream(folder / "vocoder/config.json") << config;
    return folder;
  }
  static void expect_alike(const fs::path& file, const fs::path& other) {
    const auto a = io::SafetensorsFile::open(file), b = io::SafetensorsFile::open(other);
    for (const auto& [name, spec] : a->tensors()) {
      ASSERT_TRUE(b->tensors().contains(name)) << name;
      EXPECT_TRUE(at::equal(a->tensor(name), b->tensor(name))) << name;
    }
    EXPECT_EQ(a->tensors().size(), b->tensors().size());
  }
  io::NamedTensors drawn(const std::string& models) const {
    run_ok("sample --dtype fp32 " + models + kLtx2Size + "--num_frames 9 --prompt cat --seed 3 --num_inference_steps 2 --save_latents " +
           quoted(at("latents.safetensors")) + " --output_path " + quoted(at("drawn")) + " --format png");
    io::NamedTensors latents;
    const auto file = io::SafetensorsFile::open(at("latents.safetensors"));
    for (const auto& [name, spec] : file->tensors()) latents.emplace_back(name, file->tensor(name).clone());
    return latents;
  }
};

}  // namespace

TEST_F(Ltx2OneFile, HasThePublishedLayoutAndIsReadAgain) {
  const auto one = at("one.safetensors");
  run_ok("convert " + part("transformer") + part("connectors") + part("vae") + part("audio_vae") + part("vocoder") + quoted(one));
  const auto file = io::SafetensorsFile::open(one);
  for (const auto* name :
       {"model.diffusion_model.patchify_proj.weight", "model.diffusion_model.transformer_blocks.0.attn1.q_norm.weight",
        "model.diffusion_model.video_embeddings_connector.learnable_registers",
        "model.diffusion_model.audio_embeddings_connector.transformer_1d_blocks.1.attn1.to_q.weight",
        "text_embedding_projection.video_aggregate_embed.weight", "vae.per_channel_statistics.mean-of-means",
        "vae.encoder.down_blocks.0.res_blocks.0.conv1.conv.weight", "vae.encoder.down_blocks.1.conv.conv.weight",
        "vae.decoder.up_blocks.0.res_blocks.0.conv1.conv.weight", "audio_vae.per_channel_statistics.std-of-means",
        "audio_vae.encoder.conv_in.conv.weight", "vocoder.vocoder.conv_pre.weight", "vocoder.bwe_generator.conv_pre.weight"})
    EXPECT_TRUE(file->tensors().contains(name)) << name;
  for (const auto& [name, spec] : file->tensors())
    EXPECT_TRUE(name.starts_with("model.diffusion_model.") || name.starts_with("text_embedding_projection.") || name.starts_with("vae.") ||
                name.starts_with("audio_vae.") || name.starts_with("vocoder."))
        << name;
  const auto settings = nlohmann::json::parse(file->metadata().at("config"));
  for (const auto* section : {"transformer", "vae", "audio_vae", "vocoder"}) EXPECT_TRUE(settings.contains(section)) << section;
  EXPECT_EQ(settings["vae"]["decoder_spatial_padding_mode"], "zeros");

  const auto folder = drawn("--model " + quoted(kLtx2 / "model") + " ");
  const auto again = drawn("--model " + quoted(one) + " --model " + part("text_encoder") + "--tokenizer_path " + part("tokenizer"));
  ASSERT_EQ(folder.size(), again.size());
  ASSERT_EQ(folder.size(), 2u) << "frames and sound";
  for (size_t i = 0; i < folder.size(); ++i) EXPECT_TRUE(at::equal(folder[i].second, again[i].second)) << folder[i].first;

  // What was written once more from the file has the same tensors and settings.
  const auto twice = at("twice.safetensors");
  run_ok("convert " + quoted(one) + " " + quoted(twice));
  const auto second = io::SafetensorsFile::open(twice);
  EXPECT_EQ(second->tensors().size(), file->tensors().size());
  EXPECT_EQ(nlohmann::json::parse(second->metadata().at("config")), settings);
}

// A folder has diffusers' names whatever it was made of.
TEST_F(Ltx2OneFile, ThatOf20BecomesAFolderOfDiffusersNames) {
  const auto folder = folder_of_20();
  run_ok("convert " + quoted(folder) + " " + quoted(at("folder")));
  expect_alike(folder / kVocoderFile, at("folder") / kVocoderFile);
  run_ok("convert " + quoted(folder) + " " + quoted(at("one.safetensors")));
  EXPECT_TRUE(io::SafetensorsFile::open(at("one.safetensors"))->tensors().contains("vocoder.conv_pre.weight"));
  run_ok("convert " + quoted(at("one.safetensors")) + " " + quoted(at("again")) + " --config_from " + quoted(folder));
  for (const auto* part : {"vocoder", "audio_vae", "vae", "connectors", "transformer"}) {
    const auto file = fs::path(part) / "diffusion_pytorch_model.safetensors";
    expect_alike(folder / file, at("again") / file);
  }
}

}  // namespace burnish::ltx2_convert_test
