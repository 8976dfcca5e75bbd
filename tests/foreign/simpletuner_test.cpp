// SimpleTuner's settings and its list of datasets: what its names mean that others' do not.
#include <gmock/gmock.h>

#include "foreign/import.h"
#include "tests/foreign/run_options.h"
#include "tests/scratch.h"

using namespace burnish;
using foreign::Value;
using test::RunOptions;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

struct Done {
  RunOptions run;
  foreign::Import said;
  std::string prompts, datasets;  ///< of the files beside the output

  Value value(const std::string& option) const { return Value::parse(run.values().at(option)); }
  bool is_from(const std::string& option) const { return said.origins.contains(option); }
};

class SimpleTuner : public testing::Test {
 protected:
  Done import(const std::string& name, const std::string& text) {
    Done done;
    auto [title, said] = foreign::import_settings(scratch_.write(name, text), "", done.run.fields, scratch_ / "run.toml");
    EXPECT_EQ(title, "SimpleTuner");
    done.said = std::move(said);
    for (const auto& [file, content] : done.said.beside) (file.filename() == "datasets.toml" ? done.datasets : done.prompts) = content;
    return done;
  }
  /// What a LoRA on FLUX.1 becomes with more settings.
  Done with(const Value& more) {
    Value tree{{"model_family", "flux"}, {"model_type", "lora"}, {"learning_rate", 1e-4}, {"max_train_steps", 100}};
    tree.update(more);
    return import("config.json", tree.dump());
  }
  void write_datasets(const Value& list) { scratch_.write("multidatabackend.json", list.dump()); }
  std::string folder(const std::string& name) const {
    std::filesystem::create_directories(scratch_ / name);
    return scratch_ / name;
  }

  test::Scratch scratch_;
};

}  // namespace

TEST_F(SimpleTuner, DefaultsThatAreItsOwnAreWritten) {
  auto done = with(Value::object());
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("name the model of the flavour that is taken by itself with --model")));
  EXPECT_THAT(with({{"pretrained_model_name_or_path", "x"}, {"model_flavour", "dev"}}).said.not_carried,
              Not(Contains(HasSubstr("--model"))));
  EXPECT_EQ(done.value("lora_rank"), 16);
  EXPECT_EQ(done.value("lora_dropout"), 0.1);
  EXPECT_EQ(done.value("batch_size"), 4);
  EXPECT_EQ(done.value("save_steps"), 500);
  EXPECT_EQ(done.value("use_gradient_checkpointing"), true);
  EXPECT_EQ(done.value("timestep_sampling"), "shift");
  EXPECT_EQ(done.value("loss_weighting"), "uniform");
  EXPECT_EQ(done.value("lora_target_modules"), "to_k,to_q,to_v,to_out.0,add_k_proj,add_q_proj,add_v_proj,to_add_out");
  EXPECT_EQ(done.value("optimizer_args"), "eps=1e-6") << "of its AdamW in bf16";
  EXPECT_FALSE(done.is_from("trainable_models"));
  EXPECT_EQ(with({{"model_type", "full"}}).value("trainable_models"), "dit");
  EXPECT_EQ(with({{"model_family", "sdxl"}, {"model_type", "full"}}).value("trainable_models"), "unet");
}

TEST_F(SimpleTuner, GradientsAreHeldNumberByNumberUnlessNormIsAskedFor) {
  auto by_value = with({{"max_grad_norm", 1.0}});
  EXPECT_FALSE(by_value.is_from("max_grad_norm"));
  EXPECT_THAT(by_value.said.not_carried, Contains(HasSubstr("max_grad_norm = 1.0: grad_clip_method value, which it takes by itself")));
  EXPECT_EQ(with({{"max_grad_norm", 1.0}, {"grad_clip_method", "norm"}}).value("max_grad_norm"), 1.0);
  EXPECT_EQ(with({{"grad_clip_method", "norm"}}).value("max_grad_norm"), 2.0);
  EXPECT_FALSE(with({{"grad_clip_method", "norm"}, {"optimizer", "prodigy"}}).is_from("max_grad_norm")) << "which it never clips";
}

