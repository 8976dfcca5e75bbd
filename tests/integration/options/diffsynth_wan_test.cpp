// DiffSynth-Studio's commands of Wan (examples/wanvideo/model_training, full, lora and special) for the models that are here, on small
// models and clips. Flags, boundaries and columns are as published; sizes, lengths and repeats are small.
#include <gmock/gmock.h>

#include "models/parts/clip_vision.h"
#include "models/parts/find_components.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan_small.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

constexpr const char *kText = "models_t5_umt5-xxl-enc-bf16.pth", *kClip = "models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth";
constexpr const char* kMotionController = "DiffSynth-Studio/Wan2.1-1.3b-speedcontrol-v1:model.safetensors";

const fs::path kDiffusers = kWan / "model/transformer", kSeeing = kWanImage / "transformer";
const SmallWan kOfText{.transformer = "original"};
const SmallWan kOfTextWithMotion{.transformer = "original", .has_motion = true};
const SmallWan kOfFrame{.transformer = kDiffusers, .in_channels = 36};
const SmallWan kOfSeenFrame{.transformer = kSeeing, .has_clip = true};
const SmallWan kOfTwoSeenFrames{.transformer = kSeeing, .has_clip = true, .has_places = true};
const SmallWan kOfTextAndFrame{
    .transformer = golden_path("wan_frames/ti2v/transformer"), .vae = golden_path("wan_frames/ti2v/vae"), .vae_file = "vae/*.safetensors"};
const SmallWan kOfVace{.transformer = golden_path("wan_vace/transformer")};
const SmallWan kOfSeenControl{.transformer = kSeeing, .in_channels = 48, .has_clip = true};
const SmallWan kOfSeenControlAndReference{.transformer = kSeeing, .in_channels = 48, .has_clip = true, .has_reference = true};
const SmallWan kOfSeenCamera{.transformer = kSeeing, .in_channels = 32, .has_clip = true, .has_camera = true};
const SmallWan kOfControlAndReference{.transformer = kDiffusers, .in_channels = 52, .has_reference = true};
const SmallWan kOfAnimate{.transformer = golden_path("wan_animate/transformer"), .has_clip = true};
const SmallWan kOfDrivingClip{.transformer = golden_path("wan_animate2/transformer"), .has_clip = true};
const SmallWan kOfSound{.transformer = golden_path("wan_speech/transformer"), .has_sound = true};
const SmallWan kOfCamera{.transformer = kDiffusers, .in_channels = 36, .has_camera = true};

/// What the commands of one model have of their own.
struct Recipe {
  const char* name;
  const SmallWan* small;
  const char* repo;  ///< of the transformer
  const char* transformer = "diffusion_pytorch_model*.safetensors";
  const char* repo_of_others = nullptr;  ///< of text encoder and autoencoder, where it is not the transformer's
  const char* inputs = "";               ///< extra_inputs
  const char* keys = "";                 ///< data_file_keys
  const char* boundaries = "";
  const char* part = "dit";     ///< that LoRA adapts, and that full training trains
  const char* whole = nullptr;  ///< what full training trains, where it is another
  const char* flags = "";       ///< of both
  const char* full_flags = "";
  const char* full_rate = "1e-5";
  int64_t full_epochs = 2;
  const char* lora_rate = "1e-4";
  int64_t num_layers = 20;  ///< that LoRA adapts
};

constexpr const char* kHearing = "wav2vec2-large-xlsr-53-english/";
constexpr const char *kHigh = "high_noise_model/diffusion_pytorch_model*.safetensors",
                     *kLow = "low_noise_model/diffusion_pytorch_model*.safetensors";
constexpr const char *kHighOfText = "--max_timestep_boundary 0.417 --min_timestep_boundary 0",
                     *kLowOfText = "--max_timestep_boundary 1 --min_timestep_boundary 0.417",
                     *kHighOfFrame = "--max_timestep_boundary 0.358 --min_timestep_boundary 0",
                     *kLowOfFrame = "--max_timestep_boundary 1 --min_timestep_boundary 0.358";
