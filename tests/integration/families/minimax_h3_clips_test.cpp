// MiniMax-H3's clips with sound in the whole program, beside diffusers and peft (tests/golden/make_minimax_h3_clips.py), and what of them
// other families have not: lengths of 17 n + 5 frames, sound that some samples lack, losses of frames and sound.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "data/clip.h"
#include "data/image.h"
#include "data/sound.h"
#include "data/video_file.h"
#include "tests/integration/families/minimax_h3.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"
#include "tests/integration/sound_drawn.h"

namespace burnish::minimax_h3_clips_test {
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kClips = golden_path("minimax_h3_clips");
const std::string kHeard = "--extra_inputs input_audio ";
const std::string kLora = "--lora_checkpoint " + quoted(kMiniMaxH3 / "lora.safetensors") + " ";

std::string clips_data(const fs::path& metadata = kClips / "metadata.csv") {
  return "--dataset_metadata_path " + quoted(metadata) + " " + kMiniMaxH3Size + "--num_frames 22 ";
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kClips, name, minimax_h3_model() + clips_data() + kLora + options, 2e-6);
}

class MiniMaxH3Clips : public BadInput {
 protected:
  std::string train(const std::string& name, const std::string& options) const {
    return run_ok("train " + minimax_h3_model() + clips_data() + "--lora_rank 4 --learning_rate 1e-3 --max_steps 4 " + options +
                  " --output_path " + quoted(at(name)));
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    for (auto& line : read_log(at(name))) all.push_back(line["loss"]);
    return all;
  }
  void expect_near(const std::string& a, const std::string& b, double bound) const {
    const auto of_a = losses(a), of_b = losses(b);
    ASSERT_EQ(of_a.size(), of_b.size());
    ASSERT_FALSE(of_a.empty());
    for (size_t i = 0; i < of_a.size(); ++i) EXPECT_NEAR(of_a[i], of_b[i], tolerance(bound) * of_b[i]) << i;
  }
  std::string sample(const std::string& options) const {
    return run_ok("sample " + minimax_h3_model() + kMiniMaxH3Size + "--prompt 'red apple' --seed 3 --num_inference_steps 2 --output_path " +
                  quoted(at("drawn")) + " " + options);
  }
};

}  // namespace

TEST(MiniMaxH3ClipsParity, FramesAndSound) { expect_trained("sounding", kHeard); }
TEST(MiniMaxH3ClipsParity, Checkpointed) { expect_trained("sounding", kHeard + "--use_gradient_checkpointing"); }
TEST(MiniMaxH3ClipsParity, ASoundThatCountsHalf) { expect_trained("half", kHeard + "--sound_loss_weight 0.5"); }
TEST(MiniMaxH3ClipsParity, SilentClips) { expect_trained("silent", ""); }

// Given frames are shown to the vision tower, stand in the text, and in the sequence as latents of a little noise.
TEST(MiniMaxH3ClipsParity, FirstFrame) { expect_trained("given_first", "--extra_inputs input_image "); }
TEST(MiniMaxH3ClipsParity, FirstAndLastFrame) {
  test::expect_steps(kClips, "given_last",
                     minimax_h3_model() + clips_data(kClips / "given.csv") + kLora + "--extra_inputs input_image,end_image ", 2e-6);
}

// The golden run has another row in place of the one without sound, of which no step would learn anything.
TEST_F(MiniMaxH3Clips, SoundAlone) {
  std::string rows = "video,prompt,input_audio\n";
  for (const auto& [file, caption] :
       {std::pair("0", "red apple"), {"1", "\"a cat face, smiling\""}, {"0", "red apple"}, {"3", "red apple"}})
    rows += fmt::format("{0}/{1}.webp,{2},{0}/{1}.wav\n", kClips.string(), file, caption);
  auto log = test::replayed(kClips, minimax_h3_model() + clips_data(write("rows.csv", rows)) + kLora + kHeard + "--frames_loss_weight 0");
  auto expected = expected_in(kClips);
  expect_logged(log, "loss", expected.tensor("sound.loss"), 2e-6);
  expect_logged(log, "grad_norm", expected.tensor("sound.grad_norm"), 1e-4);
}

TEST_F(MiniMaxH3Clips, AreDrawnWithSoundAsByDiffusers) {
  expect_drawn_with_sound(at(""), kClips, minimax_h3_model() + kMiniMaxH3Size + "--num_frames 22 ");
}

TEST_F(MiniMaxH3Clips, SoundIsInTheFileThatIsDrawn) {
  sample("--num_frames 22");
  const auto look = data::look_at_clip((at("drawn") / "0000.mp4").string());
  EXPECT_EQ(look.num_frames, 22);
  const auto sound = data::decode_sound(at("drawn") / "0000.mp4", {}, 800, 2);
  EXPECT_NEAR(static_cast<double>(sound.size(1)), 740, 40);
  EXPECT_GT(sound.abs().max().item<double>(), 1e-3);
  EXPECT_THAT(sample("--num_frames 22 --format webp"), HasSubstr("webp holds no sound"));
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.webp"));
  sample("--num_frames 5");  // two latents, fewer than diffusers decodes
  EXPECT_EQ(data::look_at_clip((at("drawn") / "0000.mp4").string()).num_frames, 5);
  sample("");
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.png"));
}

TEST_F(MiniMaxH3Clips, SamplesWithAndWithoutSoundStandInOneBatch) {
  train("together", kHeard + "--batch_size 4");
  train("apart", kHeard + "--gradient_accumulation_steps 4");
  expect_near("together", "apart", 1e-5);
  train("silent", "--batch_size 4");
  EXPECT_NE(losses("silent"), losses("together"));
}

