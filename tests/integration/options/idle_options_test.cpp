// Options that decide nothing in the run they are given to are refused.
#include "train/options/idle_options.h"

#include "config/command_line.h"
#include "tests/integration/refused.h"
#include "train/options/fields.h"

using namespace burnish;
using namespace burnish::test;

using IdleOptions = BadInput;

namespace {

struct Case {
  const char* option;
  const char* value;
  const char* with;  ///< what it belongs to
};

/// As `burnish train` reads them.
train::TrainOptions read(const std::string& arguments) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  std::istringstream words(arguments);
  std::vector<std::string> list{std::istream_iterator<std::string>(words), {}};
  options.given = config::read_command_line("train", "trains", list, fields).given;
  return options;
}

std::vector<std::string> idle(const std::string& arguments) {
  std::vector<std::string> names;
  for (const auto& one : train::idle_options(read(arguments))) names.push_back(one.option);
  return names;
}

}  // namespace

TEST(IdleOptionsTable, EachCountsWithWhatItBelongsTo) {
  for (const auto& [option, value, with] : std::initializer_list<Case>{
           {"discrete_flow_shift", "3", "--timestep_sampling shift"},
           {"discrete_flow_shift", "3", "--timestep_sampling logit_normal"},
           {"sigmoid_scale", "2", "--timestep_sampling flux_shift"},
           {"logit_mean", "1", "--timestep_sampling logsnr"},
           {"logit_std", "2", "--timestep_sampling logit_normal"},
           {"mode_scale", "1", "--timestep_sampling mode"},
           {"noising_weight", "1", "--timestep_sampling beta"},
           {"noising_bias", "1", "--timestep_sampling logistic"},
           {"huber_c", "0.1", "--loss_type huber"},
           {"huber_schedule", "constant", "--loss_type smooth_l1"},
           {"huber_scale", "2", "--loss_type huber --huber_schedule constant"},
           {"bucket_rule", "onetrainer", "--enable_bucket"},
           {"bucket_no_upscale", "false", "--enable_bucket"},
           {"bucket_reso_steps", "32", "--enable_bucket"},
           {"min_bucket_reso", "128", "--enable_bucket"},
           {"max_bucket_reso", "2048", "--dataset_config sets.toml"},
           {"multi_resolution", "one", "--resolution 32 --resolution 64"},
           {"keep_tokens", "1", "--shuffle_caption"},
           {"keep_tokens_separator", "|||", "--caption_tag_dropout_rate 0.1"},
           {"secondary_separator", ";;", "--shuffle_caption"},
           {"lokr_factor", "4", "--lora_type lokr"},
           {"lora_checkpoint_rank", "8", "--lora_checkpoint lora.safetensors"},
           {"dora_norm", "input", "--lora_type dora"},
           {"text_encoder_lr", "1e-5", "--lora_base_model dit,text_encoder"},
           {"beta_dpo", "100", "--task dpo"},
           {"student_num_inference_steps", "4", "--task trajectory_imitation:train"},
           {"distill_spacing", "diffsynth", "--task direct_distill"},
           {"mask_column", "mask", "--masked_loss column"},
           {"reference_pixels", "4096", "--extra_inputs edit_image"},
           {"reference_prompt", "plain", "--extra_inputs edit_image"},
           {"reference_form", "overlaid", "--extra_inputs edit_image"},
           {"preview_num_inference_steps", "4", "--preview_prompts prompts.txt"},
           {"preview_format", "webp", "--preview_prompts prompts.txt"},
       }) {
    SCOPED_TRACE(option);
    auto asked = std::string("--") + option + " " + value + " ";
    EXPECT_EQ(idle(asked), std::vector<std::string>{option});
    EXPECT_EQ(idle(asked + with), std::vector<std::string>{});
  }
  EXPECT_EQ(idle("--max_pixels 65536"), std::vector<std::string>{});
  EXPECT_EQ(idle("--max_pixels 65536 --height 32 --width 32"), std::vector<std::string>{"max_pixels"});
  for (const std::string option : {"use_rslora", "lora_dropout", "lora_format"}) {
    auto asked = "--" + option + (option == "use_rslora" ? "" : option == "lora_dropout" ? " 0.1" : " kohya");
    EXPECT_EQ(idle(asked), std::vector<std::string>{});
    EXPECT_EQ(idle(asked + " --trainable_models dit"), std::vector<std::string>{option});
    EXPECT_EQ(idle(asked + " --trainable_models vae --lora_base_model dit"), std::vector<std::string>{});
  }
}

