// Imitation and DMD2 of MiniMax-H3, whose frames and sound are both walked and judged, each at levels of noise of its own; DMD2 beside
// tests/golden/make_minimax_h3_dmd2.py.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/integration/families/minimax_h3.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"

namespace burnish::minimax_h3_distill_test {
using namespace burnish::test;
using testing::Each;
using testing::HasSubstr;

namespace {

const std::string kClips = "--dataset_metadata_path " + quoted(fs::path(golden_path("minimax_h3_clips")) / "metadata.csv") + " " +
                           kMiniMaxH3Size + "--num_frames 5 ",
                  kSounding = kClips + "--extra_inputs input_audio ";

class MiniMaxH3Distilled : public BadInput {
 protected:
  std::vector<double> losses(const std::string& name, const std::string& options) const {
    run_ok("train " + minimax_h3_model() + "--learning_rate 1e-3 " + options + " --output_path " + quoted(at(name)));
    std::vector<double> all;
    for (auto& line : read_log(at(name))) all.push_back(line["loss"]);
    return all;
  }
  void expect_record(const std::string& file, const std::string& options) const {
    losses("run", kSounding +
                      "--task dmd2 --trainable_models dit --max_steps 6 --dmd2_student_update_freq 2 --dmd2_gan_loss_weight 0 "
                      "--dmd2_teacher_cfg_scale 2 --dmd2_fake_score_learning_rate 2e-3 --dmd2_student_grad_clip_norm 0.5 "
                      "--optimizer_args eps=1e-3 --replay " +
                      quoted(fs::path(golden_path(file))) + options);
    const auto log = read_log(at("run"));
    const auto expected = golden(file);
    for (const char* key : {"loss", "grad_norm"}) expect_logged(log, key, expected.tensor(key), 2e-4);
  }
};

const std::string kImitation = "--task trajectory_imitation --lora_rank 4 ";

}  // namespace

TEST_F(MiniMaxH3Distilled, Dmd2JudgesFramesAndSound) { expect_record("minimax_h3_dmd2.safetensors", ""); }
TEST_F(MiniMaxH3Distilled, Dmd2WalksFramesAndSound) {
  expect_record("minimax_h3_dmd2_simulation.safetensors", " --dmd2_backward_simulation");
}

/// A still has a sound that no sample knows, which the student draws all the same.
TEST_F(MiniMaxH3Distilled, TheSoundOfAStillIsJudgedToo) {
  const auto dmd2 = minimax_h3_data() + "--task dmd2 --lora_rank 4 --max_steps 3 --dmd2_gan_loss_weight 0 --dmd2_student_update_freq 2 ";
  const auto both = losses("both", dmd2), frames = losses("frames", dmd2 + "--sound_loss_weight 0");
  EXPECT_GT(both.at(1), frames.at(1) * 1.05) << "the fake score's loss";
  const auto imitation = minimax_h3_data() + kImitation + "--max_steps 2 --student_num_inference_steps 2 --teacher_num_inference_steps 6 ";
  EXPECT_NE(losses("two", imitation), losses("one", imitation + "--sound_loss_weight 0"));
}

TEST_F(MiniMaxH3Distilled, AWalkOfAsManyStepsHasNothingToLearn) {
  const std::string same = "--student_num_inference_steps 4 --teacher_num_inference_steps 4 --teacher_cfg_scale 1 --max_steps 8 ";
  for (const auto& data : {minimax_h3_data(), kSounding, kClips + "--sound_of_stills none "})
    EXPECT_THAT(losses("run", kImitation + same + data + "--overwrite "), Each(0.0)) << data;
}

TEST_F(MiniMaxH3Distilled, FewStepsComeNearerToMany) {
  const auto all =
      losses("run", kImitation + kSounding +
                        "--student_num_inference_steps 2 --teacher_num_inference_steps 12 --teacher_cfg_scale 1 --max_steps 120 ");
  auto mean = [&](size_t from) { return std::accumulate(all.begin() + from, all.begin() + from + 30, 0.0) / 30; };
  EXPECT_LT(mean(90), 0.8 * mean(0));
}

TEST_F(MiniMaxH3Distilled, ImitationIsTheSameInAllWaysOfRunningIt) {
  const auto run = kImitation + "--student_num_inference_steps 2 --teacher_num_inference_steps 4 --batch_size 2 --max_steps 3 ";
  const auto whole = losses("whole", run + kSounding);
  EXPECT_EQ(losses("live", run + kSounding + "--precompute none "), whole);
  run_ok("cache " + minimax_h3_model() + kSounding +
         "--task trajectory_imitation --student_num_inference_steps 2 --teacher_num_inference_steps 4 " + "--cache_path " +
         quoted(at("cache")));
  EXPECT_EQ(losses("cached", run + "--task trajectory_imitation:train --dataset_base_path " + quoted(at("cache"))), whole);
}

}  // namespace burnish::minimax_h3_distill_test
