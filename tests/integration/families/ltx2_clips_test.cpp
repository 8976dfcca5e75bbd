// LTX-2's clips with sound in the whole program, beside diffusers and peft (tests/golden/make_ltx2_clips.py), and what of them other
// families have not: sound that some samples lack, losses of frames and sound, a first frame that is given.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "data/clip.h"
#include "data/sound.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"
#include "tests/integration/sound_drawn.h"

namespace burnish::ltx2_clips_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kClips = golden_path("ltx2_clips");
const std::string kHeard = "--extra_inputs input_audio ";
const std::string kLora = "--lora_checkpoint " + quoted(kLtx2 / "lora.safetensors") + " ";

std::string clips_data(const fs::path& metadata = kClips / "metadata.csv") {
  return "--dataset_metadata_path " + quoted(metadata) + " " + kLtx2Size + "--num_frames 9 ";
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kClips, name, ltx2_model() + clips_data() + kLora + options, 2e-6);
}

class Ltx2Clips : public BadInput {
 protected:
  std::string train_command(const std::string& name, const std::string& options) const {
    return "train " + ltx2_model() + clips_data() + "--lora_rank 4 --learning_rate 1e-3 --max_steps 4 " + options + " --output_path " +
           quoted(at(name));
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    for (auto& line : read_log(at(name))) all.push_back(line["loss"]);
    return all;
  }
  std::string sample(const std::string& options) const {
    return run_ok("sample " + ltx2_model() + kLtx2Size + "--prompt 'red apple' --seed 3 --num_inference_steps 2 --output_path " +
                  quoted(at("drawn")) + " " + options);
  }
};

}  // namespace

TEST(Ltx2ClipsParity, FramesAndSound) { expect_trained("sounding", kHeard); }
TEST(Ltx2ClipsParity, Checkpointed) { expect_trained("sounding", kHeard + "--use_gradient_checkpointing"); }
TEST(Ltx2ClipsParity, ASoundThatCountsHalf) { expect_trained("half", kHeard + "--sound_loss_weight 0.5"); }
TEST(Ltx2ClipsParity, SilentClips) { expect_trained("silent", ""); }

TEST_F(Ltx2Clips, AreDrawnWithSoundAsByDiffusers) { expect_drawn_with_sound(at(""), kClips, ltx2_model() + kLtx2Size + "--num_frames 9 "); }

TEST_F(Ltx2Clips, SoundIsInTheFileThatIsDrawn) {
  sample("--num_frames 9");
  EXPECT_EQ(data::look_at_clip((at("drawn") / "0000.mp4").string()).num_frames, 9);
  const auto sound = data::decode_sound(at("drawn") / "0000.mp4", {}, 16000, 2);
  EXPECT_NEAR(static_cast<double>(sound.size(1)), 5300, 1100);
  EXPECT_GT(sound.abs().max().item<double>(), 1e-4);
  sample("");
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.png"));
}

// Samples with and without sound stand in one batch, which teaches what they teach one by one.
TEST_F(Ltx2Clips, ABatchMayHaveSamplesWithoutSound) {
  run_ok(train_command("together", kHeard + "--batch_size 4"));
  run_ok(train_command("apart", kHeard + "--gradient_accumulation_steps 4"));
  const auto together = losses("together"), apart = losses("apart");
  ASSERT_EQ(together.size(), 4u);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
}

TEST_F(Ltx2Clips, AFirstFrameIsSeenAndNotJudged) {
  run_ok(train_command("given", "--extra_inputs input_image "));
  run_ok(train_command("plain", ""));
  const auto given = losses("given"), plain = losses("plain");
  for (size_t i = 0; i < given.size(); ++i) EXPECT_NE(given[i], plain[i]) << i;
  sample("--num_frames 9 --reference " + quoted(kGolden / "pictures/0.png") + " --save_latents " + quoted(at("given.safetensors")));
  sample("--num_frames 9 --seed 4 --reference " + quoted(kGolden / "pictures/0.png") + " --save_latents " +
         quoted(at("other.safetensors")));
  auto drawn = [&](const std::string& name) { return io::SafetensorsFile::open(at(name + ".safetensors"))->tensor("latents").clone(); };
  EXPECT_LE(relative_error(drawn("given").select(2, 0), drawn("other").select(2, 0)), tolerance(1e-5)) << "it is the given one";
  EXPECT_GT(relative_error(drawn("given").select(2, 1), drawn("other").select(2, 1)), 1e-2);
  auto refused = run_burnish("train " + ltx2_model() + ltx2_data() +
                             "--lora_rank 4 --max_steps 1 --extra_inputs input_image --output_path " + quoted(at("still")));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("this one has no other that could be predicted"));
}

}  // namespace burnish::ltx2_clips_test