TEST_F(MiniMaxH3Clips, ASoundThatIsNotJudgedIsSeen) {
  train("context", kHeard + "--sound_loss_weight 0");
  train("silent", "");
  EXPECT_NE(losses("context"), losses("silent"));
}

TEST_F(MiniMaxH3Clips, AMaskIsOfFramesAlone) {
  data::write_png(at("black.png"), at::zeros({32, 64, 3}, at::kByte));
  std::string rows = "video,prompt,input_audio,mask\n";
  for (const char* file : {"0", "1", "3"})
    rows += fmt::format("{0}/{1}.webp,cat,{0}/{1}.wav,{2}\n", kClips.string(), file, at("black.png").string());
  const auto run = [&](const std::string& name, const std::string& options) {
    run_ok("train " + minimax_h3_model() + clips_data(write("rows.csv", rows)) + kHeard + options +
           "--lora_rank 4 --max_steps 3 --output_path " + quoted(at(name)));
  };
  run("masked", "--masked_loss column --unmasked_weight 0 ");
  run("sound", "--frames_loss_weight 0 ");
  expect_near("masked", "sound", 1e-6);
  EXPECT_GT(losses("sound").front(), 0.1);
}

TEST_F(MiniMaxH3Clips, TrainFromACacheAsFromClips) {
  train("live", kHeard);
  run_ok("cache " + minimax_h3_model() + clips_data() + kHeard + "--cache_path " + quoted(at("cache")));
  run_ok("train " + minimax_h3_model() + kHeard + "--dataset_base_path " + quoted(at("cache")) +
         " --task sft:train --lora_rank 4 --learning_rate 1e-3 --max_steps 4 --output_path " + quoted(at("cached")));
  EXPECT_EQ(losses("live"), losses("cached"));
}

TEST_F(MiniMaxH3Clips, TheSoundOfAClipIsThatOfItsFile) {
  // A clip with its sound in one file, which the column then need not name.
  auto clip = at::zeros({3, 22, 32, 64}, at::kByte);
  auto tone = (at::arange(48000) * 0.3).sin() * 0.5;
  data::write_video(at("clip.mp4"), clip, {24, 1}, {}, {}, {at::stack({tone, -tone}), 48000});
  io::write_text_atomic(at("own.csv"), "video,prompt\nclip.mp4,cat\n");
  io::write_text_atomic(at("lacking.csv"), "video,prompt\n" + (kClips / "0.webp").string() + ",cat\n");
  for (const std::string name : {"own", "lacking"})
    run_ok("train " + minimax_h3_model() + clips_data(at(name + ".csv")) + kHeard +
           "--lora_rank 4 --max_steps 1 --frames_loss_weight 0 --output_path " + quoted(at(name)));
  EXPECT_GT(losses("own").front(), 0.1);
  EXPECT_EQ(losses("lacking").front(), 0) << "of a clip without a track there is nothing to learn";
}

TEST_F(MiniMaxH3Clips, GoOnFromFramesThatAreGiven) {
  auto drawn = [&](const std::string& options) {
    sample("--num_frames 22 --save_latents " + quoted(at("latents.safetensors")) + " " + options);
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  };
  const auto picture = quoted(kGolden / "pictures/0.png"), end = quoted(kClips / "end.png");
  const auto alone = drawn(""), first = drawn("--reference " + picture), both = drawn("--reference " + picture + " --end_image " + end);
  EXPECT_GT(relative_error(first, alone), 1e-2);
  EXPECT_GT(relative_error(both, first), 1e-2);
  auto refused = run_burnish("sample " + minimax_h3_model() + kMiniMaxH3Size + "--prompt cat --num_frames 22 --end_image " + end +
                             " --output_path " + quoted(at("run")));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("end_image is a clip's last frame and goes with its first"));
  refused = run_burnish("sample " + minimax_h3_model() + kMiniMaxH3Size + "--prompt cat --reference " + picture + " --output_path " +
                        quoted(at("run")));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("this one has no other that could be predicted"));
}

TEST_F(MiniMaxH3Clips, CaptionsOfUnequalLengthStandInOneBatchBesideGivenFrames) {
  train("together", "--extra_inputs input_image,input_audio --batch_size 4");
  train("apart", "--extra_inputs input_image,input_audio --gradient_accumulation_steps 4");
  expect_near("together", "apart", 1e-5);
}

TEST_F(MiniMaxH3Clips, HaveTheLengthsOfTheModel) {
  auto refused = run_burnish("train " + minimax_h3_model() + clips_data() + "--num_frames 23 --lora_rank 4 --max_steps 1 --output_path " +
                             quoted(at("run")));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("22"), HasSubstr("39")));
  EXPECT_THAT(train("five", "--num_frames 5"), Not(HasSubstr("error")));
  EXPECT_THAT(train("stills", "--num_frames 1"), Not(HasSubstr("error")));
}

TEST_F(MiniMaxH3Clips, OptionsOfSoundThatContradictEachOtherAreRefused) {
  for (const auto& [options, words] : {std::pair(kHeard + "--sound_of_stills none ", "sound_of_stills none"),
                                       {std::string("--frames_loss_weight 0 "), "nothing is learned but sound"}}) {
    auto refused = run_burnish("train " + minimax_h3_model() + clips_data() + "--lora_rank 4 --max_steps 1 " + options + "--output_path " +
                               quoted(at("run")));
    EXPECT_EQ(refused.exit_code, 2) << options;
    EXPECT_THAT(refused.output, HasSubstr(words));
  }
}

}  // namespace burnish::minimax_h3_clips_test
