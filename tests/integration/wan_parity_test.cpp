// Wan in the whole program beside diffusers and peft: sampled latents and replayed training steps on pictures, which are clips of one frame
// (tests/golden/make_wan.py).
#include <gmock/gmock.h>

#include "data/animated_webp.h"
#include "data/image.h"
#include "tests/integration/parity.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const fs::path kWan = golden_path("wan_pipeline");

std::string wan_model() { return "--model '" + (kWan / "model").string() + "' --dtype fp32 "; }

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(kWan, name, wan_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat' " + options);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kWan, name, wan_model() + "--loss_weighting uniform " + golden_data() + options);
}

const std::string kLoraFile = "'" + (kWan / "lora.safetensors").string() + "' ";

}  // namespace

TEST(WanSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(WanSampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(WanSampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }

TEST(WanSampleParity, ClipsOfNineFrames) {
  Scratch folder;
  auto source = expected_in(kWan);
  io::save_safetensors(folder / "noise.safetensors", {{"noise", source.tensor("clip_noise")}});
  auto sample = [&](const std::string& options) {
    return run_burnish("sample " + wan_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat' --height 48 --width 64 " +
                       "--num_inference_steps 4 --output_path " + (folder / "out").string() + " " + options);
  };
  auto noise = "--noise " + (folder / "noise.safetensors").string() + " ";
  auto out = sample("--num_frames 9 --save_latents " + (folder / "latents.safetensors").string() + " " + noise);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto latents = io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
  EXPECT_LE(relative_error(latents, source.tensor("latents.clip")), tolerance(1e-4));
  EXPECT_TRUE(fs::exists(folder / "out/0001.webp"));
  auto text = data::read_webp_text(folder / "out/0001.webp");
  EXPECT_EQ(text["prompt"], "tree of the north, a cat");
  EXPECT_EQ(text["num_frames"] + " at " + text["frame_rate"], "9 at 16");

  auto refused = [&](const std::string& options) {
    auto outcome = sample(options);
    EXPECT_EQ(outcome.exit_code, 2) << options;
    return outcome.output;
  };
  EXPECT_THAT(refused("--num_frames 8"), testing::HasSubstr("1 + a multiple of 4 frames, and not 8; the nearest are 5 and 9"));
  EXPECT_THAT(refused("--frame_rate 24"), testing::HasSubstr("frame_rate says how clips play, and all that is drawn is one frame"));
  auto other = sample("--num_frames 5 " + noise);
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.output, testing::HasSubstr("2 pictures of this size need [2, 16, 2, 6, 8]"));
}

TEST(WanSample, ARunOfClipsIsDrawnAsClips) {
  Scratch folder;
  const auto run = folder / "run", out = folder / "out";
  auto trained = run_burnish("train " + wan_model() + golden_data() + "--max_steps 1 --lora_rank 2 --output_path " + run.string());
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  auto saved = io::SafetensorsFile::open(run / "step-1.safetensors");
  io::NamedTensors tensors;
  for (const auto& [name, info] : saved->tensors()) tensors.emplace_back(name, saved->tensor(name).clone());
  auto metadata = saved->metadata();
  EXPECT_EQ(metadata["resolution"], "64x48");
  metadata["resolution"] = "64x48x5";  // as of a run on clips
  io::save_safetensors(run / "step-1.safetensors", tensors, metadata);
  auto sample = [&](const std::string& options) {
    auto outcome =
        run_burnish("sample --run " + run.string() + " --prompt cat --num_inference_steps 1 --output_path " + out.string() + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  };
  sample("");
  EXPECT_EQ(data::read_webp_text(out / "0000.webp")["num_frames"], "5");
  auto frames = [&] { return std::distance(fs::directory_iterator(out / "0000"), fs::directory_iterator()); };
  sample(" --num_frames 9 --format png");
  EXPECT_EQ(frames(), 9);
  sample(" --format png");
  EXPECT_EQ(frames(), 5) << "and what was left of the longer clip is gone";
  EXPECT_EQ(data::image_size(out / "0000/00004.png"), (data::Size{48, 64}));
}

TEST(WanReplayParity, Lora) { expect_steps("lora", "--lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, LoraCheckpointed) { expect_steps("lora", "--use_gradient_checkpointing --lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }
