// Commands of DiffSynth-Studio's examples/minimax_h3/model_training as they are spelled there, with `burnish train` in front, at the small
// model's size.
#include <gmock/gmock.h>

#include "kernels/rotate/rotate.h"
#include "tests/coded_files.h"
#include "tests/integration/families/minimax_h3_files.h"
#include "tests/integration/refused.h"

namespace burnish::minimax_h3_commands_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

/// The files of a partition that encode, and those that are trained.
std::string encoders(const std::string& partition) {
  const auto id = "MiniMax/MiniMax-H3:" + partition + "/";
  return id + "text_encoder/model*.safetensors," + id + "video_vae/source/model.safetensors," + id + "audio_vae/model.safetensors";
}
std::string transformer(const std::string& partition) { return "MiniMax/MiniMax-H3:" + partition + "/transformer/model*.safetensors"; }
std::string files(const std::string& list) { return " --model_id_with_origin_paths \"" + list + "\""; }

/// The commands of examples/minimax_h3/model_training of DiffSynth-Studio, on the small model as MiniMax's repository has it.
class MiniMaxH3Commands : public BadInput {
 protected:
  MiniMaxH3Commands() {
    for (const std::string partition : {"FL2VA", "Ref2VA"}) put(at("models/MiniMax/MiniMax-H3") / partition);
  }
  void put(const fs::path& model) const {
    for (const char* folder : {"transformer", "text_encoder", "video_vae/source", "audio_vae"}) fs::create_directories(model / folder);
    auto all = minimax_h3_original(/*by_head=*/true);
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
// Of the pixels that the released vision tower is shown, the small one, whose patches are small too, would see minutes.
const std::string kOfFrames =
    " --extra_inputs \"input_audio,input_image,end_image\" --processor_path \"MiniMax/MiniMax-H3:FL2VA/processor/\"";
const std::string kOfReferences =
    "--num_frames 22 --data_file_keys \"video,input_audio,references\" --extra_inputs \"input_audio,references\" --processor_path "
    "\"MiniMax/MiniMax-H3:Ref2VA/processor/\" --reference_pixels 2048";

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
  const auto said = both_stages("FL2VA", clips() + " " + kOfClips + kOfFrames, kOfLora);
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

namespace {

/// Which weights of a transformer or a text encoder its files have as codes: the linear layers of blocks.
bool is_coded(const std::string& name, const at::Tensor& tensor) {
  const bool is_of_block = name.starts_with("blocks.") || name.find("language_model.layers.") != name.npos;
  return is_of_block && tensor.dim() == 2 && tensor.numel() % 32 == 0 && name.find("adaln") == name.npos;
}

struct Script {
  std::string name;
  std::string transformer = "";  ///< the file in the repository, with % for fl2va or ref2va; none: MiniMax's shards
  std::string text = "";         ///< the text encoder's, where it is not MiniMax's
  bool in_one_stage = false;
  bool names_all = false;  ///< whether its first stage names the transformer too, and its second one no data
  bool is_whole = false;
  bool puts_into_codes = false;  ///< whether the run makes the transformer's codes
};
void PrintTo(const Script& script, std::ostream* out) { *out << script.name; }

const std::string kComfy = "Comfy-Org/MiniMax-H3", kNf4 = "DiffSynth-Studio/MiniMax-H3-NF4";

const std::vector<Script> kScripts{
    {"Plain"},
    {"Pruned", kComfy + ":diffusion_models/minimax_h3_%_pruned_bf16.safetensors"},
    {.name = "Fp8Pruned", .transformer = kComfy + ":diffusion_models/minimax_h3_%_pruned_fp8_scaled.safetensors", .names_all = true},
    {.name = "Int8ConvRot",
     .transformer = kComfy + ":diffusion_models/minimax_h3_%_int8_convrot.safetensors",
     .text = kComfy + ":text_encoders/qwen3vl_32b_minimax_h3_int8_convrot.safetensors",
     .names_all = true},
    {.name = "Int8ConvRotPruned",
     .transformer = kComfy + ":diffusion_models/minimax_h3_%_pruned_int8_convrot.safetensors",
     .text = kComfy + ":text_encoders/qwen3vl_32b_minimax_h3_int8_convrot.safetensors",
     .names_all = true},
    {.name = "Nf4",
     .transformer = kNf4 + ":minimax-h3-%-nf4.safetensors",
     .text = kNf4 + ":minimax-h3-text-encoder-nf4.safetensors",
     .in_one_stage = true},
    {.name = "Nf4Pruned",
     .transformer = kNf4 + ":minimax-h3-%-pruned-nf4.safetensors",
     .text = kNf4 + ":minimax-h3-text-encoder-nf4.safetensors",
     .in_one_stage = true},
    {.name = "Whole", .is_whole = true},
    {.name = "WholePruned", .transformer = kComfy + ":diffusion_models/minimax_h3_%_pruned_bf16.safetensors", .is_whole = true},
    {.name = "PutIntoNf4", .in_one_stage = true, .puts_into_codes = true}};

/// A script, and what its runs learn beside the text: nothing, first and last frame, or references.
using ScriptOf = std::tuple<Script, std::string>;

class MiniMaxH3Scripts : public MiniMaxH3Commands, public testing::WithParamInterface<ScriptOf> {
 protected:
  const Script& script() const { return std::get<0>(GetParam()); }
  bool are_references() const { return std::get<1>(GetParam()) == "References"; }
  std::string partition() const { return are_references() ? "Ref2VA" : "FL2VA"; }

  /// The id of the transformer, whose file is put where it names it.
  std::string transformer_id() const {
    if (script().transformer.empty()) return transformer(partition());
    auto id = script().transformer;
    id.replace(id.find('%'), 1, are_references() ? "ref2va" : "fl2va");
    const bool is_pruned = id.find("pruned") != id.npos, is_nf4 = id.starts_with(kNf4);
    save(id, is_pruned ? minimax_h3_pruned() : minimax_h3_original(/*by_head=*/is_nf4));
    return id;
  }
  std::string text_id() const {
    if (script().text.empty()) return "MiniMax/MiniMax-H3:" + partition() + "/text_encoder/model*.safetensors";
    auto source = io::TensorSource::open({(kMiniMaxH3 / "model/text_encoder/model.safetensors").string()});
    io::NamedTensors all;
    for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name));
    save(script().text, all);
    // No tensor tells the sizes of the small vision tower.
    fs::copy_file(kMiniMaxH3 / "model/text_encoder/config.json", file_of(script().text).parent_path() / "config.json");
    return script().text;
  }
  std::string encoder_ids() const {
    const auto id = "MiniMax/MiniMax-H3:" + partition() + "/";
    return text_id() + "," + id + "video_vae/source/model.safetensors," + id + "audio_vae/model.safetensors";
  }
  std::string data() const {
    if (are_references()) return referenced() + " " + kOfReferences;
    return clips() + " " + kOfClips + (std::get<1>(GetParam()) == "Frames" ? kOfFrames : " --extra_inputs \"input_audio\"");
  }
  std::string trained() const {
    std::string words = script().is_whole ? " --trainable_models \"dit\"" : kOfLora;
    if (script().puts_into_codes)
      words += " --quant_options \"" + transformer(partition()) +
               ":bitsandbytes_nf4/time_embedder.proj_in,time_embedder.proj_out,video_patch_proj,audio_patch_proj,condition_proj,"
               "final_layer.video_out,final_layer.audio_out\"";
    return words;
  }

 private:
  fs::path file_of(const std::string& id) const { return at("models") / id.substr(0, id.find(':')) / id.substr(id.find(':') + 1); }
  void save(const std::string& id, const io::NamedTensors& tensors) const {
    fs::create_directories(file_of(id).parent_path());
    io::save_safetensors(file_of(id), id.starts_with(kNf4)         ? in_nf4(tensors, is_coded)
                                      : id.find("int8") != id.npos ? in_int8_convrot(tensors, is_coded)
                                      : id.find("fp8") != id.npos  ? in_scaled_fp8(tensors, is_coded)
                                                                   : tensors);
  }
};

}  // namespace

