// Settings of MiniMax-H3 in other programs, as these publish them: what of a still, of its times and of its guidance each means.
#include <gmock/gmock.h>

#include "foreign/import.h"
#include "tests/foreign/run_options.h"
#include "tests/scratch.h"

using namespace burnish;
using foreign::Value;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

namespace {

class SettingsOfH3 : public testing::Test {
 protected:
  struct Done {
    test::RunOptions run;
    foreign::Import said;
    Value value(const std::string& option) const { return Value::parse(run.values().at(option)); }
    bool is_from(const std::string& option) const { return said.origins.contains(option); }
  };

  Done import(const std::string& file, const std::string& text) {
    Done done;
    done.said = foreign::import_settings(scratch_.write(file, text), "", done.run.fields, scratch_ / "run.toml").second;
    return done;
  }
  std::string folder(const std::string& name) const {
    std::filesystem::create_directories(scratch_ / name);
    return scratch_ / name;
  }

  /// What ai-toolkit's form writes for the model, with what is changed of it.
  Done of_ai_toolkit(const Value& changes = Value::object()) {
    auto process = Value::parse(R"({"type": "diffusion_trainer", "training_folder": "output", "device": "cuda",
      "model": {"arch": "minimax_h3", "name_or_path": "Comfy-Org/MiniMax-H3", "quantize": true, "qtype": "convrot8", "quantize_te": true,
                "qtype_te": "nvfp4", "low_vram": true, "model_kwargs": {},
                "assistant_lora_path": "ostris/minimax_h3_training_adapter/minimax_h3_training_adapter_v1.safetensors"},
      "network": {"type": "lora", "linear": 16, "linear_alpha": 16, "network_kwargs": {"ignore_if_contains": ["adaln_proj"]}},
      "train": {"noise_scheduler": "flowmatch", "timestep_type": "shift", "do_guidance_loss": true, "guidance_loss_target": 3.5,
                "audio_loss_multiplier": 1.0, "cache_text_embeddings": true, "lr": 1e-4, "steps": 10},
      "datasets": [{"resolution": [512], "num_frames": 1, "do_i2v": false, "do_audio": true, "fps": 24}]})");
    process["datasets"][0]["folder_path"] = folder("data");
    process.merge_patch(changes);
    Value tree;
    tree["config"] = {{"name", "x"}, {"process", {process}}};
    return import("job.json", Value{{"job", "extension"}, {"config", tree["config"]}}.dump());
  }

  test::Scratch scratch_;
};

}  // namespace

TEST_F(SettingsOfH3, AiToolkitTrainsStillsBesideNoiseOnTheCurveOfSteps) {
  const auto done = of_ai_toolkit();
  EXPECT_THAT(done.value("model_id_with_origin_paths"),
              HasSubstr("Comfy-Org/MiniMax-H3:diffusion_models/minimax_h3_fl2va_pruned_int8_convrot.safetensors"));
  EXPECT_EQ(done.value("model").size(), 0u);
  EXPECT_EQ(done.value("tokenizer_path"), "MiniMax/MiniMax-H3:FL2VA/tokenizer/");
  EXPECT_EQ(done.value("timestep_sampling"), "sigma");
  EXPECT_EQ(done.value("discrete_flow_shift"), 12);
  EXPECT_EQ(done.value("sound_of_stills"), "noise");
  EXPECT_EQ(done.value("training_cfg_scale"), 3.5);
  EXPECT_EQ(done.value("training_cfg_loss"), "target");
  EXPECT_THAT(done.said.different, Contains(HasSubstr("take one of the two")));
  EXPECT_TRUE(done.is_from("preset_lora_path")) << "the adapter beside the guidance, as its form has both";
  EXPECT_EQ(done.value("max_sequence_length"), 512);
  EXPECT_EQ(done.value("weight_format"), "int8_convrot");
  EXPECT_EQ(done.value("lora_target_modules").dump(),
            Value("(transformer_blocks|token_refiner\\.refiner_blocks)\\.[0-9]+\\.(attn|ff)\\..*").dump());
  for (const char* name : {"model.arch", "ignore_if_contains", "do_audio", "audio_loss_multiplier", "num_frames"})
    EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr(name))));
}

