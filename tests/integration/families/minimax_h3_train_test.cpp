// What of MiniMax-H3 other families have not: tokens of sound in a still, rows of fused layers that lie in two ways, names of its layers, a
// licence that binds.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <gmock/gmock.h>

#include <cmath>

#include "models/families/minimax_h3/keys.h"
#include "tests/integration/families/minimax_h3.h"
#include "tests/integration/model_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kAdapter = quoted(kMiniMaxH3 / "lora.safetensors") + " ";

class MiniMaxH3Run : public ModelRun {
 protected:
  MiniMaxH3Run() : ModelRun(minimax_h3_model(), kMiniMaxH3Size) {}
  /// The transformer in original names, its fused rows by part or, as MiniMax's shards have them, by head.
  static io::NamedTensors original(bool by_head) {
    auto source = io::TensorSource::open_folder(kMiniMaxH3 / "model/transformer", {"diffusion_pytorch_model"});
    io::NamedTensors all;
    for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name));
    all = models::minimax_h3::original_keys().to_file(all);
    for (auto& [name, tensor] : all) {
      if (by_head && name.ends_with(models::minimax_h3::kFused))
        tensor = tensor.unflatten(0, {3, 2, 16}).transpose(0, 1).reshape(tensor.sizes()).contiguous();
    }
    return all;
  }
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
  io::save_safetensors(at("minimax_h3_fl2va_bf16.safetensors"), original(/*by_head=*/false));
  io::save_safetensors(at("mine.safetensors"), original(/*by_head=*/true));
  fs::create_directory(at("shards"));
  auto all = original(/*by_head=*/true);
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
  at::NoGradGuard no_grad;
  auto pruned = original(/*by_head=*/false);
  auto find = [&](const std::string& name) {
    return std::ranges::find(pruned, name, [](const auto& one) { return one.first; })->second.to(at::kFloat);
  };
  const auto angles = (at::arange(1025, at::kFloat) / 1024).unsqueeze(1) * (at::arange(16, at::kFloat) * (-std::log(1e4) / 16)).exp();
  auto embedded = at::cat({angles.cos(), angles.sin()}, -1);
  for (const std::string layer : {"proj_in", "proj_out"})
    embedded = at::silu(at::linear(embedded, find("time_embedder." + layer + ".weight"), find("time_embedder." + layer + ".bias")));
  std::erase_if(pruned, [](const auto& one) { return one.first.starts_with("time_embedder."); });
  pruned.emplace_back("adaln_t_table", embedded);
  io::save_safetensors(at("minimax_h3_fl2va_pruned_bf16.safetensors"), pruned);
  const auto words = with_parts(quoted(at("minimax_h3_fl2va_pruned_bf16.safetensors")));
  EXPECT_LE(relative_error(latents(words, ""), latents(minimax_h3_model(), "")), tolerance(1e-3)) << "times lie between rows";
  EXPECT_LE(relative_error(latents(words, "--lora " + kAdapter), latents(minimax_h3_model(), "--lora " + kAdapter)), tolerance(1e-3));
}