constexpr const char *k13B = "Wan-AI/Wan2.1-T2V-1.3B", *k14B = "Wan-AI/Wan2.1-T2V-14B";
constexpr const char *kOffload = "--use_gradient_checkpointing_offload", *kOnCpu = "--initialize_model_on_cpu";
constexpr const char *kFirst = "input_image", *kBoth = "input_image,end_image",
                     *kCamera = "input_image,camera_control_direction,camera_control_speed", *kGuides = "vace_video,vace_reference_image",
                     *kControls = "control_video,reference_image";
constexpr const char *kVaceKeys = "video,vace_video,vace_reference_image", *kControlKeys = "video,control_video,reference_image";

/// Rows of one noise for all.
std::vector<Recipe> recipes_of_one() {
  std::vector<Recipe> all{
      {.name = "T2V_1_3B", .small = &kOfText, .repo = k13B},
      {.name = "T2V_14B", .small = &kOfText, .repo = k14B},
      {.name = "krea_realtime",
       .small = &kOfText,
       .repo = "krea/krea-realtime-video",
       .transformer = "krea-realtime-video-14b.safetensors",
       .repo_of_others = k14B},
      {.name = "I2V_480P", .small = &kOfSeenFrame, .repo = "Wan-AI/Wan2.1-I2V-14B-480P", .inputs = kFirst, .full_flags = kOnCpu},
      {.name = "I2V_720P",
       .small = &kOfSeenFrame,
       .repo = "Wan-AI/Wan2.1-I2V-14B-720P",
       .inputs = kFirst,
       .flags = "--use_gradient_checkpointing_offload --initialize_model_on_cpu"},
      {.name = "FLF2V", .small = &kOfTwoSeenFrames, .repo = "Wan-AI/Wan2.1-FLF2V-14B-720P", .inputs = kBoth, .full_flags = kOnCpu},
      {.name = "speedcontrol", .small = &kOfTextWithMotion, .repo = k13B, .inputs = "motion_bucket_id", .whole = "motion_controller"},
      {.name = "TI2V_5B", .small = &kOfTextAndFrame, .repo = "Wan-AI/Wan2.2-TI2V-5B", .inputs = kFirst},
      {.name = "S2V_14B",
       .small = &kOfSound,
       .repo = "Wan-AI/Wan2.2-S2V-14B",
       .inputs = "input_image,input_audio,s2v_pose_video",
       .keys = "video,input_audio,s2v_pose_video",
       .flags = "--use_gradient_checkpointing_offload --audio_processor_path \"Wan-AI/Wan2.2-S2V-14B:wav2vec2-large-xlsr-53-english/\"",
       .full_epochs = 1,
       .num_layers = 38},
  };
  struct Fun {
    const char *name, *repo;
    const SmallWan* small;
    const char *inputs, *keys = "", *lora_rate = "1e-4";
  };
  for (const auto& [name, repo, small, inputs, keys, rate] : {
           Fun{"Fun_1_3B_InP", "PAI/Wan2.1-Fun-1.3B-InP", &kOfSeenFrame, kBoth},
           {"Fun_14B_InP", "PAI/Wan2.1-Fun-14B-InP", &kOfSeenFrame, kBoth},
           {"FunV1_1_1_3B_InP", "PAI/Wan2.1-Fun-V1.1-1.3B-InP", &kOfSeenFrame, kBoth},
           {"FunV1_1_14B_InP", "PAI/Wan2.1-Fun-V1.1-14B-InP", &kOfSeenFrame, kBoth},
           {"Fun_1_3B_Control", "PAI/Wan2.1-Fun-1.3B-Control", &kOfSeenControl, "control_video", "video,control_video"},
           {"Fun_14B_Control", "PAI/Wan2.1-Fun-14B-Control", &kOfSeenControl, "control_video", "video,control_video"},
           {"FunV1_1_1_3B_Control", "PAI/Wan2.1-Fun-V1.1-1.3B-Control", &kOfSeenControlAndReference, kControls, kControlKeys},
           {"FunV1_1_14B_Control", "PAI/Wan2.1-Fun-V1.1-14B-Control", &kOfSeenControlAndReference, kControls, kControlKeys},
           {"FunV1_1_1_3B_Camera", "PAI/Wan2.1-Fun-V1.1-1.3B-Control-Camera", &kOfSeenCamera, kCamera, "", "1e-5"},
           {"FunV1_1_14B_Camera", "PAI/Wan2.1-Fun-V1.1-14B-Control-Camera", &kOfSeenCamera, kCamera, "", "1e-5"},
       })
    all.push_back({.name = name, .small = small, .repo = repo, .inputs = inputs, .keys = keys, .lora_rate = rate});
  for (const auto& [name, repo] : {std::pair("VACE_1_3B", "Wan-AI/Wan2.1-VACE-1.3B"),
                                   {"VACE_1_3B_Preview", "iic/VACE-Wan2.1-1.3B-Preview"},
                                   {"VACE_14B", "Wan-AI/Wan2.1-VACE-14B"}})
    all.push_back({.name = name,
                   .small = &kOfVace,
                   .repo = repo,
                   .inputs = kGuides,
                   .keys = kVaceKeys,
                   .part = "vace",
                   .flags = kOffload,
                   .full_rate = "5e-5"});
  all.push_back({.name = "Animate_14B",
                 .small = &kOfAnimate,
                 .repo = "Wan-AI/Wan2.2-Animate-14B",
                 .inputs = "input_image,animate_pose_video,animate_face_video",
                 .keys = "video,animate_pose_video,animate_face_video",
                 .whole = "animate_adapter",
                 .flags = kOffload,
                 .num_layers = 40});
  return all;
}