TEST(IdleOptionsTable, OverACacheHowSamplesWereEncodedIsSettled) {
  for (const std::string asked :
       {"--resolution 32 --enable_bucket", "--frame_extraction whole", "--frame_rate 8", "--caption_prefix x", "--class_tokens x",
        "--trigger_word x", "--caption_extension .cap", "--max_sequence_length 64", "--vae_tile_size 512"}) {
    SCOPED_TRACE(asked);
    EXPECT_EQ(idle(asked), std::vector<std::string>{});
    EXPECT_NE(idle("--task sft:train " + asked), std::vector<std::string>{});
    EXPECT_EQ(idle("--task sft:train --validation_metadata_path v.csv " + asked), std::vector<std::string>{});
  }
  for (const std::string asked : {"--max_sequence_length 64", "--frame_rate 8"})
    EXPECT_EQ(idle("--task sft:train --preview_prompts p.txt " + asked), std::vector<std::string>{}) << asked;
}

TEST(IdleOptionsTable, WhatBothCommandsOfASplitRunNameIsSaidAndNotRefused) {
  for (const auto& [option, value] : {std::pair("data_file_keys", "picture"),
                                      {"data_file_keys", "image,video"},
                                      {"height", "480"},
                                      {"width", "832"},
                                      {"max_pixels", "65536"},
                                      {"max_pixels", "1048576"},
                                      {"num_frames", "49"}}) {
    SCOPED_TRACE(std::string(option) + " " + value);
    const auto asked = std::string("--") + option + " " + value;
    auto repeated = train::repeated_options(read("--task sft:train " + asked));
    ASSERT_EQ(repeated.size(), 1u);
    EXPECT_EQ(repeated[0].option, option);
    EXPECT_EQ(train::repeated_options(read(asked)).size(), 0u) << "a run over pictures reads it";
    EXPECT_EQ(train::repeated_options(read("--task sft:train --validation_metadata_path v.csv " + asked)).size(), 0u);
    EXPECT_EQ(idle("--task sft:train " + asked), std::vector<std::string>{});
  }
}

TEST(IdleOptionsTable, ResettingAnOptionTakesItBack) {
  auto options = read("--huber_c 0.5");
  train::reset(options, "huber_c");
  EXPECT_EQ(options.robust.c, train::TrainOptions().robust.c);
}

TEST_F(IdleOptions, AreRefusedOnTheCommandLineAndInAFile) {
  refused(2, train("--huber_c 0.1"), {"huber_c has no effect here", "loss_type huber", "take it out"});
  refused(2, train("--config " + quoted(write("run.toml", "huber_c = 0.2\n"))), {"huber_c has no effect here"});
  refused(2, train("--lora_base_model dit --text_encoder_lr 1e-5"), {"text_encoder_lr has no effect here"});
  refused(2, sample("--negative_prompt dog"), {"[sample] negative_prompt has no effect without guidance", "cfg_scale"});
  refused(2, sample("--guidance_rescale 0.5"), {"guidance_rescale has no effect without guidance"});
}

TEST_F(IdleOptions, OfOtherProgramsAreNotCarried) {
  auto settings = write("kohya.toml",
                        "pretrained_model_name_or_path = 'x.safetensors'\nnetwork_module = 'networks.lora_flux'\nkeep_tokens = 2\n"
                        "loss_type = 'l2'\nhuber_c = 0.3\ntimestep_sampling = 'uniform'\ndiscrete_flow_shift = 2.5\n");
  auto outcome = run_burnish("import " + quoted(settings) + " --output " + quoted(at("run.toml")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* line : {"not carried: keep_tokens: keep_tokens belongs to shuffle_caption", "not carried: huber_c: huber_c belongs to",
                           "not carried: discrete_flow_shift: discrete_flow_shift belongs to"})
    EXPECT_NE(outcome.output.find(line), std::string::npos) << outcome.output;
  auto toml = read_file(at("run.toml"));
  for (const char* option : {"\nkeep_tokens", "\nhuber_c", "\ndiscrete_flow_shift"})
    EXPECT_EQ(toml.find(option), std::string::npos) << toml;
}