namespace {

/// The files of a partition that encode, and those that are trained.
std::string encoders(const std::string& partition) {
  const auto id = "MiniMax/MiniMax-H3:" + partition + "/";
  return id + "text_encoder/model*.safetensors," + id + "video_vae/source/model.safetensors," + id + "audio_vae/model.safetensors";
}
std::string transformer(const std::string& partition) { return "MiniMax/MiniMax-H3:" + partition + "/transformer/model*.safetensors"; }
std::string files(const std::string& list) { return " --model_id_with_origin_paths \"" + list + "\""; }

/// The commands of examples/minimax_h3/model_training of DiffSynth-Studio, on the small model as MiniMax's repository has it.
class MiniMaxH3Commands : public MiniMaxH3Run {
 protected:
  MiniMaxH3Commands() {
    for (const std::string partition : {"FL2VA", "Ref2VA"}) put(at("models/MiniMax/MiniMax-H3") / partition);
  }
  void put(const fs::path& model) const {
    for (const char* folder : {"transformer", "text_encoder", "video_vae/source", "audio_vae"}) fs::create_directories(model / folder);
    auto all = original(/*by_head=*/true);
    const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    io::save_safetensors(model / "transformer/model-00001-of-00002.safetensors", {all.begin(), half});
    io::save_safetensors(model / "transformer/model-00002-of-00002.safetensors", {half, all.end()});
    const auto from = kMiniMaxH3 / "model";
    fs::copy(from / "text_encoder/model.safetensors", model / "text_encoder/model-00001-of-00001.safetensors");
    fs::copy(from / "text_encoder/config.json", model / "text_encoder/config.json");
    fs::copy(from / "vae/diffusion_pytorch_model.safetensors", model / "video_vae/source/model.safetensors");
    fs::copy(from / "vae/config.json", model / "video_vae/source/config.json");
    fs::copy(from / "audio_vae/diffusion_pytorch_model.safetensors", model / "audio_vae/model.safetensors");
    fs::copy(from / "audio_vae/config.json", model / "audio_vae/config.json");
    fs::copy(from / "tokenizer", model / "tokenizer", fs::copy_options::recursive);
    fs::copy(from / "processor", model / "processor", fs::copy_options::recursive);
  }
  std::string run(const std::string& words) const {
    const auto outcome =
        run_burnish("train " + words + " " + kMiniMaxH3Size +
                        "--learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --use_gradient_checkpointing",
                    "DIFFSYNTH_SKIP_DOWNLOAD=1 DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  }
  /// The two stages of a command, of which `words` are those of both, and `data` those of the first.
  std::string both_stages(const std::string& partition, const std::string& data, const std::string& words) const {
    run(data + " " + words + " --dataset_repeat 1 --task \"sft:data_process\" --output_path " + quoted(at("cache")) +
        files(encoders(partition)));
    return run("--dataset_base_path " + quoted(at("cache")) + " " + words +
               " --dataset_repeat 2 --find_unused_parameters --task \"sft:train\" " + "--output_path " + quoted(at("lora")) +
               files(transformer(partition)));
  }
};

const std::string kOfLora =
    " --lora_base_model \"dit\" --lora_target_modules \"attn.qkv_proj,attn.out_proj,mlp.fc1,mlp.fc2\" --lora_rank 32";

std::string rows_of(const fs::path& folder, const std::string& metadata) {
  return "--dataset_base_path " + quoted(folder) + " --dataset_metadata_path " + quoted(folder / metadata);
}
std::string pictures() { return rows_of(kGolden / "pictures", "metadata.csv") + " --data_file_keys \"image\""; }
std::string clips() { return rows_of(golden_path("minimax_h3_clips"), "metadata.csv"); }
std::string referenced() { return rows_of(golden_path("minimax_h3_references"), "metadata.json"); }

const std::string kOfClips = "--num_frames 22 --data_file_keys \"video,input_audio\"";
const std::string kOfReferences =
    "--num_frames 22 --data_file_keys \"video,input_audio,references\" --extra_inputs \"input_audio,references\" --processor_path "
    "\"MiniMax/MiniMax-H3:Ref2VA/processor/\" --reference_pixels 2048";  // of the released size a small model would see hours

}  // namespace

TEST_F(MiniMaxH3Commands, StillsInTwoStages) {
  EXPECT_THAT(both_stages("FL2VA", pictures(), kOfLora), HasSubstr("lora of rank 32, scale 1 on 30 layers"));
  EXPECT_TRUE(fs::exists(at("lora") / "step-8.safetensors"));
}

TEST_F(MiniMaxH3Commands, ClipsWithSoundInTwoStages) {
  both_stages("FL2VA", clips(), kOfClips + " --extra_inputs \"input_audio\"" + kOfLora);
  EXPECT_TRUE(fs::exists(at("lora") / "step-8.safetensors"));
}

/// Commands of files in codes say in their second stage what they train, and nothing of what the first one read.
TEST_F(MiniMaxH3Commands, FirstAndLastFrameInTwoStages) {
  const auto said = both_stages("FL2VA", clips() + " " + kOfClips + " --extra_inputs \"input_audio,input_image,end_image\"", kOfLora);
  EXPECT_THAT(said, HasSubstr("was made with extra_inputs input_image,end_image,input_audio, which are read"));
  EXPECT_TRUE(fs::exists(at("lora") / "step-8.safetensors"));
}

TEST_F(MiniMaxH3Commands, ReferencesInTwoStages) {
  both_stages("Ref2VA", referenced(), kOfReferences + kOfLora);
  EXPECT_TRUE(fs::exists(at("lora") / "step-8.safetensors"));
}

TEST_F(MiniMaxH3Commands, ReferencesInOneStageAndWhole) {
  const auto all = files(encoders("Ref2VA") + "," + transformer("Ref2VA"));
  run(referenced() + " " + kOfReferences + " --dataset_repeat 1 --find_unused_parameters --output_path " + quoted(at("lora")) + all +
      kOfLora);
  EXPECT_TRUE(fs::exists(at("lora") / "step-4.safetensors"));
  run(referenced() + " " + kOfReferences + " --dataset_repeat 1 --find_unused_parameters --trainable_models \"dit\" --output_path " +
      quoted(at("whole")) + all);
  EXPECT_TRUE(fs::exists(at("whole") / "step-4.safetensors"));
}

TEST_F(MiniMaxH3Commands, ASoundThatIsMissingIsSilence) {
  const auto all = files(encoders("FL2VA") + "," + transformer("FL2VA"));
  const auto row = at("row.csv");
  io::write_text_atomic(row, "video,prompt\n" + (fs::path(golden_path("minimax_h3_clips")) / "0.webp").string() + ",cat\n");
  const auto losses = [&](const std::string& name, const std::string& more) {
    run("--dataset_metadata_path " + quoted(row) + " " + kOfClips + " --extra_inputs \"input_audio\" --dataset_repeat 1 --output_path " +
        quoted(at(name)) + all + kOfLora + more);
    return read_log(at(name)).at(0)["loss"].get<double>();
  };
  EXPECT_GT(losses("silent", " --silent_on_missing_audio --frames_loss_weight 0"), 0.1) << "silence is learned";
  EXPECT_EQ(losses("lacking", " --frames_loss_weight 0"), 0);
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
