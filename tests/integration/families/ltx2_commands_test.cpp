// The commands of examples/ltx2/model_training of DiffSynth-Studio, as they are but for sizes, on the small model as its repository has it.
#include <gmock/gmock.h>

#include "io/json.h"
#include "models/families/ltx2/connector_config.h"
#include "models/families/ltx2/keys.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/model_run.h"

namespace burnish::ltx2_commands_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kRepository = "DiffSynth-Studio/LTX-2.3-Repackage", kGemma = "google/gemma-3-12b-it-qat-q4_0-unquantized";
const std::string kLora = " --lora_base_model \"dit\" --lora_target_modules \"to_k,to_q,to_v,to_out.0\" --lora_rank 32 ";

std::string files(const std::string& list) { return " --model_id_with_origin_paths \"" + list + "\""; }
std::string of_repository(const std::string& name) { return kRepository + ":" + name + ".safetensors"; }
std::string encoders() {
  return files(of_repository("text_encoder_post_modules") + "," + of_repository("video_vae_encoder") + "," +
               of_repository("audio_vae_encoder") + "," + kGemma + ":model-*.safetensors");
}

class Ltx2Commands : public BadInput {
 protected:
  Ltx2Commands() {
    const auto from = kLtx2 / "model", repackaged = at("models") / kRepository, gemma = at("models") / kGemma;
    for (const auto& folder : {repackaged, gemma}) fs::create_directories(folder);
    put(repackaged / "transformer.safetensors", "transformer", models::ltx2::original_keys());
    put(repackaged / "text_encoder_post_modules.safetensors", "connectors", models::ltx2::connector_keys());
    fs::copy(from / "vae/diffusion_pytorch_model.safetensors", repackaged / "video_vae_encoder.safetensors");
    fs::copy(from / "audio_vae/diffusion_pytorch_model.safetensors", repackaged / "audio_vae_encoder.safetensors");
    fs::copy(from / "text_encoder/model.safetensors", gemma / "model-00001-of-00001.safetensors");
    fs::copy(from / "text_encoder/config.json", gemma / "config.json");
    fs::copy(from / "tokenizer/tokenizer.json", gemma / "tokenizer.json");
  }

  /// Writes a component in the original names of single files.
  void put(const fs::path& path, const std::string& component, const io::KeyMap& keys) const {
    const auto source = io::TensorSource::open({kLtx2 / "model" / component / "diffusion_pytorch_model.safetensors"});
    io::NamedTensors ours;
    for (const auto& name : source.names()) ours.emplace_back(name, source.tensor(name));
    auto theirs = keys.to_file(ours);
    for (auto& [name, tensor] : theirs) {
      if (!name.starts_with("text_embedding_projection.")) name.insert(0, "model.diffusion_model.");
    }
    io::save_safetensors(path, theirs);
  }

  std::string run(const std::string& words) const {
    const auto outcome =
        run_burnish("train " + words + " --num_frames 9 " + kLtx2Size +
                        "--learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --use_gradient_checkpointing "
                        "--dtype fp32",
                    "DIFFSYNTH_SKIP_DOWNLOAD=1 DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  }
  /// Both stages of a command, of which `words` are those of both.
  std::string both_stages(const std::string& words, const std::string& encoding = encoders(),
                          const std::string& trained = files(of_repository("transformer"))) const {
    const fs::path clips = golden_path("ltx2_clips");
    run("--dataset_base_path " + quoted(clips) + " --dataset_metadata_path " + quoted(clips / "metadata.csv") + words +
        " --dataset_repeat 1 --task \"sft:data_process\" --output_path " + quoted(at("cache")) + encoding);
    return run("--dataset_base_path " + quoted(at("cache")) + words + " --dataset_repeat 2 --task \"sft:train\" --output_path " +
               quoted(at("trained")) + trained);
  }
};

}  // namespace

TEST_F(Ltx2Commands, ClipsWithSoundInTwoStages) {
  const auto said = both_stages(" --data_file_keys \"video,input_audio\" --extra_inputs \"input_audio\"" + kLora);
  EXPECT_THAT(said, HasSubstr("lora of rank 32, scale 1 on 72 layers")) << "all six attentions of three blocks";
}

TEST_F(Ltx2Commands, ClipsThatGoOnFromAPictureInTwoStages) {
  EXPECT_THAT(both_stages(" --data_file_keys \"video,input_audio\" --extra_inputs \"input_audio,input_image\"" + kLora),
              HasSubstr("lora of"));
}

// Rows as DiffSynth-Studio's IC-LoRA has them: a list of clips that are seen, how much smaller, and at which rate all play.
TEST_F(Ltx2Commands, ClipsBesideAReferenceInTwoStages) {
  const fs::path clips = golden_path("ltx2_clips");
  nlohmann::json rows;
  for (const auto* number : {"0", "1"})
    rows.push_back({{"video", std::string(number) + ".webp"},
                    {"prompt", "a cat"},
                    {"input_audio", "0.wav"},
                    {"in_context_videos", {"3.webp"}},
                    {"in_context_downsample_factor", 2},
                    {"frame_rate", 24}});
  const auto words =
      " --data_file_keys \"video,input_audio,in_context_videos\" --extra_inputs "
      "\"input_audio,in_context_videos,in_context_downsample_factor,frame_rate\"" +
      kLora;
  run("--dataset_base_path " + quoted(clips) + " --dataset_metadata_path " + quoted(write("metadata.json", rows.dump())) + words +
      " --dataset_repeat 1 --task \"sft:data_process\" --output_path " + quoted(at("cache")) + encoders());
  EXPECT_THAT(run("--dataset_base_path " + quoted(at("cache")) + words + " --dataset_repeat 2 --task \"sft:train\" --output_path " +
                  quoted(at("trained")) + files(of_repository("transformer"))),
              HasSubstr("lora of rank 32"));
}

// JoyAI-Echo is LTX-2.3 in one file with all parts, which both stages name.
TEST_F(Ltx2Commands, OneFileInTwoStages) {
  const std::string repository = "jd-opensource/JoyAI-Echo", name = "JoyAI-Echo-release.safetensors";
  fs::create_directories(at("models") / repository);
  std::string parts;
  for (const auto* part : {"transformer", "connectors", "vae", "audio_vae", "vocoder"}) parts += quoted(kLtx2 / "model" / part) + " ";
  run_ok("convert " + parts + quoted(at("models") / repository / name));
  const auto file = repository + ":" + name;
  const auto both = [&](const std::string& trained) {
    return both_stages(" --data_file_keys \"video,input_audio\" --extra_inputs \"input_audio\"" + trained,
                       files(file + "," + kGemma + ":model-*.safetensors"), files(file));
  };
  EXPECT_THAT(both(kLora), HasSubstr("lora of rank 32, scale 1 on 72 layers"));
  for (const auto* folder : {"cache", "trained"}) fs::remove_all(at(folder));
  both(" --trainable_models \"dit\"");
  EXPECT_TRUE(fs::exists(at("trained") / "step-8.safetensors"));
}

TEST_F(Ltx2Commands, ClipsAloneInTwoStages) { EXPECT_THAT(both_stages(kLora), HasSubstr("lora of rank 32")); }

TEST_F(Ltx2Commands, TheWholeModelInTwoStages) {
  both_stages(" --data_file_keys \"video,input_audio\" --extra_inputs \"input_audio\" --trainable_models \"dit\"");
  EXPECT_TRUE(fs::exists(at("trained") / "step-8.safetensors"));
}

}  // namespace burnish::ltx2_commands_test