TEST_F(SimpleTuner, TheTimeOfACosineIsItsWarmUp) {
  auto wave = with({{"lr_scheduler", "cosine"}, {"lr_warmup_steps", 20}});
  EXPECT_EQ(wave.value("lr_scheduler"), "constant");
  EXPECT_FALSE(wave.is_from("lr_warmup_steps"));
  EXPECT_THAT(wave.said.not_carried, Contains(HasSubstr("there it falls over lr_warmup_steps, 20 steps, and begins again")));
  auto once = with({{"lr_scheduler", "cosine"}, {"lr_warmup_steps", 100}, {"lr_end", 1e-5}});
  EXPECT_EQ(once.value("lr_scheduler"), "cosine");
  EXPECT_FALSE(once.is_from("lr_warmup_steps"));
  EXPECT_NEAR(once.value("lr_scheduler_min_lr_ratio").get<double>(), 0.1, 1e-12);
  auto line = with({{"lr_scheduler", "polynomial"}, {"lr_warmup_steps", 10}});
  EXPECT_EQ(line.value("lr_scheduler_power"), 0.8);
  EXPECT_EQ(line.value("lr_warmup_steps"), 10);
  EXPECT_NEAR(line.value("lr_scheduler_min_lr_ratio").get<double>(), 4e-3, 1e-12) << "it ends at 4e-7";
  EXPECT_FALSE(with({{"lr_scheduler", "constant"}, {"lr_warmup_steps", 10}}).is_from("lr_warmup_steps"));
}

TEST_F(SimpleTuner, NumbersOfOptimizersAreTheirOwn) {
  auto lion = with({{"optimizer", "optimi-lion"}, {"adam_weight_decay", 0.5}});
  EXPECT_EQ(lion.value("optimizer"), "lion");
  EXPECT_EQ(lion.value("weight_decay"), 0.0) << "adam_weight_decay is DeepSpeed's";
  EXPECT_EQ(lion.value("optimizer_args"), "betas=0.9,0.99");
  auto given = with({{"optimizer", "bnb-adamw8bit"},
                     {"optimizer_config", "eps=1e-7,weight_decay=0.1"},
                     {"optimizer_beta1", 0.8},
                     {"optimizer_beta2", 0.95}});
  EXPECT_EQ(given.value("optimizer"), "adamw8bit");
  EXPECT_EQ(given.value("optimizer_args"), "betas=0.8,0.95,eps=1e-7");
  EXPECT_EQ(given.value("weight_decay"), 0.1);
  auto unknown = with({{"optimizer", "soap"}});
  EXPECT_FALSE(unknown.is_from("learning_rate")) << "a rate goes with its optimizer";
  EXPECT_THAT(unknown.said.not_carried, Contains(HasSubstr("optimizer = soap: no such optimizer")));
}

TEST_F(SimpleTuner, TimesAreDrawnAsItsKindsDo) {
  auto sampling = [&](const Value& more) { return with(more).value("timestep_sampling").get<std::string>(); };
  EXPECT_EQ(sampling({{"flow_schedule_shift", 0}}), "sigmoid");
  EXPECT_EQ(sampling({{"flow_schedule_auto_shift", true}}), "flux_shift") << "which goes before a shift";
  EXPECT_EQ(sampling({{"flow_schedule_auto_shift", true}, {"model_family", "qwen_image"}}), "qwen_shift");
  EXPECT_EQ(sampling({{"flow_use_uniform_schedule", true}, {"flow_schedule_shift", 0}}), "uniform");
  EXPECT_EQ(sampling({{"flow_use_uniform_schedule", true}}), "sigma");
  EXPECT_EQ(sampling({{"model_family", "ideogram"}}), "ideogram4_shift");
  EXPECT_EQ(with({{"model_family", "flux3_image"}, {"flow_schedule_shift", 1}}).value("discrete_flow_shift"), 6.93);
  EXPECT_FALSE(with({{"model_family", "sdxl"}}).is_from("timestep_sampling"));
  EXPECT_THAT(with({{"model_family", "hidream"}}).said.not_carried,
              Contains(HasSubstr("model_family = hidream: this kind is not trained here")));
  EXPECT_THAT(with({{"crepa_enabled", true}, {"crepa_block_index", 4}}).said.not_carried,
              Contains("crepa_enabled = true: no such objective here"));
}

