// What of MiniMax-H3 other families have not: tokens of sound in a still, rows of fused layers that lie in two ways, names of its layers, a
// licence that binds.
#include <gmock/gmock.h>

#include "tests/integration/families/minimax_h3_files.h"
#include "tests/integration/model_run.h"

namespace burnish::minimax_h3_train_test {
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kAdapter = quoted(kMiniMaxH3 / "lora.safetensors") + " ";

class MiniMaxH3Run : public ModelRun {
 protected:
  MiniMaxH3Run() : ModelRun(minimax_h3_model(), kMiniMaxH3Size) {}
  /// The words that name a transformer in another file beside the other parts of the small model.
  static std::string with_parts(const std::string& transformer) {
    std::string words = "--model " + transformer + " --tokenizer_path " + quoted(kMiniMaxH3 / "model/tokenizer") + " --dtype fp32 ";
    for (const char* part : {"text_encoder", "vae"}) words += "--model " + quoted(kMiniMaxH3 / "model" / part) + " ";
    return words;
  }
};

}  // namespace

TEST_F(MiniMaxH3Run, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  // With layers that refine texts trained, and with their results kept.
  expect_captions_batched({"--lora_rank 4 --lora_target_modules context_embedder,fc1 ", "--lora_rank 4 "});
}

TEST_F(MiniMaxH3Run, PartsThatDoNotTrainLeaveMemory) {
  const auto blocks = "--lora_rank 4 --cache_path " + quoted(at("cache")) + " ";
  train("live", blocks + "--precompute_timesteps off");
  EXPECT_THAT(train("ahead", blocks + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
}

TEST_F(MiniMaxH3Run, ASoundIsSeenAndNothingOfItIsLearned) {
  const auto heard = latents(minimax_h3_model(), ""), silent = latents(minimax_h3_model(), "--sound_of_stills none ");
  EXPECT_GT(relative_error(silent, heard), 1e-3) << "it is part of the sequence";
  train("whole", "--trainable_models dit --weight_decay 0.1");
  auto source = io::TensorSource::open_folder(kMiniMaxH3 / "model/transformer", {"diffusion_pytorch_model"});
  auto written = io::TensorSource::open({(at("whole") / "step-3.safetensors").string()});
  for (const auto& [name, stays] : {std::pair("audio_proj_out.weight", true), {"audio_proj_in.weight", false}, {"proj_out.weight", false}})
    EXPECT_EQ(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)), stays) << name;
}

TEST_F(MiniMaxH3Run, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(minimax_h3_model(), "--lora " + kAdapter);
  EXPECT_GT(relative_error(latents(minimax_h3_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_blocks_1_attn_qkv_proj.lora_down.weight"),
                                    {"comfyui", "diffusion_model.blocks.0.mlp.fc1.lora_A.weight"},
                                    {"diffsynth", "transformer_blocks.2.attn.to_q.lora_A.default.weight"},
                                    {"onetrainer", "lora_transformer_transformer_blocks_0_attn_to_q.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kMiniMaxH3 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(minimax_h3_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

TEST_F(MiniMaxH3Run, FusedLayersOfDiffSynthStudioAreRefused) {
  io::save_safetensors(at("lora.safetensors"), {{"blocks.0.attn.qkv_proj.lora_A.default.weight", at::ones({4, 24})},
                                                {"blocks.0.attn.qkv_proj.lora_B.default.weight", at::ones({96, 4})}});
  auto refused = run_burnish("sample " + minimax_h3_model() + kMiniMaxH3Size + "--prompt cat --output_path " + quoted(at("pictures")) +
                             " --lora " + quoted(at("lora.safetensors")));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.output, HasSubstr("DiffSynth-Studio writes the rows of 'blocks.0.attn.qkv_proj' in one order"));
}

TEST_F(MiniMaxH3Run, OriginalFilesSayHowTheirRowsLieOrAreAskedFor) {
  const auto expected = latents(minimax_h3_model(), "");
  io::save_safetensors(at("minimax_h3_fl2va_bf16.safetensors"), minimax_h3_original(/*by_head=*/false));
  io::save_safetensors(at("mine.safetensors"), minimax_h3_original(/*by_head=*/true));
  fs::create_directory(at("shards"));
  auto all = minimax_h3_original(/*by_head=*/true);
  const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  io::save_safetensors(at("shards/model-00001-of-00002.safetensors"), {all.begin(), half});
  io::save_safetensors(at("shards/model-00002-of-00002.safetensors"), {half, all.end()});
  for (const auto& words :
       {quoted(at("minimax_h3_fl2va_bf16.safetensors")), quoted(at("mine.safetensors")) + " --qkv_rows by_head", quoted(at("shards"))})
    EXPECT_LE(relative_error(latents(with_parts(words), ""), expected), tolerance(1e-5)) << words;
  auto refused = run_burnish("sample " + with_parts(quoted(at("mine.safetensors"))) + kMiniMaxH3Size + "--prompt cat --output_path " +
                             quoted(at("pictures")));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("say --qkv_rows by_part"));
}

TEST_F(MiniMaxH3Run, PrunedFilesDrawWhatTheWholeOnesDo) {
  io::save_safetensors(at("minimax_h3_fl2va_pruned_bf16.safetensors"), minimax_h3_pruned());
  const auto words = with_parts(quoted(at("minimax_h3_fl2va_pruned_bf16.safetensors")));
  EXPECT_LE(relative_error(latents(words, ""), latents(minimax_h3_model(), "")), tolerance(1e-3)) << "times lie between rows";
  EXPECT_LE(relative_error(latents(words, "--lora " + kAdapter), latents(minimax_h3_model(), "--lora " + kAdapter)), tolerance(1e-3));
}

TEST_F(MiniMaxH3Run, ItsLicenceIsToldAndStandsInALora) {
  EXPECT_THAT(train("lora", "--lora_rank 4"), HasSubstr("MiniMax-H3 Community License"));
  const auto metadata = io::SafetensorsFile::open(at("lora") / "step-3.safetensors")->metadata();
  EXPECT_EQ(metadata.at("modelspec.license"), "MiniMax-H3 Community License");
  EXPECT_THAT(metadata.at("license_notice"), AllOf(HasSubstr("NOTICE"), Not(HasSubstr("\n"))));
  run_ok("card " + quoted(at("lora")));
  const auto card = read_file(at("lora") / "card/README.md");
  EXPECT_THAT(card, AllOf(HasSubstr("license: other\nlicense_name: \"MiniMax-H3 Community License\""), HasSubstr("## License\n\n")));
}

}  // namespace burnish::minimax_h3_train_test
