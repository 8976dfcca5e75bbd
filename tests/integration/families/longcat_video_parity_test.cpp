// LongCat-Video in the whole program beside its makers' class and steps, transformers and peft: sampled latents and replayed training steps
// on pictures, which are clips of one frame, and on clips whose first frames are given (tests/golden/make_longcat_video.py).
#include <gmock/gmock.h>

#include "tests/integration/families/longcat_video.h"
#include "tests/integration/parity.h"

namespace burnish::longcat_video_parity_test {
using namespace burnish::test;

namespace {

const std::string kPrompts = "--prompt 'red apple' --prompt 'tree of the north, a cat' ";
const std::string kAdapter = "'" + (kLongCatVideo / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kAdapter;
const std::string kGuided = "--negative_prompt cat --cfg_scale 2.5 ";

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kLongCatVideo, name, longcat_video_model() + kPrompts + options, 1e-5);
}

at::Tensor clips_drawn(const std::string& options) {
  Scratch folder;
  io::save_safetensors(folder / "noise.safetensors", {{"noise", expected_in(kLongCatVideo).tensor("clip_noise")}});
  auto out = run_burnish("sample " + longcat_video_model() + kPrompts + "--height 48 --width 64 --num_frames 9 --num_inference_steps 4 " +
                         option("noise", folder / "noise.safetensors") + option("save_latents", folder / "latents.safetensors") +
                         option("output_path", folder / "out") + options);
  EXPECT_EQ(out.exit_code, 0) << out.output;
  EXPECT_TRUE(fs::exists(folder / "out/0001.webp"));
  return io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents").clone();
}

void expect_clips(const std::string& name, const std::string& options) {
  EXPECT_LE(relative_error(clips_drawn(options), expected_in(kLongCatVideo).tensor("clip." + name)), tolerance(1e-5)) << name;
}

void expect_trained(const std::string& name, const std::string& options) {
  expect_steps(kLongCatVideo, name, longcat_video_model() + golden_data() + "--loss_weighting uniform " + options, 2e-6);
}

/// Ten steps on clips whose first frame is given.
void expect_trained_from_first(const std::string& name, const std::string& options) {
  Scratch folder;
  auto out = run_burnish("train --max_steps 10 --learning_rate 1e-3 --loss_weighting uniform --extra_inputs input_image " +
                         longcat_video_model() + clips_of_nine() + option("replay", kLongCatVideo / "replay_clips.safetensors") +
                         option("output_path", folder / "run") + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  const auto log = read_log(folder / "run");
  const auto source = expected_in(kLongCatVideo);
  expect_logged(log, "loss", source.tensor("first." + name + ".loss"), 2e-6);
  expect_logged(log, "grad_norm", source.tensor("first." + name + ".grad_norm"), 1e-4);
}

const std::string kFirst = option("reference", kLongCatVideo / "first.png");

}  // namespace

TEST(LongCatVideoSampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(LongCatVideoSampleParity, OneAtATime) { expect_drawn("latents.plain", "--batch_size 1"); }
TEST(LongCatVideoSampleParity, Guidance) { expect_drawn("latents.cfg", kGuided); }
TEST(LongCatVideoSampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(LongCatVideoSampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kAdapter); }

TEST(LongCatVideoSampleParity, ClipsOfNineFrames) {
  expect_clips("plain", "");
  expect_clips("cfg", kGuided);
}
TEST(LongCatVideoSampleParity, ClipsThatGoOnFromAPicture) {
  expect_clips("first", kFirst);
  expect_clips("first_cfg", kFirst + kGuided);
}
TEST(LongCatVideoSampleParity, ClipsThatGoOnFromFiveFrames) {
  expect_clips("five", "--given_frames 5 " + option("reference", kClipsOfNine / "0.webp"));
}

TEST(LongCatVideoReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(LongCatVideoReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
TEST(LongCatVideoReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }
TEST(LongCatVideoReplayParity, LoraFromTheFirstFrame) { expect_trained_from_first("lora", kLora); }
TEST(LongCatVideoReplayParity, LoraFromTheFirstFrameCheckpointed) {
  expect_trained_from_first("lora", kLora + "--use_gradient_checkpointing");
}
TEST(LongCatVideoReplayParity, FullFromTheFirstFrame) { expect_trained_from_first("full", "--trainable_models dit"); }

}  // namespace burnish::longcat_video_parity_test