TEST_F(SettingsOfH3, AiToolkitTakesClipsDownToWhatTheModelTakes) {
  const auto clips = Value{{"datasets", {{{"folder_path", folder("clips")}, {"num_frames", 50}, {"do_audio", true}, {"do_i2v", true}}}}};
  const auto done = of_ai_toolkit(clips);
  EXPECT_EQ(done.value("num_frames"), 39);
  EXPECT_EQ(done.value("extra_inputs"), "input_image,input_audio");
  const auto heard = of_ai_toolkit({{"datasets", {{{"folder_path", folder("clips")}, {"num_frames", 39}, {"do_audio", true}}}},
                                    {"train", {{"audio_loss_multiplier", 0.5}}}});
  EXPECT_EQ(heard.value("extra_inputs"), "input_audio");
  EXPECT_EQ(heard.value("sound_loss_weight"), 0.5);
}

TEST_F(SettingsOfH3, AiToolkitsFilesAreThoseOfThePartition) {
  const auto of = [&](const Value& model) { return of_ai_toolkit({{"model", model}}); };
  const auto whole = of({{"model_kwargs", {{"partition", "fl2va"}, {"dit_fl2va_path", "mine.safetensors"}, {"dit_ref2va_path", "b"}}}});
  EXPECT_THAT(whole.value("model").dump(), HasSubstr("mine.safetensors"));
  EXPECT_THAT(whole.value("model_id_with_origin_paths").dump(), Not(HasSubstr("diffusion_models")));
  EXPECT_THAT(whole.said.not_carried, Contains(HasSubstr("dit_ref2va_path = b: partition asks for another file")));
  const auto here = of({{"name_or_path", folder("comfy")}});
  EXPECT_THAT(here.value("model").dump(), HasSubstr("comfy/diffusion_models/minimax_h3_fl2va_pruned_int8_convrot.safetensors"));
  EXPECT_EQ(here.value("model_id_with_origin_paths"), "");
  const auto of_references = of({{"arch", "minimax_h3_ref2va"}, {"model_kwargs", {{"max_text_length", 0}}}});
  EXPECT_THAT(of_references.value("model_id_with_origin_paths").dump(), HasSubstr("minimax_h3_ref2va_pruned_int8_convrot"));
  EXPECT_FALSE(of_references.is_from("max_sequence_length"));
  EXPECT_EQ(of_references.value("extra_inputs"), "references");
  EXPECT_THAT(of_references.said.different, Contains(HasSubstr("in the column references of a metadata file")));
  EXPECT_THAT(of_references.value("model_id_with_origin_paths").dump(), HasSubstr("qwen3vl_32b_minimax_h3_int8_convrot"));
  EXPECT_THAT(of_references.said.different, Contains(HasSubstr("the scaled inputs of its NVFP4 are not read")));
}

TEST_F(SettingsOfH3, ModulationsTrainInAiToolkitWhereTheyAreNotIgnored) {
  const auto done = of_ai_toolkit({{"network", {{"network_kwargs", nullptr}}}});
  EXPECT_THAT(done.value("lora_target_modules").dump(), HasSubstr("adaln_proj"));
}

TEST_F(SettingsOfH3, AShiftThatIsOneForAllSizesIsTakenOfTheKindOfModel) {
  const auto shift = [&](const char* arch) {
    const auto done = of_ai_toolkit({{"model", {{"arch", arch}, {"name_or_path", "x"}}}});
    return done.value("timestep_sampling").get<std::string>() + " " + done.value("discrete_flow_shift").dump();
  };
  EXPECT_EQ(shift("wan21:14b"), "sigma 3.0");
  EXPECT_EQ(shift("wan22_5b"), "sigma 5.0");
  EXPECT_EQ(shift("flux2"), "flux_shift 3.0") << "which follows from the size";
}