/// The two commands of a model of two experts.
void add_experts(std::vector<Recipe>& all, Recipe recipe, const char* high_name, const char* low_name, bool is_of_text = false) {
  recipe.name = high_name;
  recipe.transformer = kHigh;
  recipe.boundaries = is_of_text ? kHighOfText : kHighOfFrame;
  all.push_back(recipe);
  recipe.name = low_name;
  recipe.transformer = kLow;
  recipe.boundaries = is_of_text ? kLowOfText : kLowOfFrame;
  all.push_back(recipe);
}

std::vector<Recipe> recipes() {
  auto all = recipes_of_one();
  add_experts(all, {.name = "", .small = &kOfText, .repo = "Wan-AI/Wan2.2-T2V-A14B"}, "T2V_A14B_high", "T2V_A14B_low",
              /*is_of_text=*/true);
  add_experts(all, {.name = "", .small = &kOfFrame, .repo = "Wan-AI/Wan2.2-I2V-A14B", .inputs = kFirst, .full_flags = kOffload},
              "I2V_A14B_high", "I2V_A14B_low");
  Recipe fun{.name = "", .small = &kOfFrame, .repo = "PAI/Wan2.2-Fun-A14B-InP", .inputs = kBoth, .full_rate = "1e-4", .full_epochs = 5};
  add_experts(all, fun, "Fun_A14B_InP_high", "Fun_A14B_InP_low");
  fun.keys = kControlKeys;  // which the commands of cameras name beside columns that are not there
  fun.small = &kOfCamera, fun.repo = "PAI/Wan2.2-Fun-A14B-Control-Camera", fun.inputs = kCamera;
  add_experts(all, fun, "Fun_A14B_Camera_high", "Fun_A14B_Camera_low");
  fun.small = &kOfControlAndReference, fun.repo = "PAI/Wan2.2-Fun-A14B-Control", fun.inputs = kControls;
  add_experts(all, fun, "Fun_A14B_Control_high", "Fun_A14B_Control_low");
  add_experts(all,
              {.name = "",
               .small = &kOfVace,
               .repo = "PAI/Wan2.2-VACE-Fun-A14B",
               .inputs = kGuides,
               .keys = kVaceKeys,
               .part = "vace",
               .flags = kOffload,
               .full_flags = kOnCpu,
               .full_rate = "5e-5",
               .lora_rate = "5e-5"},
              "VACE_Fun_A14B_high", "VACE_Fun_A14B_low");
  return all;
}

