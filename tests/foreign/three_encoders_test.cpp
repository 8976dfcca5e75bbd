// Settings of Stable Diffusion 3.5 in other programs: three text encoders, how times are drawn, and how errors count.
#include <gmock/gmock.h>

#include "tests/foreign/imported.h"

using namespace burnish;
using foreign::Settings;
using foreign::Value;
using test::Imported;
using test::imported;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

namespace {

/// Nothing of it is a model that is not trained here.
Imported imported_known(const foreign::Program& program, const std::string& json) {
  auto result = imported(program, json);
  EXPECT_THAT(result.said.not_carried, Not(Contains(HasSubstr("not trained here")))) << json;
  return result;
}

Imported of_kohya(const std::string& more, const std::string& script = "sd3_train_network.py") {
  return imported_known(foreign::kohya(), R"({"script": ")" + script + R"(", "pretrained_model_name_or_path": "sd3.5_medium.safetensors")" +
                                              (script == "sd3_train.py" ? "" : R"(, "network_module": "networks.lora_sd3")") + more + "}");
}
Imported of_onetrainer(const std::string& more) {
  return imported_known(foreign::onetrainer(),
                        R"({"training_method": "LORA", "model_type": "STABLE_DIFFUSION_35", "base_model_name": "x")" + more + "}");
}
Imported of_simpletuner(const std::string& more) {
  return imported_known(foreign::simpletuner(), R"({"model_family": "sd3", "model_type": "lora")" + more + "}");
}

}  // namespace

TEST(ThreeEncodersOfKohya, TrainWhereTheyAreAskedTo) {
  EXPECT_EQ(of_kohya("")["lora_base_model"], "dit,text_encoder,text_encoder_2") << "networks adapt both CLIPs by themselves";
  EXPECT_EQ(of_kohya(R"(, "network_train_unet_only": true)")["lora_base_model"], "dit");
  EXPECT_EQ(of_kohya(R"(, "network_args": {"train_t5xxl": "True"})")["lora_base_model"], "dit,text_encoder,text_encoder_2,text_encoder_3");
  auto rates = of_kohya(R"(, "learning_rate": 1e-4, "text_encoder_lr": [1e-5, 0, 2e-6], "network_args": {"train_t5xxl": "True"})");
  EXPECT_EQ(rates["lora_base_model"], "dit,text_encoder,text_encoder_3");
  EXPECT_THAT(rates["text_encoder_lr"], HasSubstr("text_encoder_3=2e-06"));
  auto whole = of_kohya(R"(, "train_text_encoder": true, "learning_rate_te1": 0, "train_t5xxl": true)", "sd3_train.py");
  EXPECT_EQ(whole["trainable_models"], "dit,text_encoder_2,text_encoder_3");
  EXPECT_EQ(of_kohya("", "sd3_train.py")["trainable_models"], "dit");
}

TEST(ThreeEncodersOfKohya, FilesAndLengthsAreCarried) {
  auto files =
      of_kohya(R"(, "clip_l": "l.safetensors", "clip_g": "g.safetensors", "t5xxl": "t5.safetensors", "t5xxl_max_token_length": 128)");
  for (const char* file : {"sd3.5_medium", "l.safetensors", "g.safetensors", "t5.safetensors"})
    EXPECT_THAT(files["model"], HasSubstr(file));
  EXPECT_EQ(files["max_sequence_length"], "128");
  EXPECT_EQ(files["lora_format"], "kohya");
  EXPECT_EQ(of_kohya(R"(, "network_train_unet_only": true)")["lora_target_modules"], "transformer_blocks\\.[0-9]+\\..*");
  auto told = of_kohya(R"(, "apply_lg_attn_mask": true, "clip_g_dropout_rate": 0.2, "pos_emb_random_crop_rate": 0.5)").said.not_carried;
  for (const char* name : {"apply_lg_attn_mask", "clip_g_dropout_rate", "pos_emb_random_crop_rate"})
    EXPECT_THAT(told, Contains(HasSubstr(name)));
}