TEST_F(SettingsOfH3, MusubisStillsStandBesideSilence) {
  const auto data = "[general]\nresolution = [1024, 1024]\n[[datasets]]\nimage_directory = '" + folder("images") + "'\n";
  scratch_.write("images.toml", data);
  const auto done = import("train.sh", "accelerate launch --mixed_precision bf16 minimax_h3_train_network.py --dataset_config " +
                                           (scratch_ / "images.toml").string() +
                                           " --task t2va --one_frame --dit /models/minimax_h3_fl2va_bf16.safetensors --network_dim 16 "
                                           "--network_alpha 16 --video_only --sdpa --mixed_precision bf16 --gradient_checkpointing "
                                           "--blocks_to_swap 48 --optimizer_type adamw8bit --learning_rate 1e-4 --max_train_epochs 16 "
                                           "--timestep_sampling uniform --discrete_flow_shift 1.0 --h3_guidance_loss_scale 4.0 "
                                           "--h3_guidance_loss_sigma_min 0.15 --h3_guidance_loss_uncond_cache uncond.safetensors "
                                           "--convrot_int8 --h3_timestep_focus_prob 0.5 --output_dir out --output_name h3");
  EXPECT_EQ(done.value("timestep_sampling"), "sigma") << "even times, before a shift that is not discrete_flow_shift there";
  EXPECT_EQ(done.value("discrete_flow_shift"), 12);
  EXPECT_EQ(done.value("training_cfg_scale"), 4);
  EXPECT_EQ(done.value("training_cfg_loss"), "target");
  EXPECT_EQ(done.value("weight_format"), "int8_convrot");
  EXPECT_EQ(done.value("fp8_models"), "dit");
  EXPECT_EQ(done.value("lora_format"), "kohya");
  EXPECT_EQ(done.value("lora_rank"), 16) << "its script names its network by itself";
  EXPECT_FALSE(done.is_from("trainable_models"));
  EXPECT_EQ(done.value("lora_target_modules"), "transformer_blocks\\.[0-9]+\\.(attn|ff)\\..*");
  EXPECT_THAT(done.said.different, Contains(HasSubstr("silence as its autoencoder has it stands beside a still there")));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("h3_guidance_loss_sigma_min = 0.15: all of a visit's time is under guidance")));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("h3_timestep_focus_prob = 0.5")));
}

TEST_F(SettingsOfH3, MusubisClipsAndWhatIsMissingOfThem) {
  const auto data = "[[datasets]]\nvideo_directory = '" + folder("clips") + "'\ntarget_frames = [60]\n";
  scratch_.write("clips.toml", data);
  const auto done =
      import("train.sh", "accelerate launch minimax_h3_train_network.py --dataset_config " + (scratch_ / "clips.toml").string() +
                             " --task fl2va --dit d.safetensors --min_timestep 100 --h3_shift_audio 2 --audio_loss_weight 0.5");
  EXPECT_EQ(done.value("num_frames"), 56);
  EXPECT_EQ(done.value("extra_inputs"), "input_image,end_image,input_audio");
  EXPECT_EQ(done.value("sound_loss_weight"), 0.5);
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("h3_shift_audio = 2: the sound's noise follows")));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("min_timestep = 100: cuts times off before their shift")));
  const auto of_references = import("train.sh", "accelerate launch minimax_h3_train_network.py --dataset_config " +
                                                    (scratch_ / "clips.toml").string() + " --task ref2va --dit d.safetensors");
  EXPECT_EQ(of_references.value("extra_inputs"), "references,input_audio");
  EXPECT_THAT(of_references.said.different, Contains(HasSubstr("in the column references of a metadata file")));
}

