// Settings of LTX-2, 2.3 and 2.5 in other programs, as these publish them: their files, their layers, and what each says of clips and of
// the sound beside them.
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

class SettingsOfLtx : public testing::Test {
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

  /// What ai-toolkit's form writes for a model, with what is changed of it.
  Done of_ai_toolkit(const std::string& arch, const std::string& model, const Value& changes = Value::object()) {
    auto process = Value::parse(R"({"type": "diffusion_trainer", "training_folder": "output", "device": "cuda",
      "model": {"quantize": true, "quantize_te": true, "low_vram": true},
      "network": {"type": "lora", "linear": 32, "linear_alpha": 32},
      "train": {"noise_scheduler": "flowmatch", "timestep_type": "shift", "audio_loss_multiplier": 0.5, "lr": 1e-4, "steps": 10},
      "datasets": [{"resolution": [512], "num_frames": 50, "do_i2v": false, "do_audio": true, "fps": 24}]})");
    process["model"]["arch"] = arch;
    process["model"]["name_or_path"] = model;
    process["datasets"][0]["folder_path"] = folder("data");
    process.merge_patch(changes);
    return import("job.json", Value{{"job", "extension"}, {"config", {{"name", "x"}, {"process", {process}}}}}.dump());
  }

  /// SimpleTuner's example for 2.3 with one dataset of clips, each with what is changed of it.
  Done of_simpletuner(const Value& changes = Value::object(), const Value& of_data = Value::object()) {
    auto data =
        Value::parse(R"([{"id": "clips", "type": "local", "dataset_type": "video", "resolution": 512, "caption_strategy": "textfile",
      "video": {"num_frames": 61, "min_frames": 61}}, {"id": "texts", "dataset_type": "text_embeds", "default": true}])");
    data[0]["instance_data_dir"] = folder("clips");
    data[0].merge_patch(of_data);
    auto config = Value::parse(R"({"base_model_precision": "int8-torchao", "gradient_checkpointing": true, "learning_rate": 6e-5,
      "lora_rank": 16, "lora_type": "standard", "max_train_steps": 200, "mixed_precision": "bf16", "model_family": "ltxvideo2",
      "model_flavour": "2.3-dev", "model_type": "lora", "musubi_blocks_to_swap": 12, "optimizer": "adamw_bf16",
      "vae_enable_temporal_roll": true})");
    config["data_backend_config"] = scratch_.write("data.json", data.dump()).string();
    config.merge_patch(changes);
    return import("config.json", config.dump());
  }

  test::Scratch scratch_;
};

}  // namespace

TEST_F(SettingsOfLtx, SimpleTunersFrameRateIsThatOfClips) {
  const auto done = of_simpletuner({{"framerate", 25}});
  EXPECT_EQ(done.value("frame_rate"), 25.0);
  EXPECT_FALSE(of_simpletuner().is_from("frame_rate"));
}

TEST_F(SettingsOfLtx, AiToolkitsFileOfAHubHasATextEncoderBesideIt) {
  const auto done = of_ai_toolkit("ltx2.3", "Lightricks/LTX-2.3/ltx-2.3-22b-dev.safetensors");
  EXPECT_EQ(done.value("model_id_with_origin_paths"),
            "Lightricks/LTX-2.3:ltx-2.3-22b-dev.safetensors,Lightricks/gemma-3-12b-it-qat-q4_0-unquantized:model-*.safetensors");
  EXPECT_EQ(done.value("model").size(), 0u);
  EXPECT_EQ(done.value("lora_target_modules"), "transformer_blocks\\.[0-9]+\\..*");
  EXPECT_EQ(done.value("timestep_sampling"), "default") << "shifted by tokens, as the model's steps are";
  EXPECT_EQ(done.value("num_frames"), 49);
  EXPECT_EQ(done.value("extra_inputs"), "input_audio");
  EXPECT_EQ(done.value("sound_loss_weight"), 0.5);
  EXPECT_THAT(done.said.different, Contains(HasSubstr("1 frame and a multiple of 8")));
  for (const char* name : {"model.arch", "do_audio", "audio_loss_multiplier"})
    EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr(name))));
}