std::vector<Recipe> recipes_named(std::initializer_list<std::string> names) {
  std::vector<Recipe> some;
  for (const auto& recipe : recipes()) {
    if (std::ranges::find(names, recipe.name) != names.end()) some.push_back(recipe);
  }
  return some;
}

void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

std::string name_of(const testing::TestParamInfo<Recipe>& info) { return info.param.name; }

constexpr int64_t kClipWidth = 16;

/// CLIP's towers of pictures and of texts in one file, in Wan's own names.
void write_clip(const fs::path& path) {
  const models::ModelEntry named{
      "", {}, "", nullptr, io::TensorSource::of_shapes("", {{"visual.cls_embedding", {1, 1, kClipWidth}}}, at::kFloat)};
  const models::ModelFiles files{{named}, {}};
  auto weights = io::TensorSource::open({kWanImage / "image_encoder/model.safetensors"});
  io::NamedTensors ours, all{{"log_scale", at::zeros({1})}, {"textual.token_embedding.weight", at::zeros({9, 4})}};
  for (const auto& name : weights.names()) ours.emplace_back(name, weights.tensor(name).clone());
  for (const auto& [name, tensor] : models::find_clip_vision(files).keys.to_file(ours)) {
    bool has_batch = name == "cls_embedding" || name == "pos_embedding";
    all.emplace_back("visual." + name, has_batch ? tensor.reshape({1, -1, kClipWidth}) : tensor);
  }
  save_pth(path, all);
}