TEST_P(MiniMaxH3Scripts, RunAsTheyAre) {
  const auto dit = transformer_id(), encoders = encoder_ids(), end = " --output_path " + quoted(at("trained"));
  if (script().in_one_stage) {
    run(data() + " --dataset_repeat 2 --find_unused_parameters" + trained() + end + files(encoders + "," + dit));
  } else {
    run(data() + " --dataset_repeat 1 --task \"sft:data_process\"" + trained() + " --output_path " + quoted(at("cache")) +
        files(script().names_all ? encoders + "," + dit : encoders));
    const auto seen = script().names_all ? " --num_frames 22" : data().substr(data().find(" --num_frames"));
    run("--dataset_base_path " + quoted(at("cache")) + seen + " --dataset_repeat 2 --find_unused_parameters --task \"sft:train\"" +
        trained() + end + files(dit));
  }
  EXPECT_TRUE(fs::exists(at("trained") / "step-8.safetensors"));
  for (const auto& line : read_log(at("trained"))) EXPECT_GT(line["loss"].get<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, MiniMaxH3Scripts,
                         testing::Combine(testing::ValuesIn(kScripts), testing::Values("Text", "Frames", "References")),
                         [](const auto& info) { return std::get<0>(info.param).name + std::get<1>(info.param); });

}  // namespace burnish::minimax_h3_commands_test
