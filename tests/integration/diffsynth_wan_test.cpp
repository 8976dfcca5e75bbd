// DiffSynth-Studio's commands of Wan (examples/wanvideo/model_training, full, lora and special) for the models that are here, on small
// models and clips. Flags, boundaries and columns are as published; sizes, lengths and repeats are small.
#include <gmock/gmock.h>

#include "tests/integration/refused.h"
#include "tests/integration/wan_experts.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kWanOriginal = golden_path("wan_original");

/// A small model in place of a published one.
struct Loader {
  fs::path transformer, vae;
  const char* vae_file;  ///< as the small one is called
};

const Loader kTextToVideo{kWanOriginal, kWanOriginal, "Wan2.1_VAE.pth"};
const Loader kPictureToVideo{golden_path("wan_frames/i2v/transformer"), golden_path("wan_frames/i2v/vae"), "vae/*.safetensors"};
const Loader kTextPictureToVideo{golden_path("wan_frames/ti2v/transformer"), golden_path("wan_frames/ti2v/vae"), "vae/*.safetensors"};

/// What the commands of one model have of their own.
struct Recipe {
  const char* name;
  const Loader* loader;
  const char* repo;            ///< of the transformer
  const char* transformer;     ///< folder and pattern of its files there
  const char* repo_of_others;  ///< of text encoder and autoencoder
  const char* inputs;          ///< extra_inputs; "" for none
  const char* boundaries;      ///< from and to, "" for all of the noise
  bool cpu_offload = false;    ///< use_gradient_checkpointing_offload
};

constexpr const char *kAll = "diffusion_pytorch_model*.safetensors", *kHigh = "high_noise_model/diffusion_pytorch_model*.safetensors",
                     *kLow = "low_noise_model/diffusion_pytorch_model*.safetensors";
constexpr const char *k13B = "Wan-AI/Wan2.1-T2V-1.3B", *k14B = "Wan-AI/Wan2.1-T2V-14B", *kT2VA14B = "Wan-AI/Wan2.2-T2V-A14B",
                     *kI2VA14B = "Wan-AI/Wan2.2-I2V-A14B", *kTI2V5B = "Wan-AI/Wan2.2-TI2V-5B";

const Recipe kRecipes[] = {
    {"T2V_1_3B", &kTextToVideo, k13B, kAll, k13B, "", ""},
    {"T2V_14B", &kTextToVideo, k14B, kAll, k14B, "", ""},
    {"krea_realtime", &kTextToVideo, "krea/krea-realtime-video", "krea-realtime-video-14b.safetensors", k14B, "", ""},
    {"T2V_A14B_high", &kTextToVideo, kT2VA14B, kHigh, kT2VA14B, "", "--max_timestep_boundary 0.417 --min_timestep_boundary 0"},
    {"T2V_A14B_low", &kTextToVideo, kT2VA14B, kLow, kT2VA14B, "", "--max_timestep_boundary 1 --min_timestep_boundary 0.417"},
    {"I2V_A14B_high", &kPictureToVideo, kI2VA14B, kHigh, kI2VA14B, "input_image", "--max_timestep_boundary 0.358 --min_timestep_boundary 0",
     true},
    {"I2V_A14B_low", &kPictureToVideo, kI2VA14B, kLow, kI2VA14B, "input_image", "--max_timestep_boundary 1 --min_timestep_boundary 0.358",
     true},
    {"TI2V_5B", &kTextPictureToVideo, kTI2V5B, kAll, kTI2V5B, "input_image", ""},
};

std::string name_of(const testing::TestParamInfo<Recipe>& info) { return info.param.name; }