TEST(ThreeEncodersOfKohya, ErrorsAreThoseOfCleanLatents) {
  EXPECT_EQ(of_kohya("")["loss_weighting"], "sigma_squared");
  EXPECT_EQ(of_kohya(R"(, "weighting_scheme": "sigma_sqrt")")["loss_weighting"], "uniform");
  auto drawn = of_kohya(R"(, "weighting_scheme": "logit_normal", "logit_mean": 0.5, "training_shift": 3.0)");
  EXPECT_EQ(drawn["loss_weighting"], "sigma_squared");
  EXPECT_EQ(drawn["timestep_sampling"], "logit_normal");
  EXPECT_EQ(drawn["logit_mean"], "0.5");
  EXPECT_THAT(of_kohya("").values, Contains(testing::Pair("discrete_flow_shift", "1.0"))) << "its default, which is not ours";
  EXPECT_THAT(drawn.values, Not(Contains(testing::Key("guidance_scale"))));
}

TEST(ThreeEncodersOfKohyasWindow, AreItsOwnFields) {
  auto arranged = foreign::kohya().arrange(
      Value::parse(R"({"LoRA_type": "SD3", "sd3_checkbox": true, "max_resolution": "512,512", "epoch": 1, "sd3_clip_l": "l.safetensors",
                       "clip_g": "g.safetensors", "weighting_scheme": "logit_normal", "unet_lr": 1e-4, "text_encoder_lr": 0,
                       "sdxl_cache_text_encoder_outputs": true})"),
      [](const std::string&) { return Value(); });
  const auto& tree = arranged.tree;
  EXPECT_EQ(tree["script"], "sd3_train_network.py");
  EXPECT_EQ(tree["clip_l"], "l.safetensors");
  EXPECT_EQ(tree["clip_g"], "g.safetensors");
  EXPECT_EQ(tree["network_module"], "networks.lora_sd3");
  EXPECT_EQ(tree["weighting_scheme"], "logit_normal");
}

TEST(ThreeEncodersOfOneTrainer, TrainUnlessToldOtherwise) {
  EXPECT_EQ(of_onetrainer("")["lora_base_model"], "dit,text_encoder,text_encoder_2,text_encoder_3");
  const std::string frozen =
      R"(, "text_encoder": {"train": false}, "text_encoder_2": {"train": false}, "text_encoder_3": {"train": false})";
  auto alone = of_onetrainer(frozen + R"(, "timestep_distribution": "LOGIT_NORMAL", "transformer": {"attention_mask": true})");
  EXPECT_EQ(alone["lora_base_model"], "dit");
  EXPECT_EQ(alone["max_sequence_length"], "77");
  EXPECT_EQ(alone["timestep_sampling"], "logit_normal");
  EXPECT_THAT(alone.said.not_carried, Contains(HasSubstr("padding of texts is seen")));
  auto rates = of_onetrainer(R"(, "learning_rate": 1e-4, "text_encoder_3": {"learning_rate": 1e-5})");
  EXPECT_THAT(rates["text_encoder_lr"], HasSubstr("text_encoder_3=1e-05"));
}

TEST(ThreeEncodersOfSimpleTuner, AreFrozen) {
  auto run = of_simpletuner(R"(, "flow_schedule_shift": 3, "sd3_clip_uncond_behaviour": "zero")");
  EXPECT_EQ(run["lora_target_modules"], "to_k,to_q,to_v,to_out.0");
  EXPECT_EQ(run["timestep_sampling"] + " " + run["loss_weighting"], "shift uniform");
  EXPECT_EQ(run["max_sequence_length"], "154");
  EXPECT_EQ(of_simpletuner(R"(, "tokenizer_max_length": 77)")["max_sequence_length"], "77");
  EXPECT_THAT(run.said.not_carried, Contains(HasSubstr("sd3_clip_uncond_behaviour")));
}

TEST(ThreeEncodersOfDiffusionPipe, AreFrozen) {
  auto run = imported_known(foreign::diffusion_pipe(), R"({"model": {"type": "sd3", "diffusers_path": "sd35", "dtype": "bfloat16",
      "timestep_sample_method": "logit_normal", "shift": 3}, "adapter": {"type": "lora", "rank": 16}})");
  EXPECT_EQ(run["lora_target_modules"], "transformer_blocks\\..*");
  EXPECT_EQ(run["lora_base_model"], "dit");
  EXPECT_EQ(run["timestep_sampling"], "shift");
  EXPECT_THAT(run["model"], HasSubstr("sd35"));
}