class WanCommands : public BadInput, public testing::WithParamInterface<Recipe> {
 protected:
  /// The small model's files where the command looks for the published ones.
  void put(const Recipe& recipe) const {
    const auto& small = *recipe.small;
    const auto others = at("models") / others_of(recipe);
    const auto pattern = fs::path(recipe.transformer);
    const bool is_pattern = pattern.string().find('*') != std::string::npos;
    const auto file = at("models") / recipe.repo / pattern.parent_path() / (is_pattern ? fs::path(kTransformerFile) : pattern.filename());
    fs::create_directories(file.parent_path());
    make_wan_original(at("original"));
    const auto transformer = folder_ / small.transformer;
    auto config = nlohmann::json::parse(read_file(transformer / "config.json"));
    io::save_safetensors(file, transformer_of(small, transformer, config));
    std::ofstream(file.parent_path() / "config.json") << config.dump();
    fs::create_directories(others / "google");
    fs::copy_file(at("original") / kText, others / kText);
    fs::copy(kWan / "model/tokenizer", others / "google/umt5-xxl", fs::copy_options::recursive);
    const fs::path vae = small.vae_file;
    if (vae.has_parent_path()) fs::copy(folder_ / small.vae, others / vae.parent_path());
    else fs::copy_file(folder_ / small.vae / vae, others / vae);
    if (small.has_clip) write_clip(others / kClip);
    if (small.has_sound) {
      fs::copy(golden_path("wav2vec2"), others / kHearing);
      std::ofstream(others / kHearing / "preprocessor_config.json") << R"({"do_normalize": true, "sampling_rate": 16000})";
    }
    if (small.has_motion) write_motion_controller(at("models/DiffSynth-Studio/Wan2.1-1.3b-speedcontrol-v1/model.safetensors"));
  }
  /// Samples with every column that the published metadata of such a command has.
  std::string data(const Recipe& recipe) const {
    std::string columns = "video,prompt", values = "base30.mp4,red apple";
    auto names = [&](const std::string& column) {
      return ("," + std::string(recipe.inputs) + ",").find("," + column + ",") != std::string::npos;
    };
    for (const auto& [column, value] : {std::pair("control_video", "base30.mp4"),
                                        {"reference_image", "0.png"},
                                        {"input_audio", "sound.wav"},
                                        {"s2v_pose_video", "base30.mp4"},
                                        {"vace_video", "base30.mp4"},
                                        {"vace_reference_image", "0.png"},
                                        {"animate_pose_video", "base30.mp4"},
                                        {"animate_face_video", "base30.mp4"},
                                        {"camera_control_direction", "Left"},
                                        {"camera_control_speed", "0.01"},
                                        {"motion_bucket_id", "50"}}) {
      if (!names(column)) continue;
      columns += std::string(",") + column;
      values += std::string(",") + value;
    }
    return data(columns, values);
  }
  std::string data(const std::string& columns, const std::string& values) const {
    write("clips/metadata.csv", columns + "\n" + values + "\n");
    fs::copy_file(golden_path("clips/base30.mp4"), at("clips/base30.mp4"), fs::copy_options::skip_existing);
    fs::copy_file(golden_path("clips/sound.wav"), at("clips/sound.wav"), fs::copy_options::skip_existing);
    fs::copy_file(kGolden / "pictures/0.png", at("clips/0.png"), fs::copy_options::skip_existing);
    return "--dataset_base_path " + quoted(at("clips")) + " --dataset_metadata_path " + quoted(at("clips/metadata.csv"));
  }
  static std::string others_of(const Recipe& recipe) { return recipe.repo_of_others != nullptr ? recipe.repo_of_others : recipe.repo; }
  static std::string transformer_id(const Recipe& recipe) { return std::string(recipe.repo) + ":" + recipe.transformer; }
  static std::string other_ids(const Recipe& recipe) {
    const auto others = others_of(recipe);
    auto ids = others + ":" + kText + "," + others + ":" + recipe.small->vae_file;
    if (recipe.small->has_clip) ids += "," + others + ":" + kClip;
    if (recipe.small->has_sound) ids += "," + others + ":" + kHearing + "model.safetensors";
    return recipe.small->has_motion ? ids + "," + kMotionController : ids;
  }
  /// What all commands have alike; 5 frames of 32 × 64 in place of 17 to 81 of 480 × 832, and one visit in place of 100.
  std::string command(const Recipe& recipe, const std::string& data, const std::string& part, const std::string& trained) const {
    std::string text = "train " + data + " --height 32 --width 64 --dataset_repeat 1 --model_id_with_origin_paths \"" +
                       transformer_id(recipe) + "," + other_ids(recipe) + "\" --remove_prefix_in_ckpt \"pipe." + part + ".\" " + trained;
    auto add = [&](const std::string& flag, const std::string& value) {
      if (!value.empty()) text += " --" + flag + " \"" + value + "\"";
    };
    add("data_file_keys", recipe.keys);
    add("extra_inputs", recipe.inputs);
    return text + " " + recipe.boundaries + " " + recipe.flags + " ";
  }
  std::string full(const Recipe& recipe, const std::string& data) const {
    const std::string part = recipe.whole != nullptr ? recipe.whole : recipe.part;
    return command(recipe, data + kFrames, part,
                   std::string("--learning_rate ") + recipe.full_rate + " --num_epochs " + std::to_string(recipe.full_epochs) +
                       " --trainable_models \"" + part + "\" " + recipe.full_flags);
  }
  std::string lora(const Recipe& recipe, const std::string& data) const {
    return command(recipe, data, recipe.part,
                   std::string("--learning_rate ") + recipe.lora_rate + " --num_epochs 5 --lora_base_model \"" + recipe.part +
                       "\" --lora_target_modules \"q,k,v,o,ffn.0,ffn.2\" --lora_rank 32");
  }
  std::string runs(const std::string& text, const fs::path& folder) const {
    auto outcome = run_burnish(text + " --output_path " + quoted(folder), "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << text << "\n" << outcome.output;
    return outcome.output;
  }
  std::string runs(const std::string& text) const { return runs(text, out()); }
  /// The file of the last of one or more steps.
  std::string trained_file() const {
    for (const auto& file : files_below(out())) {
      if (file.starts_with("step-") && file.ends_with(".safetensors")) return file;
    }
    return "";
  }
  static constexpr const char* kFrames = " --num_frames 5";
};

}  // namespace