class WanCommands : public BadInput, public testing::WithParamInterface<Recipe> {
 protected:
  /// The small model's files where the command looks for the published ones.
  void put(const Recipe& recipe) const {
    const auto own = at("models") / recipe.repo, others = at("models") / recipe.repo_of_others;
    const auto pattern = fs::path(recipe.transformer);
    auto file = pattern.filename().string();
    if (file.find('*') != file.npos) file = "diffusion_pytorch_model.safetensors";
    const auto folder = own / pattern.parent_path();
    fs::create_directories(folder);
    fs::copy_file(recipe.loader->transformer / "diffusion_pytorch_model.safetensors", folder / file);
    fs::copy_file(recipe.loader->transformer / "config.json", folder / "config.json");
    fs::create_directories(others / "google");
    fs::copy_file(kWanOriginal / kText, others / kText);
    fs::copy(kWan / "model/tokenizer", others / "google/umt5-xxl", fs::copy_options::recursive);
    const fs::path vae = recipe.loader->vae_file;
    if (vae.has_parent_path()) fs::copy(recipe.loader->vae, others / vae.parent_path());
    else fs::copy_file(recipe.loader->vae / vae, others / vae);
  }
  std::string data(const std::string& columns = "video,prompt", const std::string& values = "base30.mp4,red apple") const {
    write("clips/metadata.csv", columns + "\n" + values + "\n");
    fs::copy_file(golden_path("clips/base30.mp4"), at("clips/base30.mp4"), fs::copy_options::skip_existing);
    return "--dataset_base_path " + quoted(at("clips")) + " --dataset_metadata_path " + quoted(at("clips/metadata.csv"));
  }
  static std::string model(const Recipe& recipe) {
    const std::string others = recipe.repo_of_others;
    return std::string(" --model_id_with_origin_paths \"") + recipe.repo + ":" + recipe.transformer + "," + others + ":" + kText + "," +
           others + ":" + recipe.loader->vae_file + "\"";
  }
  /// What full and lora have alike; 5 frames of 32 × 64 in place of 49 or 81 of 480 × 832, and one visit in place of 100.
  std::string command(const Recipe& recipe, const std::string& data, const std::string& trained) const {
    std::string text = "train " + data + " --height 32 --width 64 --num_frames 5 --dataset_repeat 1" + model(recipe) + " " + trained +
                       " --remove_prefix_in_ckpt \"pipe.dit.\" --output_path " + quoted(out());
    if (*recipe.inputs != '\0') text += std::string(" --extra_inputs \"") + recipe.inputs + "\"";
    if (*recipe.boundaries != '\0') text += std::string(" ") + recipe.boundaries;
    if (recipe.cpu_offload) text += " --use_gradient_checkpointing_offload";
    return text;
  }
  std::string runs(const std::string& text) const {
    auto outcome = run_burnish(text, "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << text << "\n" << outcome.output;
    return outcome.output;
  }
  /// The file of the last of one or more steps.
  std::string trained_file() const {
    for (const auto& file : files_below(out())) {
      if (file.starts_with("step-") && file.ends_with(".safetensors")) return file;
    }
    return "";
  }

  static constexpr const char* kText = "models_t5_umt5-xxl-enc-bf16.pth";
};

const std::string kLora =
    "--learning_rate 1e-4 --num_epochs 5 --lora_base_model \"dit\" --lora_target_modules \"q,k,v,o,ffn.0,ffn.2\" --lora_rank 32";
const std::string kFull = "--learning_rate 1e-5 --num_epochs 2 --trainable_models \"dit\"";

}  // namespace

TEST_P(WanCommands, Lora) {
  put(GetParam());
  EXPECT_THAT(runs(command(GetParam(), data(), kLora)), HasSubstr("lora of rank 32, scale 1 on 20 layers"));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-5."));
}

TEST_P(WanCommands, Full) {
  put(GetParam());
  runs(command(GetParam(), data(), kFull));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-2."));
}

INSTANTIATE_TEST_SUITE_P(Of, WanCommands, testing::ValuesIn(kRecipes), name_of);

namespace {

/// Commands of the folder `special`, and what is refused by name.
class WanSpecialCommands : public WanCommands {};

}  // namespace

TEST_P(WanSpecialCommands, DirectDistillation) {
  put(GetParam());
  auto samples = data("video,prompt,seed,rand_device,num_inference_steps,cfg_scale", "base30.mp4,red apple,0,cpu,4,1");
  runs(command(GetParam(), samples,
               "--learning_rate 1e-5 --num_epochs 2 --trainable_models \"dit\" --task direct_distill --extra_inputs "
               "\"seed,rand_device,num_inference_steps,cfg_scale\""));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-2."));
}

TEST_P(WanSpecialCommands, TrainingOnOtherProcessors) {
  put(GetParam());
  runs(command(GetParam(), data(), kFull + " --initialize_model_on_cpu"));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-2."));
}

TEST_P(WanSpecialCommands, OfOtherModelsAreRefusedByName) {
  for (const char* id :
       {"meituan-longcat/LongCat-Video:dit/diffusion_pytorch_model*.safetensors", "Wan-AI/Wan-Dancer-14B:global_model.safetensors",
        "ByteDance/Video-As-Prompt-Wan2.1-14B:transformer/diffusion_pytorch_model*.safetensors"}) {
    std::string repo(id);
    repo = repo.substr(0, repo.find(':'));
    refused(3, "train " + data() + " --model_id_with_origin_paths \"" + id + "\" " + kLora + " --output_path " + quoted(out()),
            {repo, "is not supported"});
  }
}

INSTANTIATE_TEST_SUITE_P(Of, WanSpecialCommands, testing::Values(kRecipes[0]), name_of);
