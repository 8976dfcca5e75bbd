// What of LTX-2 other families have not: names of its layers, checkpoints of one file, a licence that binds, targets that follow what is
// judged.
#include <gmock/gmock.h>

#include "models/families/ltx2/connector_config.h"
#include "models/families/ltx2/keys.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/model_run.h"

namespace burnish::ltx2_train_test {
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kAdapter = quoted(kLtx2 / "lora.safetensors") + " ";

class Ltx2Run : public ModelRun {
 protected:
  Ltx2Run() : ModelRun(ltx2_model(), kLtx2Size) {}
  static io::NamedTensors tensors(const std::string& component) {
    auto source = io::TensorSource::open({(kLtx2 / "model" / component / "diffusion_pytorch_model.safetensors").string()});
    io::NamedTensors all;
    for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name));
    return all;
  }
  /// The words that name a checkpoint in one file, with the text encoder and its tokenizer beside it.
  static std::string with_encoder(const fs::path& checkpoint) {
    return "--model " + quoted(checkpoint) + " --model " + quoted(kLtx2 / "model/text_encoder") + " --tokenizer_path " +
           quoted(kLtx2 / "model/tokenizer") + " --dtype fp32 ";
  }
};

}  // namespace

TEST_F(Ltx2Run, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) { expect_captions_batched({"--lora_rank 4 "}); }

TEST_F(Ltx2Run, PartsThatDoNotTrainLeaveMemory) {
  const auto blocks = "--lora_rank 4 --cache_path " + quoted(at("cache")) + " ";
  train("live", blocks + "--precompute_timesteps off");
  EXPECT_THAT(train("ahead", blocks + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
}

TEST_F(Ltx2Run, ALoraIsOnWhatIsJudged) {
  // Of each of three blocks four layers of two attentions, or of all six.
  EXPECT_THAT(train("silent", "--lora_rank 4 "), HasSubstr("on 24 layers of dit"));
  EXPECT_THAT(
      run_ok("train " + ltx2_model() + "--dataset_metadata_path " + quoted(fs::path(golden_path("ltx2_clips/metadata.csv"))) + " " +
             kLtx2Size + "--num_frames 9 --extra_inputs input_audio --lora_rank 4 --max_steps 1 --output_path " + quoted(at("sounding"))),
      HasSubstr("on 72 layers of dit"));
}

TEST_F(Ltx2Run, ASoundIsSeenAndNothingOfItIsLearned) {
  train("whole", "--trainable_models dit --weight_decay 0.1");
  auto source = io::TensorSource::open({(kLtx2 / "model/transformer/diffusion_pytorch_model.safetensors").string()});
  auto written = io::TensorSource::open({(at("whole") / "step-3.safetensors").string()});
  for (const auto& [name, stays] : {std::pair("audio_proj_out.weight", true), {"audio_proj_in.weight", false}, {"proj_out.weight", false}})
    EXPECT_EQ(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)), stays) << name;
}

