// What every option of the program is called, written down and taken.
#include <gmock/gmock.h>

#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::HasSubstr;

TEST(Flags, ThePageIsWhatTheProgramSays) {
  auto page = fs::path(test::kCheckout) / "docs/flags.md";
  auto outcome = run_burnish("help --markdown");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.output == read_file(page)) << "make it again: ./dev docs";
}

/// Options of DiffSynth-Studio's training scripts that are taken or answered with what to do instead: those of
/// diffsynth/diffusion/parsers.py, and of the scripts for the models that are here.
constexpr const char* kOfDiffSynthStudio[] = {"dataset_base_path",
                                              "dataset_metadata_path",
                                              "dataset_repeat",
                                              "dataset_num_workers",
                                              "data_file_keys",
                                              "height",
                                              "width",
                                              "max_pixels",
                                              "num_frames",
                                              "model_paths",
                                              "model_id_with_origin_paths",
                                              "extra_inputs",
                                              "fp8_models",
                                              "offload_models",
                                              "resume_from_checkpoint",
                                              "quant_options",
                                              "learning_rate",
                                              "num_epochs",
                                              "trainable_models",
                                              "find_unused_parameters",
                                              "weight_decay",
                                              "task",
                                              "customized_optimizer",
                                              "output_path",
                                              "remove_prefix_in_ckpt",
                                              "save_steps",
                                              "lora_base_model",
                                              "lora_target_modules",
                                              "lora_rank",
                                              "lora_checkpoint",
                                              "preset_lora_path",
                                              "preset_lora_model",
                                              "use_gradient_checkpointing",
                                              "use_gradient_checkpointing_offload",
                                              "gradient_accumulation_steps",
                                              "template_model_id_or_path",
                                              "enable_lora_hot_loading",
                                              "enable_model_cpu_offload",
                                              "enable_optimizer_cpu_offload",
                                              "cpu_offload_split_threshold",
                                              "enable_tensorboard_log",
                                              "enable_swanlab_log",
                                              "enable_wandb_log",
                                              "enable_csv_log",
                                              "swanlab_project",
                                              "wandb_project",
                                              "tokenizer_path",
                                              "tokenizer_1_path",
                                              "tokenizer_2_path",
                                              "align_to_opensource_format",
                                              "initialize_model_on_cpu",
                                              "max_timestep_boundary",
                                              "min_timestep_boundary",
                                              "enable_npu_patch",
                                              "processor_path",
                                              "zero_cond_t",
                                              "dmd2_teacher_cfg_scale",
                                              "dmd2_student_t_list"};

TEST_F(BadInput, EveryOptionOfDiffSynthStudioIsKnown) {
  auto page = read_file(fs::path(test::kCheckout) / "docs/flags.md");
  for (const char* name : kOfDiffSynthStudio)
    EXPECT_TRUE(page.find(std::string("--") + name + "`") != page.npos || page.find(std::string("--") + name + ",") != page.npos) << name;
}

TEST_F(BadInput, InputsOfModelsThatAreNotHereAreRefusedWithWhatTheyAreFor) {
  auto with = [&](const std::string& names) { return train("--extra_inputs \"" + names + "\""); };
  refused(2, with("insert_anything_ref_image"), {"Insert-Anything"});
  refused(2, with("blockwise_controlnet_image"), {"is for a blockwise ControlNet"});
  refused(2, with("nosuch"), {"extra_inputs 'nosuch' is no column that task sft or a model here reads"});
  refused(2, with("edit_image,kontext_images"), {"reference pictures in 'edit_image' and in 'kontext_images'", "of one column"});
}