TEST_F(SettingsOfH3, SimpleTunersDriftIsOurs) {
  const auto example = Value::parse(R"({"audio_flow_schedule_shift": 3.0, "base_model_precision": "no_change",
    "caption_dropout_probability": 0.1, "distillation_config": {"h3_drift": {"audio_weight": 1.0, "balance": "token", "loss_weight": 0.5,
    "sft_loss_weight": 1.0, "video_weight": 1.0}}, "distillation_method": "h3_drift", "flow_schedule_shift": 12.0,
    "gradient_checkpointing": true, "learning_rate": 6e-5, "lora_rank": 16, "lora_type": "standard", "max_grad_norm": 0.1,
    "max_train_steps": 200, "mixed_precision": "bf16", "model_family": "minimaxh3", "model_flavour": "convrot-int8", "model_type": "lora",
    "musubi_blocks_to_swap": 25, "optimizer": "adamw_bf16", "vae_enable_tiling": true, "vae_enable_temporal_roll": true})");
  const auto done = import("config.json", example.dump());
  EXPECT_EQ(done.value("drift_loss_weight"), 0.5);
  EXPECT_EQ(done.value("sft_loss_weight"), 1);
  EXPECT_EQ(done.value("timestep_sampling"), "shift");
  EXPECT_EQ(done.value("discrete_flow_shift"), 12);
  EXPECT_EQ(done.value("sound_of_stills"), "none") << "which it leaves out of a still's sequence";
  EXPECT_EQ(done.value("max_sequence_length"), 512);
  EXPECT_EQ(done.value("blocks_to_swap"), 25);
  EXPECT_EQ(done.value("lora_target_modules"), "to_k,to_q,to_v,to_out.0");
  EXPECT_FALSE(done.is_from("vae_tile_size"));
  for (const char* name : {"h3_drift", "distillation", "audio_flow", "temporal_roll"})
    EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr(name))));

  auto other = example;
  other["flow_schedule_shift"] = 3.0;
  other["distillation_config"] = R"({"balance": "modality", "inner_distillation_method": "anyflow"})";
  const auto changed = import("config.json", other.dump());
  EXPECT_EQ(changed.value("discrete_flow_shift"), 12) << "its default for all models, which it corrects";
  EXPECT_EQ(changed.value("drift_loss_weight"), 1);
  EXPECT_THAT(changed.said.not_carried, Contains(HasSubstr("h3_drift.inner_distillation_method = anyflow")));
  EXPECT_THAT(changed.said.not_carried, Contains(HasSubstr("h3_drift.balance = modality")));
  other["distillation_method"] = "dmd";
  EXPECT_THAT(import("config.json", other.dump()).said.not_carried, Contains(HasSubstr("distillation_method = dmd: no such objective")));
}

TEST_F(SettingsOfH3, DiffusionPipesPicturesHaveAShiftOfTheirOwn) {
  const auto of = [&](const std::string& buckets, const std::string& more = "") {
    scratch_.write("data.toml", "resolutions = [768]\n" + buckets + "\n[[directory]]\npath = '" + folder("d") + "'\n");
    return import("pipe.toml", "output_dir = 'o'\ndataset = '" + (scratch_ / "data.toml").string() + R"('
epochs = 2
blocks_to_swap = 48
activation_checkpointing = 'unsloth'
[model]
type = 'minimax_h3'
diffusion_model = 'minimax_h3_fl2va_pruned_int8_convrot.safetensors'
vae = 'minimax_h3_video_vae_fp16.safetensors'
audio_vae = 'minimax_h3_audio_vae_fp32.safetensors'
text_encoders = [{path = 'qwen3vl_32b_minimax_h3_int8_convrot.safetensors', type = 'minimax'}]
dtype = 'bfloat16'
timestep_sample_method = 'uniform'
shift = 8
image_shift = 1.5
cfg = 4
)" + more + R"(
[adapter]
type = 'lora'
rank = 32
dtype = 'bfloat16'
[optimizer]
type = 'adamw_optimi'
lr = 1e-4
)");
  };
  const auto pictures = of("");
  EXPECT_EQ(pictures.value("timestep_sampling"), "sigma");
  EXPECT_EQ(pictures.value("discrete_flow_shift"), 1.5);
  EXPECT_EQ(pictures.value("sound_of_stills"), "none");
  EXPECT_EQ(pictures.value("training_cfg_scale"), 4);
  EXPECT_EQ(pictures.value("model").size(), 3u);
  EXPECT_THAT(pictures.value("lora_target_modules").dump(), HasSubstr("token_refiner"));
  EXPECT_THAT(pictures.said.not_carried, Not(Contains(HasSubstr("audio_vae"))));
  const auto clips = of("frame_buckets = [1, 34, 68]");
  EXPECT_EQ(clips.value("discrete_flow_shift"), 8);
  EXPECT_EQ(clips.value("num_frames"), 56) << "68 frames give the latents of 56";
  EXPECT_THAT(clips.said.not_carried, Contains(HasSubstr("image_shift = 1.5: pictures and clips have one shift")));
  EXPECT_EQ(clips.value("extra_inputs"), "input_audio");
  EXPECT_EQ(clips.value("sound_of_stills"), "noise") << "sound that is learned is seen";
}