TEST_F(SimpleTuner, KindsThatAreFlux1WithOtherTextsTrain) {
  auto done = with({{"model_family", "longcat_image"}, {"model_flavour", "dev"}, {"flow_schedule_auto_shift", true}});
  EXPECT_EQ(done.value("lora_target_modules"), "to_k,to_q,to_v,to_out.0");
  EXPECT_EQ(done.value("timestep_sampling"), "flux_shift");
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("not trained here"))));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("name the model of this flavour with --model")));
}

TEST_F(SimpleTuner, KandinskyHasLayersAndALengthOfItsOwn) {
  auto done = with({{"model_family", "kandinsky5-image"}, {"model_flavour", "t2i-lite-sft"}});
  EXPECT_EQ(done.value("lora_target_modules"), "to_key,to_query,to_value");
  EXPECT_EQ(done.value("max_sequence_length"), 256);
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("not trained here"))));
  EXPECT_EQ(with({{"model_family", "kandinsky5-image"}, {"tokenizer_max_length", 128}}).value("max_sequence_length"), 128);
  EXPECT_THAT(with({{"model_family", "kandinsky5-video"}}).said.not_carried,
              Contains(HasSubstr("model_family = kandinsky5-video: this kind is not trained here")));
}

TEST_F(SimpleTuner, BooguImageIsTheDistilledModelWhereNoFlavourIsNamed) {
  for (const char* flavour : {"", "v0.1-turbo", "v0.1-turbo-fp8"}) {
    auto done = with({{"model_family", "boogu_image"}, {"model_flavour", flavour}});
    EXPECT_EQ(done.value("is_distilled"), true) << flavour;
    EXPECT_FALSE(done.is_from("extra_inputs")) << flavour;
  }
  auto done = with({{"model_family", "boogu_image"}, {"model_flavour", "v0.1-edit"}});
  EXPECT_EQ(done.value("lora_target_modules"), "to_k,to_q,to_v,to_out.0");
  EXPECT_EQ(done.value("max_sequence_length"), 1024);
  EXPECT_EQ(done.value("extra_inputs"), "edit_image");
  EXPECT_FALSE(done.is_from("is_distilled"));
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("not trained here"))));
  EXPECT_FALSE(with({{"model_family", "boogu_image"}, {"pretrained_model_name_or_path", "x"}}).is_from("is_distilled"));
  EXPECT_FALSE(with({{"model_family", "flux"}, {"model_flavour", "v0.1-turbo"}}).is_from("is_distilled"));
}

TEST_F(SimpleTuner, MossImageDrawsTimesAsItsMakersDid) {
  auto done = with({{"model_family", "moss_image"}, {"model_flavour", "sft-edit"}, {"flow_schedule_auto_shift", true}});
  EXPECT_EQ(done.value("lora_target_modules"), "proj.q,proj.k,proj.v,proj.o,qkv,text_embedder.blocks.0.proj,text_embedder.blocks.1.proj");
  EXPECT_EQ(done.value("max_sequence_length"), 4096);
  EXPECT_EQ(done.value("extra_inputs"), "edit_image");
  EXPECT_EQ(done.value("timestep_sampling"), "logit_normal_cut");
  for (const char* ours : {"discrete_flow_shift", "sigmoid_scale"}) EXPECT_FALSE(done.is_from(ours)) << ours;
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("not trained here"))));
  done = with({{"model_family", "moss_image"}, {"flow_sigmoid_scale", 0.5}, {"moss_image_auto_json", true}});
  EXPECT_FALSE(done.is_from("extra_inputs"));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("flow_sigmoid_scale = 0.5: the density of MOSS-Image")));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("moss_image_auto_json = true")));
  EXPECT_EQ(with({{"model_family", "moss_image"}, {"flow_use_uniform_schedule", true}}).value("timestep_sampling"), "uniform");
}