TEST_P(WanCommands, Lora) {
  put(GetParam());
  EXPECT_THAT(runs(lora(GetParam(), data(GetParam()) + kFrames)),
              HasSubstr("lora of rank 32, scale 1 on " + std::to_string(GetParam().num_layers) + " layers"));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-5."));
}

TEST_P(WanCommands, Full) {
  put(GetParam());
  runs(full(GetParam(), data(GetParam())));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-" + std::to_string(GetParam().full_epochs) + "."));
}

INSTANTIATE_TEST_SUITE_P(Of, WanCommands, testing::ValuesIn(recipes()), name_of);

namespace {

/// Commands of the folder `special`, and what is refused by name.
class WanSpecialCommands : public WanCommands {};
/// Those of them for picture to video.
class WanSpecialCommandsOfPictures : public WanCommands {
 protected:
  /// Makes the cache and trains from it, as two commands that name the same files and sizes.
  std::string split(const std::string& of_cache, const std::string& of_training) const {
    const auto& recipe = GetParam();
    const auto cache = at("cache");
    runs(lora(recipe, data(recipe) + kFrames) + "--task \"sft:data_process\" --offload_models \"" + transformer_id(recipe) + "\" " +
             of_cache,
         cache);
    return runs(lora(recipe, "--dataset_base_path " + quoted(cache)) + "--task \"sft:train\" --offload_models \"" + other_ids(recipe) +
                "\" " + of_training);
  }
};
/// Those of Wan-Animate-2, which encode without the transformer and train with it alone.
class WanDrivingCommands : public WanCommands {
 protected:
  static constexpr const char* kOthers = "Wan-AI/Wan2.1-T2V-14B";
  static std::string encoders() {
    const std::string folder = "Wan-AI/Wan2.2-Animate-2-14B:videomodel/Wan-AI/";
    return folder + kText + "," + folder + kClip + "," + kOthers + ":Wan2.1_VAE.pth";
  }
  void put_all() const {
    put(GetParam());
    const auto beside = at("models/Wan-AI/Wan2.2-Animate-2-14B/videomodel/Wan-AI");
    fs::create_directories(beside);
    for (const char* file : {kText, kClip}) fs::rename(at("models") / kOthers / file, beside / file);
  }
  std::string samples() const {
    auto text = data("video", "base30.mp4");  // the files
    write("clips/metadata.json", R"([{"video": "base30.mp4", "prompt": "red apple", "animate2_reference_image": ["0.png"],
      "animate2_reference_video": "base30.mp4", "animate2_prompt_ref": "a cat"}])");
    return "--dataset_base_path " + quoted(at("clips")) + " --dataset_metadata_path " + quoted(at("clips/metadata.json"));
  }
  std::string command(const std::string& task, const std::string& data, const std::string& ids, const std::string& how) const {
    return "train " + data +
           " --data_file_keys \"video,animate2_reference_image,animate2_reference_video\" --height 64 --width 32 --num_frames 5 "
           "--dataset_repeat 1 --model_id_with_origin_paths \"" +
           ids + "\" --remove_prefix_in_ckpt \"pipe.dit.\" " + how +
           " --extra_inputs \"animate2_prompt_ref,animate2_reference_image,animate2_reference_video\" --use_gradient_checkpointing --task "
           "\"sft:" +
           task + "\"";
  }
  /// Both commands; what the second says.
  std::string both(const std::string& of_cache, const std::string& of_training) const {
    runs(command("data_process", samples(), encoders(), of_cache), at("cache"));
    return runs(command("train", "--dataset_base_path " + quoted(at("cache")), transformer_id(GetParam()), of_training));
  }
};
/// Both experts in one run, in place of the two commands.
class WanBothExperts : public WanCommands {};
/// Those for other processors than CUDA's.
class WanNpuCommands : public WanCommands {};

}  // namespace