TEST_F(SettingsOfLtx, AiToolkitGoesOnFromAFirstFrame) {
  const auto clips = Value{{"datasets", {{{"folder_path", folder("clips")}, {"num_frames", 49}, {"do_audio", true}, {"do_i2v", true}}}}};
  EXPECT_EQ(of_ai_toolkit("ltx2", "Lightricks/LTX-2", clips).value("extra_inputs"), "input_image,input_audio");
  const auto silent = Value{{"datasets", {{{"folder_path", folder("clips")}, {"num_frames", 49}, {"do_i2v", true}}}}};
  EXPECT_EQ(of_ai_toolkit("ltx2", "Lightricks/LTX-2", silent).value("extra_inputs"), "input_image");
}

TEST_F(SettingsOfLtx, AiToolkitsTextEncoderIsWhatItsSettingsName) {
  const auto file = scratch_.write("gemma.safetensors", "").string();
  const auto own = scratch_.write("ltx.safetensors", "").string();
  const auto here = of_ai_toolkit("ltx2.3", own, {{"model", {{"te_name_or_path", file}}}});
  EXPECT_EQ(here.value("model"), (Value{own, file}));
  EXPECT_FALSE(here.is_from("model_id_with_origin_paths"));
  const auto of_hub = of_ai_toolkit("ltx2.3", own, {{"model", {{"te_name_or_path", "google/gemma"}}}});
  EXPECT_EQ(of_hub.value("model_id_with_origin_paths"), "google/gemma:model-*.safetensors");
  for (const auto& [arch, model] : {std::pair{"ltx2", "Lightricks/LTX-2"}, std::pair{"ltx2.3", "dg845/LTX-2.3-Diffusers"}}) {
    const auto whole = of_ai_toolkit(arch, model);
    EXPECT_EQ(whole.value("model"), Value::array({model}));
    EXPECT_FALSE(whole.is_from("model_id_with_origin_paths")) << "a folder has its text encoder";
  }
}

TEST_F(SettingsOfLtx, AiToolkitsFilesOf25AreThoseOfItsRepository) {
  const auto all = of_ai_toolkit("ltx2.5", "Lightricks/LTX-2.5").value("model_id_with_origin_paths").get<std::string>();
  for (const char* file : {"diffusion_models/ltx-2.5-22b-dev-transformer-comfy-int8-convrot", "vae/ltx-2.5-video-vae-conv-bf16",
                           "text_encoders/gemma4-12b-with-proj-ltx-2.5-comfy-int8-convrot", "vae/ltx-2.5-audio-vae-bf16"})
    EXPECT_THAT(all, HasSubstr(std::string("Lightricks/LTX-2.5:") + file + ".safetensors"));
  const auto named =
      of_ai_toolkit("ltx2.5", "Lightricks/LTX-2.5/diffusion_models/mine.safetensors",
                    {{"model", {{"model_kwargs", {{"video_vae_path", "v.safetensors"}, {"audio_vae_path", "a.safetensors"}}}}}});
  EXPECT_EQ(named.value("model_id_with_origin_paths"),
            "Lightricks/LTX-2.5:diffusion_models/mine.safetensors,"
            "Lightricks/LTX-2.5:text_encoders/gemma4-12b-with-proj-ltx-2.5-comfy-int8-convrot.safetensors");
  EXPECT_EQ(named.value("model"), (Value{"v.safetensors", "a.safetensors"}));
  const auto other = of_ai_toolkit("ltx2.5", "Lightricks/LTX-2.5", {{"model", {{"model_kwargs", {{"dit_path", "d.safetensors"}}}}}});
  EXPECT_EQ(other.value("model"), Value::array({"d.safetensors"}));
  EXPECT_THAT(other.value("model_id_with_origin_paths").dump(), Not(HasSubstr("diffusion_models")));
}