TEST_F(SimpleTuner, SidesAreMultiplesOfWhatAKindInsistsOn) {
  write_datasets(Value::array({{{"id", "cats"},
                                {"type", "local"},
                                {"instance_data_dir", folder("cats")},
                                {"resolution", 520},
                                {"resolution_type", "pixel_area"},
                                {"cache_dir_vae", "cache/vae"}}}));
  auto steps = [&](const char* kind, const Value& more = Value::object()) {
    Value all{{"data_backend_config", "config/multidatabackend.json"}, {"model_family", kind}};
    all.update(more);
    return with(all).value("bucket_reso_steps");
  };
  for (const char* kind : {"flux", "sd3", "ltxvideo2"}) EXPECT_EQ(steps(kind, {{"aspect_bucket_alignment", 8}}), 64) << kind;
  for (const char* kind : {"flux2", "flux3_image", "anima", "moss_image"}) EXPECT_EQ(steps(kind), 16) << kind;
  for (const char* kind : {"qwen_image", "wan", "infinitetalk"}) EXPECT_EQ(steps(kind), 32) << kind;
  EXPECT_EQ(steps("wan", {{"model_flavour", "t2v-5b"}}), 64);
  EXPECT_EQ(steps("z_image"), 64);
  EXPECT_EQ(steps("z_image", {{"aspect_bucket_alignment", 8}}), 8);
}

TEST_F(SimpleTuner, InfiniteTalkHearsClips) {
  auto done = with({{"model_family", "infinitetalk"}, {"model_flavour", "single-14b-480p"}, {"framerate", 25}});
  EXPECT_EQ(done.value("lora_target_modules"),
            "to_k,to_q,to_v,to_out.0,audio_cross_attn.q_linear,audio_cross_attn.kv_linear,audio_cross_attn.proj");
  EXPECT_EQ(done.value("model"), Value::array({"Wan-AI/Wan2.1-I2V-14B-480P-Diffusers"}));
  EXPECT_EQ(done.value("model_id_with_origin_paths"),
            "MeiGen-AI/InfiniteTalk:single/infinitetalk.safetensors,TencentGameMate/chinese-wav2vec2-base:pytorch_model.bin");
  EXPECT_EQ(done.value("extra_inputs"), "input_image");
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("--model"))));
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("not trained here"))));
  done = with({{"model_family", "infinitetalk"}, {"pretrained_model_name_or_path", "x"}});
  EXPECT_EQ(done.value("model"), Value::array({"x"}));
}

TEST_F(SimpleTuner, DatasetsAreAListBesideIt) {
  write_datasets(Value::array({{{"id", "cats"},
                                {"type", "local"},
                                {"instance_data_dir", folder("cats")},
                                {"repeats", 3},
                                {"resolution", 512},
                                {"resolution_type", "pixel_area"},
                                {"caption_strategy", "textfile"},
                                {"cache_dir_vae", "cache/vae"}},
                               {{"id", "off"}, {"instance_data_dir", "x"}, {"disabled", true}, {"dataset_type", "image"}},
                               {{"id", "texts"}, {"dataset_type", "text_embeds"}, {"cache_dir", "cache/text"}}}));
  auto done = with({{"data_backend_config", "config/multidatabackend.json"}});
  EXPECT_THAT(done.datasets, IsEmpty()) << "of one";
  EXPECT_EQ(done.value("dataset_metadata_path"), folder("cats"));
  EXPECT_EQ(done.value("dataset_repeat"), 4) << "repeats come on top of the first visit";
  EXPECT_EQ(done.value("resolution"), Value::array({"512"}));
  EXPECT_EQ(done.value("enable_bucket"), true);
  EXPECT_EQ(done.value("bucket_no_upscale"), false);
  EXPECT_EQ(done.value("bucket_reso_steps"), 64);
  EXPECT_EQ(done.value("max_bucket_reso"), 1024);
  EXPECT_EQ(done.value("enable_wildcard"), true) << "a line of several at each visit";
}