TEST_P(WanSpecialCommands, DirectDistillation) {
  put(GetParam());
  auto samples = data("video,prompt,seed,rand_device,num_inference_steps,cfg_scale", "base30.mp4,red apple,0,cpu,4,1");
  runs(full(GetParam(), samples) + "--task direct_distill --extra_inputs \"seed,rand_device,num_inference_steps,cfg_scale\"");
  EXPECT_THAT(trained_file(), testing::StartsWith("step-2."));
}

TEST_P(WanSpecialCommands, OfClipsThatAreSlowerThanTheModelsTakeEveryFrame) {
  put(GetParam());
  auto samples = data("video,prompt", "slow.gif,red apple");
  fs::copy_file(kWanImage / "clips/0.gif", at("clips/slow.gif"));
  EXPECT_THAT(runs(lora(GetParam(), samples + kFrames)),
              testing::AllOf(HasSubstr("slow.gif has 5 frames in 0.5 s, and the model 16 a second"), HasSubstr("64x32x5 (1)")));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-5."));
}

TEST_P(WanSpecialCommands, OfOtherModelsAreRefusedByName) {
  for (const char* id : {"meituan-longcat/LongCat-Video-Avatar:avatar_single/diffusion_pytorch_model*.safetensors",
                         "Wan-AI/Wan-Dancer-14B:global_model.safetensors",
                         "ByteDance/Video-As-Prompt-Wan2.1-14B:transformer/diffusion_pytorch_model*.safetensors"}) {
    std::string repo(id);
    repo = repo.substr(0, repo.find(':'));
    refused(3, "train " + data(GetParam()) + " --model_id_with_origin_paths \"" + id + "\" --lora_rank 32 --output_path " + quoted(out()),
            {repo, "is not supported"});
  }
}

INSTANTIATE_TEST_SUITE_P(Of, WanSpecialCommands, testing::ValuesIn(recipes_named({"T2V_1_3B"})), name_of);

TEST_P(WanSpecialCommandsOfPictures, Fp8) {
  put(GetParam());
  runs(lora(GetParam(), data(GetParam()) + kFrames) + "--fp8_models \"" + transformer_id(GetParam()) + "," + other_ids(GetParam()) + "\"");
  EXPECT_THAT(trained_file(), testing::StartsWith("step-5."));
}

TEST_P(WanSpecialCommandsOfPictures, SplitIsTheSameAsOneRun) {
  put(GetParam());
  runs(lora(GetParam(), data(GetParam()) + kFrames), at("whole"));
  EXPECT_THAT(split("", ""), HasSubstr("height has no effect here: it belongs to the command that makes the cache"));
  ASSERT_EQ(trained_file(), "step-5.safetensors");
  EXPECT_EQ(read_file(out() / "step-5.safetensors"), read_file(at("whole") / "step-5.safetensors"));
}

TEST_P(WanSpecialCommandsOfPictures, LowMemory) {
  put(GetParam());
  const std::string offload = std::string(" ") + kOffload;
  split("--fp8_models \"" + other_ids(GetParam()) + "\"" + offload, "--fp8_models \"" + transformer_id(GetParam()) + "\"" + offload);
  EXPECT_THAT(trained_file(), testing::StartsWith("step-5."));
}

INSTANTIATE_TEST_SUITE_P(Of, WanSpecialCommandsOfPictures, testing::ValuesIn(recipes_named({"I2V_480P"})), name_of);

TEST_P(WanDrivingCommands, Lora) {
  put_all();
  const std::string how =
      "--learning_rate 1e-4 --num_epochs 5 --lora_base_model \"dit\" --lora_target_modules "
      "\"self_attn.q,self_attn.k,self_attn.v\" --lora_rank 32";
  EXPECT_THAT(both(how, how), HasSubstr("lora of rank 32, scale 1 on 30 layers"));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-5."));
}