TEST_F(SettingsOfLtx, SimpleTunersClipsAreHeardUnlessTheySayOtherwise) {
  const auto done = of_simpletuner();
  EXPECT_EQ(done.value("model"), Value::array({"dg845/LTX-2.3-Diffusers"}));
  EXPECT_EQ(done.value("num_frames"), 57);
  EXPECT_EQ(done.value("extra_inputs"), "input_audio");
  EXPECT_EQ(done.value("blocks_to_swap"), 12);
  EXPECT_EQ(done.value("weight_format"), "int8");
  EXPECT_EQ(done.value("lora_target_modules"), "to_k,to_q,to_v,to_out.0,audio_proj_in,audio_proj_out,audio_ff.net.0.proj,audio_ff.net.2");
  for (const char* name : {"model_family", "model_flavour", "temporal_roll"})
    EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr(name))));
  const auto silent = of_simpletuner(Value::object(), {{"audio", {{"auto_split", false}}}});
  EXPECT_FALSE(silent.is_from("extra_inputs"));
  EXPECT_EQ(silent.value("lora_target_modules"), "to_k,to_q,to_v,to_out.0");
  const auto weighed = of_simpletuner({{"audio_loss_weight", 0.3}, {"model_flavour", "dev"}}, {{"audio", {{"sample_rate", 16000}}}});
  EXPECT_EQ(weighed.value("sound_loss_weight"), 0.3);
  EXPECT_EQ(weighed.value("model"), Value::array({"Lightricks/LTX-2"}));
  EXPECT_THAT(weighed.value("lora_target_modules").dump(), HasSubstr("audio_caption_projection.linear_2")) << "2.0 has them";
}

TEST_F(SettingsOfLtx, SimpleTunersFirstFrameIsGivenAlwaysOrAtAShareOfVisits) {
  const auto always = of_simpletuner({{"ltx2_first_frame_conditioning_probability", 1.0}});
  EXPECT_EQ(always.value("extra_inputs"), "input_image,input_audio");
  EXPECT_FALSE(always.is_from("given_frames_share"));
  const auto often = of_simpletuner({{"ltx2_first_frame_conditioning_probability", 0.5}, {"ltx2_prefix_conditioning_probability", 0.25}});
  EXPECT_EQ(often.value("extra_inputs"), "input_image,input_audio");
  EXPECT_EQ(often.value("given_frames"), 1);
  EXPECT_EQ(often.value("given_frames_share"), 0.625) << "one latent is the first frame: half the visits, and a quarter of the others";
  EXPECT_THAT(often.said.not_carried, Not(Contains(HasSubstr("_conditioning_probability"))));
  EXPECT_THAT(often.said.different, Contains(HasSubstr("whose samples go together")));
  const auto two = of_simpletuner({{"ltx2_first_frame_conditioning_probability", 0.5},
                                   {"ltx2_prefix_conditioning_probability", 0.25},
                                   {"ltx2_prefix_conditioning_frames", 3}});
  EXPECT_EQ(two.value("given_frames_share"), 0.5);
  EXPECT_THAT(two.said.not_carried, Contains(HasSubstr("ltx2_prefix_conditioning_probability = 0.25: one number of first frames")));
}

TEST_F(SettingsOfLtx, SimpleTunersListOfConditionsIsWhatItsKindsAre) {
  const auto list =
      Value::parse(R"([{"type": "prefix", "probability": 0.25, "temporal_boundary": 2}, {"type": "suffix", "probability": 0.5},
                                     {"type": "spatial_crop", "probability": 0.1, "spatial_region": [0, 0, 2, 2]}])");
  for (const auto& written : {list, Value(list.dump())}) {
    const auto done = of_simpletuner({{"ltx2_intrinsic_conditioning", written}});
    EXPECT_EQ(done.value("extra_inputs"), "input_image,end_image,input_audio");
    EXPECT_EQ(done.value("given_frames"), 9);
    EXPECT_EQ(done.value("given_frames_share"), 0.25);
    EXPECT_EQ(done.value("given_last_frames"), 1);
    EXPECT_EQ(done.value("given_last_frames_share"), 0.5);
    EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("parts of frames, by a mask or a region, are not given")));
  }
  const auto alone = of_simpletuner({{"ltx2_intrinsic_conditioning", Value::parse(R"([{"type": "first_frame"}])")}});
  EXPECT_EQ(alone.value("extra_inputs"), "input_image,input_audio");
  EXPECT_FALSE(alone.is_from("given_frames_share")) << "a probability of 1 is what stands for none";
  EXPECT_THAT(alone.said.not_carried, Not(Contains(HasSubstr("ltx2_intrinsic"))));
  const auto table = of_simpletuner({{"ltx2_intrinsic_conditioning", Value::parse(R"({"type": "first_frame"})")}});
  EXPECT_THAT(table.said.not_carried, Contains(HasSubstr("as a list of objects")));
}