TEST_F(SimpleTuner, AreaSideAndSquare) {
  auto of = [&](const Value& more) {
    Value one{{"id", "cats"}, {"instance_data_dir", folder("cats")}, {"caption_strategy", "instanceprompt"}, {"instance_prompt", "a cat"}};
    one.update(more);
    write_datasets(Value::array({one}));
    return with({{"data_backend_config", "multidatabackend.json"}});
  };
  auto area = of({{"resolution", 0.262144}, {"resolution_type", "area"}});
  EXPECT_EQ(area.value("resolution"), Value::array({"512"}));
  EXPECT_EQ(area.value("class_tokens"), "a cat");
  auto square = of({{"resolution", 512}, {"resolution_type", "pixel"}, {"crop", true}});
  EXPECT_EQ(square.value("width"), 512);
  EXPECT_EQ(square.value("height"), 512);
  EXPECT_EQ(square.value("random_crop"), true);
  EXPECT_FALSE(square.is_from("enable_bucket"));
  EXPECT_EQ(of({{"crop", true}, {"crop_style", "center"}}).value("random_crop"), false);
  EXPECT_EQ(of({{"caption_strategy", "textfile"}, {"prepend_instance_prompt", true}}).value("caption_prefix"), "a cat ");
  EXPECT_THAT(of({{"caption_strategy", "filename"}}).said.not_carried, Contains(HasSubstr("a file's name is no caption here")));
  EXPECT_EQ(of({{"type", "huggingface"}, {"dataset_name", "a/b"}}).value("dataset_metadata_path"), "hf://datasets/a/b");
  EXPECT_THAT(of({{"type", "aws"}}).said.not_carried, Contains(HasSubstr("dataset.type = aws: data lies on this machine")));
}

TEST_F(SimpleTuner, SeveralDatasetsAndWhatTheyAreNot) {
  write_datasets(Value::array(
      {{{"id", "cats"}, {"instance_data_dir", folder("cats")}, {"caption_strategy", "textfile"}, {"resolution", 512}},
       {{"id", "dogs"},
        {"instance_data_dir", folder("dogs")},
        {"caption_strategy", "textfile"},
        {"resolution", 1024},
        {"repeats", 1},
        {"probability", 0.5}},
       {{"id", "class"}, {"instance_data_dir", folder("class")}, {"is_regularisation_data", true}},
       {{"id", "edges"}, {"instance_data_dir", "edges"}, {"dataset_type", "conditioning"}, {"conditioning_type", "controlnet"}}}));
  auto done = with({{"data_backend_config", "multidatabackend.json"}});
  EXPECT_THAT(done.datasets, AllOf(HasSubstr("image_dir = \"" + folder("cats") + "\""), HasSubstr("image_dir = \"" + folder("dogs") + "\""),
                                   HasSubstr("num_repeats = 2"), HasSubstr("resolution = [\"1024\"]"), HasSubstr("is_reg = true")));
  EXPECT_EQ(done.value("class_target"), "model") << "what the model before training predicts is the target there";
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("datasets.edges: dataset_type conditioning")));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("probability = 0.5: datasets are visited by their repeats")));
}

TEST_F(SimpleTuner, ADatasetOfASliderKeepsItsStrength) {
  auto set = [&](const std::string& name, double strength) {
    return Value{{"id", name}, {"instance_data_dir", folder(name)}, {"caption_strategy", "textfile"}, {"slider_strength", strength}};
  };
  write_datasets(Value::array({set("long", 1), set("short", -1.5)}));
  auto done = with({{"data_backend_config", "multidatabackend.json"}});
  EXPECT_THAT(done.datasets, AllOf(HasSubstr("slider_strength = -1.5"), Not(HasSubstr("slider_strength = 1.0"))));
}

TEST_F(SimpleTuner, ItsListAloneIsRead) {
  auto done =
      import("multidatabackend.json", Value::array({{{"id", "cats"}, {"instance_data_dir", folder("cats")}, {"repeats", 2}}}).dump());
  EXPECT_EQ(done.value("dataset_repeat"), 3);
  EXPECT_FALSE(done.is_from("batch_size")) << "it says nothing of a run";
}