TEST_P(WanDrivingCommands, FullOfLayersByTheirNames) {
  put_all();
  std::string layers;
  for (int block = 0; block < 10; ++block) {
    for (const char* layer : {"q", "k", "v"})
      layers += (layers.empty() ? "" : ",") + ("dit.blocks." + std::to_string(block)) + ".block.self_attn." + layer;
  }
  const std::string how = "--learning_rate 1e-5 --num_epochs 2";
  both(how, how + " --trainable_models \"" + layers + "\"");
  EXPECT_THAT(trained_file(), testing::StartsWith("step-2."));
  auto names = io::TensorSource::open({(out() / trained_file()).string()}).names();
  EXPECT_EQ(names.size(), 60u) << names.front();
}

INSTANTIATE_TEST_SUITE_P(Of, WanDrivingCommands,
                         testing::Values(Recipe{.name = "Animate_2",
                                                .small = &kOfDrivingClip,
                                                .repo = "Wan-AI/Wan2.2-Animate-2-14B",
                                                .transformer = "wan_animate_2/wan_animate_2_bf16.safetensors",
                                                .repo_of_others = "Wan-AI/Wan2.1-T2V-14B"},
                                         Recipe{.name = "Animate_2_Distilled",
                                                .small = &kOfDrivingClip,
                                                .repo = "Wan-AI/Wan2.2-Animate-2-14B",
                                                .transformer = "wan_animate_2/wan_animate_2_bf16_distillation.safetensors",
                                                .repo_of_others = "Wan-AI/Wan2.1-T2V-14B"}),
                         name_of);

TEST_P(WanBothExperts, Lora) {
  auto recipe = GetParam();
  const bool is_vace = recipe.part == std::string("vace");
  recipe.boundaries = "";
  recipe.part = is_vace ? "vace,vace_2" : "dit,dit_2";
  put(recipe);
  fs::copy(at("models") / recipe.repo / "high_noise_model", at("models") / recipe.repo / "low_noise_model", fs::copy_options::recursive);
  auto text = lora(recipe, data(recipe) + kFrames);
  text.insert(text.find(transformer_id(recipe)), std::string(recipe.repo) + ":" + kLow + ",");
  const std::string layers = "lora of rank 32, scale 1 on 20 layers of ", part = is_vace ? "vace" : "dit";
  EXPECT_THAT(runs(text), testing::AllOf(HasSubstr(layers + part), HasSubstr(layers + part + "_2")));
  std::set<std::string> files, adapted;
  for (const auto& file : files_below(out())) {
    if (!file.starts_with("step-5") || !file.ends_with(".safetensors")) continue;
    files.insert(file);
    for (const auto& name : io::TensorSource::open({(out() / file).string()}).names()) adapted.insert(name.substr(0, name.find('.')));
  }
  EXPECT_EQ(files, is_vace ? (std::set<std::string>{"step-5.safetensors"})
                           : (std::set<std::string>{"step-5.high_noise.safetensors", "step-5.low_noise.safetensors"}));
  EXPECT_EQ(adapted, is_vace ? (std::set<std::string>{"transformer", "transformer_2"}) : (std::set<std::string>{"transformer"}));
}

INSTANTIATE_TEST_SUITE_P(Of, WanBothExperts,
                         testing::ValuesIn(recipes_named({"Fun_A14B_InP_high", "Fun_A14B_Control_high", "Fun_A14B_Camera_high",
                                                          "VACE_Fun_A14B_high"})),
                         name_of);

TEST_P(WanNpuCommands, Full) {
  auto recipe = GetParam();
  recipe.full_flags = kOnCpu;
  if (recipe.part == std::string("vace")) recipe.full_rate = "1e-4";
  put(recipe);
  runs(full(recipe, data(recipe)));
  EXPECT_THAT(trained_file(), testing::StartsWith("step-2."));
}

INSTANTIATE_TEST_SUITE_P(
    Of, WanNpuCommands,
    testing::ValuesIn(recipes_named({"T2V_14B", "T2V_A14B_high", "T2V_A14B_low", "VACE_Fun_A14B_high", "VACE_Fun_A14B_low"})), name_of);
