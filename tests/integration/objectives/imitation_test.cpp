// Trajectory imitation: nothing to learn from itself, something from a finer walk, and the same bits in all ways of running it.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "data/image.h"
#include "tests/integration/families/stable_diffusion.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kTask = "--task trajectory_imitation ";
const std::string kSteps = "--student_num_inference_steps 2 --teacher_num_inference_steps 6 ";
const std::string kImitation = "--lora_rank 4 --learning_rate 1e-3 ";

class Imitation : public testing::Test {
 protected:
  std::vector<nlohmann::json> train(const std::string& options, const std::string& run) {
    auto out = run_burnish("train " + options + option("output_path", folder / run));
    EXPECT_EQ(out.exit_code, 0) << options << "\n" << out.output;
    return read_log(folder / run);
  }
  /// The picture of a prompt that is in no row.
  at::Tensor drawn(const std::string& options) {
    auto out = run_burnish("sample " + golden_model() + "--prompt 'tree of the north' --seed 3 --height 48 --width 64 " +
                           "--embedded_guidance 1 " + options + option("output_path", folder / "drawn"));
    EXPECT_EQ(out.exit_code, 0) << out.output;
    return data::decode_image(folder / "drawn/0000.png").to(at::kFloat);
  }
  Scratch folder;
};

std::vector<std::string> shown_numbers(const std::vector<nlohmann::json>& log) {
  std::vector<std::string> lines;
  for (const auto& line : log) lines.push_back(nlohmann::json{line["loss"], line["grad_norm"]}.dump());
  return lines;
}

}  // namespace

TEST_F(Imitation, OfItselfHasNothingToLearn) {
  auto same = "--student_num_inference_steps 4 --teacher_num_inference_steps 4 --teacher_cfg_scale 1 ";
  for (const auto& line : train(kTask + same + kImitation + "--max_steps 8 " + golden_model() + golden_data(), "run")) {
    EXPECT_EQ(line["loss"], 0.0) << line["step"];
    EXPECT_EQ(line["grad_norm"], 0.0) << line["step"];
  }
}

TEST_F(Imitation, BringsFewStepsNearToMany) {
  std::ofstream(folder / "held_out.csv") << "image,prompt\n" << (kGolden / "pictures/2.png").string() << ",tree of the north\n";
  train(kTask + "--student_num_inference_steps 2 --teacher_num_inference_steps 16 --teacher_cfg_scale 1 --max_steps 150 " + kImitation +
            golden_model() + golden_data() + option("validation_metadata_path", folder / "held_out.csv"),
        "run");
  auto validation = nlohmann::json::parse(read_file(folder / "run/validation.json"));
  EXPECT_LT(validation["after"].get<double>(), 0.8 * validation["before"].get<double>());
  auto teacher = drawn("--num_inference_steps 16 ");
  auto distance = [&](const std::string& options) {
    return (drawn("--num_inference_steps 2 " + options) - teacher).square().mean().item<double>();
  };
  EXPECT_LT(distance(option("lora", folder / "run/step-150.safetensors")), 0.8 * distance(""));
}

TEST_F(Imitation, SplitStagedAndResumedRunsAreTheUnsplitOne) {
  auto model = golden_model() + golden_data(), more = kSteps + "--batch_size 2 " + kImitation;
  auto log = shown_numbers(train(kTask + model + more + "--max_steps 4 ", "whole"));
  EXPECT_EQ(shown_numbers(train(kTask + "--precompute none " + model + more + "--max_steps 4 ", "live")), log);
  train(kTask + model + more + "--max_steps 2 ", "resumed");
  EXPECT_EQ(shown_numbers(train(kTask + "--resume " + model + more + "--max_steps 4 ", "resumed")), log);
  auto cache = run_burnish("train --task trajectory_imitation:data_process " + model + kSteps + option("output_path", folder / "cache"));
  ASSERT_EQ(cache.exit_code, 0) << cache.output;
  auto split = "--task trajectory_imitation:train --max_steps 4 --dtype fp32 " + option("model", kGolden / "model/transformer") +
               option("dataset_base_path", folder / "cache") + more;
  EXPECT_EQ(shown_numbers(train(split, "split")), log);
  auto other = run_burnish("train " + split + "--teacher_cfg_scale 3 " + option("output_path", folder / "other"));
  EXPECT_EQ(other.exit_code, 3) << other.output;
  EXPECT_THAT(other.output, HasSubstr("teacher_cfg_scale 2"));
}

TEST_F(Imitation, TheTeacherIsTheModelBeforeTraining) {
  auto steps = kSteps + "--max_steps 2 --learning_rate 1e-4 " + golden_model() + golden_data();
  auto lora = train(kTask + "--lora_rank 4 --lora_base_model dit,text_encoder " + steps, "lora");
  auto whole = train(kTask + "--trainable_models dit,text_encoder " + steps, "whole");
  EXPECT_EQ(lora[0]["loss"], whole[0]["loss"]) << "both begin at the same model and teacher";
  EXPECT_GT(whole[0]["loss"].get<double>(), 0);
}

TEST_F(Imitation, RefusesWhatItCannotHonour) {
  auto refused = [&](const std::string& options, const char* text) {
    auto out = run_burnish("train " + kTask + options + option("output_path", folder / "run"));
    EXPECT_EQ(out.exit_code, 2) << out.output;
    EXPECT_THAT(out.output, HasSubstr(text));
  };
  auto flux = golden_model() + golden_data();
  refused(sd_model("sd15_pipeline") + sd_data("sd15_pipeline"), "are for models that flow");
  refused(flux + "--teacher_num_inference_steps 4 ", "teacher_num_inference_steps 4 is less than the student's 8");
  refused(flux + "--random_flip ", "takes of a picture its size");
  refused(flux + "--student_num_inference_steps 0 ", "student_num_inference_steps must be at least 1");
}