TEST_F(Ltx2Run, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(ltx2_model(), "--lora " + kAdapter);
  EXPECT_GT(relative_error(latents(ltx2_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_transformer_blocks_1_attn1_to_q.lora_down.weight"),
                                    {"comfyui", "diffusion_model.transformer_blocks.0.audio_attn2.to_out.0.lora_A.weight"},
                                    {"diffsynth", "transformer_blocks.2.video_to_audio_attn.to_k.lora_A.default.weight"},
                                    {"onetrainer", "lora_transformer_transformer_blocks_0_attn1_to_q.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kLtx2 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(ltx2_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

// Lightricks' checkpoints: the transformer with the connectors among its names, the projection and the autoencoder of frames apart.
TEST_F(Ltx2Run, ACheckpointInOneFileDrawsWhatTheFolderDoes) {
  io::NamedTensors all;
  for (auto& [name, tensor] : models::ltx2::original_keys().to_file(tensors("transformer")))
    all.emplace_back("model.diffusion_model." + name, tensor);
  for (auto& [name, tensor] : models::ltx2::connector_keys().to_file(tensors("connectors"))) {
    const bool is_apart = name.starts_with("text_embedding_projection.");
    all.emplace_back(is_apart ? name : "model.diffusion_model." + name, tensor);
  }
  for (auto& [name, tensor] : tensors("vae")) all.emplace_back("vae." + name, tensor);
  io::save_safetensors(at("ltx-2.3-22b-dev.safetensors"), all);
  const auto words = with_encoder(at("ltx-2.3-22b-dev.safetensors"));
  EXPECT_LE(relative_error(latents(words, ""), latents(ltx2_model(), "")), tolerance(1e-5));
  EXPECT_THAT(
      run_ok("inspect " + quoted(at("ltx-2.3-22b-dev.safetensors"))),
      HasSubstr("LTX-2.3 transformer (3 layers, width 32, original names) + LTX-2 connectors of texts + LTX-2 autoencoder of frames"));
}

TEST_F(Ltx2Run, ItsLicenceIsToldAndStandsInALora) {
  EXPECT_THAT(train("lora", "--lora_rank 4"), HasSubstr("LTX-2 Community License Agreement"));
  const auto metadata = io::SafetensorsFile::open(at("lora") / "step-3.safetensors")->metadata();
  EXPECT_EQ(metadata.at("modelspec.license"), "LTX-2 Community License Agreement");
  EXPECT_THAT(metadata.at("license_notice"), AllOf(HasSubstr("Gemma Terms of Use"), Not(HasSubstr("\n"))));
}

TEST_F(Ltx2Run, ALoraOfAnotherVersionIsTold) {
  auto source = io::TensorSource::open({(kLtx2 / "lora.safetensors").string()});
  io::NamedTensors all;
  for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name));
  const std::string small =
      "sample " + ltx2_model() + kLtx2Size + "--prompt cat --num_inference_steps 1 --output_path " + quoted(at("drawn"));
  for (const auto& [version, is_told] : {std::pair("LTX-2/lora", true), {"LTX-2.3/lora", false}, {"Flux.1-dev/lora", false}}) {
    io::save_safetensors(at("lora.safetensors"), all, {{"modelspec.architecture", version}});
    const auto said = run_ok(small + " --lora " + quoted(at("lora.safetensors")));
    EXPECT_EQ(said.find("was trained on LTX-2, and this model is LTX-2.3; its layers fit") != said.npos, is_told) << version;
  }
}

TEST_F(Ltx2Run, ATextEncoderThatIsNamedTwiceIsCalledWhatItIs) {
  EXPECT_THAT(run_ok("inspect " + quoted(kLtx2 / "model/text_encoder")), HasSubstr("Gemma text encoder"));
  run_ok("convert " + quoted(kLtx2 / "model") + " " + quoted(at("one.safetensors")));
  expect_one_error(
      run_burnish("sample " + with_encoder(at("one.safetensors")) + kLtx2Size + "--prompt cat --output_path " + quoted(at("drawn")),
                  "BURNISH_LOG=error"),
      3, {"text_encoder is named and nothing of it is read", "Gemma text encoder, which other files of this LTX-2.3 hold too"});
}

// What is read of LTX-2.5's autoencoder with a decoder by diffusion is its encoder: clips are trained on, and drawing says at once what
// lacks.
TEST_F(Ltx2Run, WithoutADecoderThatRunsDrawingIsRefusedBeforeItBegins) {
  const auto model = at("model");
  fs::copy(kLtx2 / "model", model, fs::copy_options::recursive);
  io::NamedTensors encoder;
  for (auto& [name, tensor] : tensors("vae")) {
    if (!name.starts_with("decoder.")) encoder.emplace_back(name, tensor);
  }
  io::save_safetensors(model / "vae/diffusion_pytorch_model.safetensors", encoder);
  const auto out =
      run_burnish("sample " + ltx2_model(model) + kLtx2Size + "--prompt cat --output_path " + quoted(at("drawn")), "BURNISH_LOG=error");
  expect_one_error(out, 3, {"this run needs a decoder of frames", "ltx-2.5-video-vae-conv-bf16.safetensors"});
  EXPECT_FALSE(fs::exists(at("drawn")));
  run_ok("train " + ltx2_model(model) + ltx2_data() + "--lora_rank 4 --max_steps 1 --output_path " + quoted(at("trained")));
  expect_one_error(run_burnish("train " + ltx2_model(model) + ltx2_data() + "--lora_rank 4 --max_steps 1 --overwrite --preview_prompts " +
                                   quoted(write("prompts.txt", "cat")) + " --output_path " + quoted(at("trained")),
                               "BURNISH_LOG=error"),
                   3, {"this run needs a decoder of frames"});
}

}  // namespace burnish::ltx2_train_test