TEST_F(SettingsOfLtx, SimpleTunersEndsAreLatentsAndHereFrames) {
  const auto both = of_simpletuner({{"ltx2_prefix_conditioning_probability", 1.0},
                                    {"ltx2_prefix_conditioning_frames", 3},
                                    {"ltx2_suffix_conditioning_probability", 1},
                                    {"ltx2_suffix_conditioning_frames", 2}});
  EXPECT_EQ(both.value("extra_inputs"), "input_image,end_image,input_audio");
  EXPECT_EQ(both.value("given_frames"), 17);
  EXPECT_EQ(both.value("given_last_frames"), 9);
  const auto end = of_simpletuner({{"ltx2_suffix_conditioning_probability", 1.0}, {"ltx2_prefix_conditioning_frames", 3}},
                                  {{"audio", {{"auto_split", false}}}});
  EXPECT_EQ(end.value("extra_inputs"), "end_image");
  EXPECT_FALSE(end.is_from("given_frames")) << "which no probability asks for";
  EXPECT_EQ(end.value("given_last_frames"), 1);
}

TEST_F(SettingsOfLtx, SimpleTunersFilesOf25AreNamedOneByOne) {
  const auto done = of_simpletuner({{"model_flavour", "2.5-dev"}, {"pretrained_model_name_or_path", "Lightricks/LTX-2.5"}});
  EXPECT_EQ(done.value("model").size(), 0u);
  for (const char* file : {"diffusion_models/ltx-2.5-22b-dev-transformer-bf16", "text_encoders/gemma4-12b-with-proj-ltx-2.5-bf16"})
    EXPECT_THAT(done.value("model_id_with_origin_paths").dump(), HasSubstr(file));
}

TEST_F(SettingsOfLtx, DiffusionPipeTrainsFramesAlone) {
  scratch_.write("data.toml", "resolutions = [512]\nframe_buckets = [1, 34]\n[[directory]]\npath = '" + folder("d") + "'\n");
  const auto done = import("pipe.toml", "output_dir = 'o'\ndataset = '" + (scratch_ / "data.toml").string() + R"('
epochs = 2
blocks_to_swap = 46
[model]
type = 'ltx2'
diffusion_model = 'ltx-2.3-22b-dev.safetensors'
text_encoder = 'gemma_3_12B_it_fp4_mixed.safetensors'
dtype = 'bfloat16'
diffusion_model_dtype = 'float8'
timestep_sample_method = 'logit_normal'
shift = 1
[adapter]
type = 'lora'
rank = 32
dtype = 'bfloat16'
[optimizer]
type = 'adamw_optimi'
lr = 1e-4
)");
  EXPECT_EQ(done.value("model"), (Value{"ltx-2.3-22b-dev.safetensors", "gemma_3_12B_it_fp4_mixed.safetensors"}));
  EXPECT_EQ(done.value("num_frames"), 33);
  EXPECT_EQ(done.value("lora_target_modules"), "transformer_blocks\\.[0-9]+\\.(attn1|attn2|ff)\\..*");
  EXPECT_EQ(done.value("timestep_sampling"), "shift");
  EXPECT_EQ(done.value("discrete_flow_shift"), 1);
  EXPECT_FALSE(done.is_from("extra_inputs"));
  EXPECT_THAT(done.said.different, Contains(HasSubstr("no tokens of sound")));
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("model.type"))));
}