TEST_F(SimpleTuner, AdaptersOfLycorisAreInAFileOfTheirOwn) {
  scratch_.write(
      "lycoris_config.json",
      R"({"algo": "lokr", "multiplier": 1.0, "full_matrix": true, "linear_alpha": 1, "linear_dim": 8, "factor": 16, "apply_preset": {"target_module": ["Attention"]}})");
  auto done = with({{"lora_type", "lycoris"}, {"lycoris_config", "config/lycoris_config.json"}, {"lora_rank", 64}});
  EXPECT_EQ(done.value("lora_type"), "lokr");
  EXPECT_EQ(done.value("lora_rank"), 1000000) << "its second factor is whole";
  EXPECT_EQ(done.value("lokr_factor"), 16);
  EXPECT_EQ(done.value("lora_format"), "lycoris");
  EXPECT_FALSE(done.is_from("lora_dropout"));
  EXPECT_FALSE(done.is_from("lora_target_modules"));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("lycoris.apply_preset.target_module")));
  EXPECT_THAT(with({{"lora_type", "lycoris"}, {"lycoris_config", "elsewhere.json"}}).said.not_carried,
              Contains(HasSubstr("lycoris_config = elsewhere.json: cannot be read from here")));
}

TEST_F(SimpleTuner, TLoraIsALoraWhoseRanksAreMasked) {
  scratch_.write("lycoris_config.json", R"({"algo": "tlora", "linear_alpha": 16, "linear_dim": 16, "tlora_alpha": 1.5})");
  auto done = with({{"lora_type", "lycoris"}, {"lycoris_config", "config/lycoris_config.json"}});
  EXPECT_EQ(done.value("lora_type"), "lora");
  EXPECT_EQ(done.value("tlora_min_rank"), 1);
  EXPECT_EQ(done.value("tlora_alpha"), 1.5);
  EXPECT_THAT(done.said.different, Contains(HasSubstr("not as singular vectors")));
}

TEST_F(SimpleTuner, PromptsOfValidationAreWritten) {
  scratch_.write("library.json", R"({"one": "a cat", "two": {"prompt": "a dog"}})");
  auto done = with({{"validation_prompt", "a fox"},
                    {"validation_resolution", "512x768,1024"},
                    {"validation_steps", 40},
                    {"validation_seed", 7},
                    {"validation_num_inference_steps", 16},
                    {"user_prompt_library", "library.json"},
                    {"validation_guidance", 4.0}});
  EXPECT_THAT(done.prompts, AllOf(HasSubstr("a fox"), HasSubstr("a cat"), HasSubstr("a dog"), HasSubstr("--w 512"), HasSubstr("--h 768"),
                                  HasSubstr("--s 16"), HasSubstr("--d 7")));
  EXPECT_EQ(done.value("preview_steps"), 40);
}

TEST_F(SimpleTuner, SettingsOfTheEnvironment) {
  auto done = import(
      "config.env",
      "# a run\nexport MODEL_FAMILY='sdxl'\nexport MODEL_TYPE=lora\nMODEL_NAME=\"stabilityai/x\"\nMAX_NUM_STEPS=500\nTRAIN_BATCH_SIZE=2\n"
      "LEARNING_RATE=1e-4\nLR_SCHEDULE=\"constant\"\nUSE_GRADIENT_CHECKPOINTING=false\nUSE_DORA=true\nTRAINER_EXTRA_ARGS=\"--lora_rank="
      "8\"\n"
      "TRAINER_EXTRA_ARGS+=\"--snr_gamma 5\"\n");
  EXPECT_EQ(done.value("model"), Value::array({"stabilityai/x"}));
  EXPECT_EQ(done.value("max_steps"), 500);
  EXPECT_EQ(done.value("batch_size"), 2);
  EXPECT_EQ(done.value("use_gradient_checkpointing"), false);
  EXPECT_EQ(done.value("lora_type"), "dora");
  EXPECT_EQ(done.value("lora_rank"), 8);
  EXPECT_EQ(done.value("min_snr_gamma"), 5.0);
  auto dashed =
      import("config.json", R"({"--model_family": "flux", "--model_type": "lora", "--max_train_steps": 7, "--checkpointing_steps": 3})");
  EXPECT_EQ(dashed.value("max_steps"), 7);
  EXPECT_EQ(dashed.value("save_steps"), 3);
  auto toml = import("config.toml", "model_family = \"flux\"\nmodel_type = \"lora\"\nmax_train_steps = 9\n");
  EXPECT_EQ(toml.value("max_steps"), 9);
}
