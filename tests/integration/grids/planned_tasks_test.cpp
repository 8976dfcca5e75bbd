// Every task, every term of its loss and every option of an objective can be planned: what a step computes on the CPU is computed on the
// meta device too.
#include <ATen/ops/full.h>
#include <fmt/core.h>

#include "data/image.h"
#include "tests/integration/program.h"
#include "tests/scratch.h"
#include "train/objectives/objective_kind.h"
#include "train/objectives/robust_loss.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const std::string kAge = "--target_class 'a person' --positive_prompt 'an old person' --negative_prompt 'a young person' ";
const std::string kForget = "--erase_prompt 'a red apple' --neutral_prompt 'a fruit' ";

/// Flags of runs by tasks; each is planned by itself, and together they give every option of their objectives.
const std::map<std::string, std::vector<std::string>> kCases{
    {"sft",
     {"",
      "--trigger_word red --diff_output_preservation --diff_output_preservation_class blue --diff_output_preservation_multiplier 0.5 "
      "--blank_prompt_preservation --blank_prompt_preservation_multiplier 2 --drift_loss_weight 0.5 --sft_loss_weight 0.5 ",
      "--masked_loss column --masked_prior_preservation_weight 0.7 --normalize_masked_area_loss ",
      "--training_cfg_scale 3 --training_cfg_scale_max 4 --training_cfg_schedule sigma --training_cfg_zero --training_cfg_loss target "
      "--training_cfg_negative_prompt blurry ",
      "--class_target model --class_metadata_path CLASS "}},
    {"dpo", {"", "--beta_dpo 50 ", "--use_gradient_checkpointing --batch_size 2 "}},
    {"direct_distill", {"", "--distill_spacing diffsynth "}},
    {"trajectory_imitation",
     {"--student_num_inference_steps 2 --teacher_num_inference_steps 6 ",
      "--student_num_inference_steps 2 --teacher_num_inference_steps 6 --teacher_cfg_scale 2 --distill_spacing diffsynth "}},
    {"slider",
     {kAge, kAge + "--concept_latents pictures --guidance_strength 2 --anchor_class 'a dog' --anchor_strength 0.5 ",
      kAge + "--concept_latents drawn --max_denoising_steps 3 --denoising_cfg_scale 2 ", "--concept_config CONCEPTS "}},
    {"erase",
     {kForget,
      kForget + "--target_class 'fruit' --erase_strength 2 --anchor_class 'a dog' --anchor_strength 0.5 --concept_latents drawn "
                "--max_denoising_steps 3 "
                "--denoising_cfg_scale 2 ",
      "--concept_config ERASED "}},
    {"dmd2",
     {"--dmd2_student_update_freq 2 --dmd2_feature_indices 1 --dmd2_discriminator_learning_rate 1e-3 --dmd2_fake_score_learning_rate 1e-3 ",
      "--dmd2_student_sample_steps 2 --dmd2_student_t_list 0.9,0.5,0 --dmd2_backward_simulation --dmd2_teacher_cfg_scale 2 "
      "--dmd2_student_sample_type sde --dmd2_student_grad_clip_norm 5 --dmd2_fake_score whole ",
      "--dmd2_matching_t_sampling logitnormal --dmd2_matching_t_mean 0.1 --dmd2_matching_t_std 2 --dmd2_matching_t_min 0.1 "
      "--dmd2_matching_t_max 0.9 --dmd2_gan_r1_reg_weight 1 --dmd2_gan_r1_reg_alpha 0.2 --dmd2_student_schedule uniform ",
      "--dmd2_gan_loss_weight 0 "}},
};

class PlannedTask : public testing::Test {
 protected:
  PlannedTask() {
    std::ofstream metadata(folder / "rows.csv");
    metadata << "image,rejected_image,mask,prompt,seed,rand_device,num_inference_steps,cfg_scale\n";
    auto mask = at::full({48, 64, 1}, 255, at::kByte);
    mask.narrow(1, 0, 16).fill_(0);
    data::write_png(folder / "mask.png", mask);
    for (int i = 0; i < 4; ++i)
      metadata << fmt::format("{0}/{1}.png,{0}/{2}.png,{3},a red apple,{1},cpu,4,1\n", (kGolden / "pictures").string(), i, (i + 1) % 4,
                              (folder / "mask.png").string());
    std::ofstream(folder / "slider.toml")
        << "[[concepts]]\ntarget_class = \"a person\"\npositive_prompt = \"old\"\nnegative_prompt = \"young\"\n";
    std::ofstream(folder / "erased.toml") << "[[concepts]]\nerase_prompt = \"a red apple\"\n";
  }
  std::string with_files(std::string flags) const {
    for (const auto& [word, path] : {std::pair<std::string, fs::path>{"CLASS", kGolden / "pictures/metadata.csv"},
                                     {"CONCEPTS", folder / "slider.toml"},
                                     {"ERASED", folder / "erased.toml"}}) {
      if (const auto at = flags.find(word); at != flags.npos) flags.replace(at, word.size(), "'" + path.string() + "'");
    }
    return flags;
  }
  void expect_planned(const std::string& flags) const {
    SCOPED_TRACE(flags);
    const auto out = run_burnish("plan --json --num_threads 1 " + golden_model() + option("dataset_metadata_path", folder / "rows.csv") +
                                     "--height 48 --width 64 --max_steps 2 --lora_rank 2 " + with_files(flags),
                                 "BURNISH_LOG=error");
    EXPECT_EQ(out.exit_code, 0) << out.output;
    EXPECT_GT(nlohmann::json::parse(out.output, nullptr, /*allow_exceptions=*/false).value("bytes", int64_t{0}), 0) << out.output;
  }
  Scratch folder;
};

class EveryTaskPlan : public PlannedTask, public testing::WithParamInterface<std::string> {};

}  // namespace

TEST_P(EveryTaskPlan, IsMade) {
  ASSERT_TRUE(kCases.contains(GetParam())) << "a task without a case here";
  for (const auto& flags : kCases.at(GetParam())) expect_planned("--task " + GetParam() + " " + flags);
}

TEST_P(EveryTaskPlan, HasACaseForEveryOptionOfItsObjective) {
  std::string all;
  for (const auto& flags : kCases.at(GetParam())) all += flags;
  for (auto* kind : train::kObjectives) {
    if (kind().word != GetParam()) continue;
    for (const auto& given : kind().options) EXPECT_NE(all.find("--" + given.name + " "), all.npos) << given.name;
  }
}

TEST_F(PlannedTask, IsMadeWithEveryKindOfError) {
  for (const auto& type : train::loss_types()) {
    expect_planned("--loss_type " + type + " ");
    if (type == "l2") continue;  // which has no threshold
    for (const auto& schedule : train::huber_schedules()) expect_planned("--loss_type " + type + " --huber_schedule " + schedule + " ");
  }
}

INSTANTIATE_TEST_SUITE_P(Of, EveryTaskPlan, testing::ValuesIn(train::objective_words()), [](const auto& info) { return info.param; });
