// Wan in the whole program beside diffusers and peft: sampled latents and replayed training steps on pictures, which are clips of one frame
// (tests/golden/make_wan.py); and with two transformers, one for much noise and one for little (make_wan_experts.py).
#include <gmock/gmock.h>

#include "data/animated_webp.h"
#include "data/clip.h"
#include "data/image.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan_experts.h"

using namespace burnish;
using namespace burnish::test;

namespace {

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

/// UniPC, asked for and as the scheduler's file says: tests/golden/make_unipc.py.
TEST(WanSampleParity, UniPc) {
  Scratch folder;
  fs::copy(kWan / "model", folder / "model", fs::copy_options::recursive);
  std::ofstream(folder / "model/scheduler/scheduler_config.json")
      << R"({"_class_name": "UniPCMultistepScheduler", "prediction_type": "flow_prediction", "use_flow_sigmas": true, "flow_shift": 3.0,)"
      << R"( "solver_order": 2, "solver_type": "bh2", "disable_corrector": [], "lower_order_final": true, "final_sigmas_type": "zero"})";
  auto golden = io::TensorSource::open({golden_path("unipc.safetensors")});
  io::save_safetensors(folder / "noise.safetensors", {{"noise", expected_in(kWan).tensor("noise")}});
  for (const auto& options : {wan_model() + "--sampler unipc ", wan_model(folder / "model")}) {
    auto out =
        run_burnish("sample --height 48 --width 64 --num_inference_steps 4 --prompt 'red apple' --prompt 'tree of the north, a cat' " +
                    options + option("noise", folder / "noise.safetensors") + option("save_latents", folder / "latents.safetensors") +
                    option("output_path", folder / "out"));
    ASSERT_EQ(out.exit_code, 0) << out.output;
    auto latents = io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
    EXPECT_LE(relative_error(latents, golden.tensor("pipeline.latents")), tolerance(1e-4)) << options;
  }
}

/// A sampler that looks back at earlier steps does not come to the given frame by itself.
TEST(WanSampleParity, EndsOnTheGivenFrameWithEverySampler) {
  Scratch folder;
  const auto frames = fs::path(golden_path("wan_frames")) / "ti2v";
  auto first_frame = [&](const std::string& sampler) {
    auto out = run_burnish("sample " + wan_model(frames / "transformer") + option("model", frames / "vae") +
                           option("model", kWan / "model/text_encoder") + option("tokenizer_path", kWan / "model/tokenizer") +
                           "--height 32 --width 64 --num_frames 9 --num_inference_steps 4 --prompt 'red apple' --sampler " + sampler + " " +
                           option("reference", kGolden / "pictures/0.png") + option("save_latents", folder / "latents.safetensors") +
                           option("output_path", folder / "out"));
    EXPECT_EQ(out.exit_code, 0) << out.output;
    return io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents").select(2, 0).clone();
  };
  const auto given = first_frame("euler");
  EXPECT_LE(relative_error(first_frame("unipc"), given), 1e-6);
}

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
  EXPECT_THAT(refused("--format mp4"), testing::HasSubstr("format mp4 holds clips, and some of what is drawn is one frame"));
  auto other = sample("--num_frames 5 " + noise);
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.output, testing::HasSubstr("2 pictures of this size need [2, 16, 2, 6, 8]"));
}

TEST(WanSample, ARunOfClipsIsDrawnAsClips) {
  Scratch folder;
  const auto run = folder / "run", out = folder / "out";
  auto trained =
      run_burnish("train " + wan_model() + golden_data() + "--max_steps 1 --lora_rank 2 --frame_rate 12 --output_path " + run.string());
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
  EXPECT_EQ(data::read_webp_text(out / "0000.webp")["frame_rate"], "12") << "as the run's clips";
  auto frames = [&] { return std::distance(fs::directory_iterator(out / "0000"), fs::directory_iterator()); };
  sample(" --num_frames 9 --format png");
  EXPECT_EQ(frames(), 9);
  sample(" --format png");
  EXPECT_EQ(frames(), 5) << "and what was left of the longer clip is gone";
  EXPECT_EQ(data::image_size(out / "0000/00004.png"), (data::Size{48, 64}));
  for (const char* format : {"mp4", "webm"}) {
    sample(std::string(" --frame_rate 10 --format ") + format);
    auto found = data::look_at_clip(out / (std::string("0000.") + format));
    EXPECT_EQ(found.num_frames, 5) << format;
    EXPECT_NEAR(static_cast<double>(found.duration.num) / static_cast<double>(found.duration.den), 0.5, 2e-3) << format;
  }
}

TEST(WanReplayParity, Lora) { expect_steps("lora", "--lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, LoraCheckpointed) { expect_steps("lora", "--use_gradient_checkpointing --lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }

namespace {

const fs::path& kExperts = kWanExperts;

class WanExperts : public testing::Test {
 protected:
  WanExperts() { make_wan_experts(model()); }
  fs::path model() const { return folder_ / "model"; }
  std::string options() const { return option("model", model()) + "--dtype fp32 "; }
  void latents(const std::string& name, const std::string& more) const {
    test::expect_latents(kExperts, name, options() + "--prompt 'red apple' --prompt 'tree of the north, a cat' " + more);
  }
  void steps(const std::string& name, const std::string& more) const {
    test::expect_steps(kExperts, name, options() + "--loss_weighting uniform " + golden_data() + more);
  }
  static std::string lora(const std::string& expert) { return (kExperts / ("lora_" + expert + "_noise.safetensors")).string(); }

  Scratch folder_;
};

}  // namespace

TEST_F(WanExperts, AreDrawnWithOneBehindTheOther) { latents("latents.plain", ""); }
TEST_F(WanExperts, AreDrawnWithALoraEach) { latents("latents.lora", "--lora '" + lora("high") + "' --lora '" + lora("low") + "'"); }
TEST_F(WanExperts, TrainAdaptersByTheNoiseOfEachStep) { steps("lora", "--lora_checkpoint '" + lora("high") + "," + lora("low") + "'"); }
TEST_F(WanExperts, GoOnFromBothFilesOfAPairOfWhichOneIsNamed) {
  steps("lora", "--lora_checkpoint '" + lora("high") + "'");
  steps("lora", "--lora_checkpoint '" + lora("low") + "'");
}
TEST_F(WanExperts, TrainWholeByTheNoiseOfEachStep) { steps("full", "--trainable_models dit,dit_2"); }

TEST_F(WanExperts, OneTrainsAloneAndWritesAFileOfItsOwn) {
  for (const auto& more :
       {std::string("--experts high_noise --lora_rank 4 "), "--experts high_noise --lora_checkpoint '" + lora("high") + "' ",
        "--lora_base_model dit --lora_checkpoint '" + lora("high") + "' "}) {
    SCOPED_TRACE(more);
    Scratch scratch;
    const auto run = scratch / "run";
    auto done =
        run_burnish("train " + options() + golden_data() + more + "--max_steps 4 --learning_rate 1e-3 " + option("output_path", run));
    ASSERT_EQ(done.exit_code, 0) << done.output;
    EXPECT_TRUE(fs::exists(run / "step-4.high_noise.safetensors")) << done.output;
    for (const auto& file : files_below(run)) EXPECT_EQ(file.find("low_noise"), std::string::npos) << file;
  }
}

// DiffSynth-Studio's command of Wan2.2-T2V-A14B: one of the experts' files, whose folder says which it is.
TEST_F(WanExperts, OneIsTrainedByItsFileAlone) {
  const auto base = folder_ / "models/Wan-AI/Wan2.2-T2V-A14B", run = folder_ / "run";
  fs::create_directories(base);
  fs::copy(kExperts / "low_noise_model", base / "low_noise_model");
  for (const char* part : {"text_encoder", "vae"}) fs::copy(kWan / "model" / part, base / part);
  fs::create_directories(base / "google");
  fs::copy(kWan / "model/tokenizer", base / "google/umt5-xxl", fs::copy_options::recursive);
  auto done = run_burnish(
      "train " + golden_data() +
          "--dataset_repeat 1 --model_id_with_origin_paths "
          "\"Wan-AI/Wan2.2-T2V-A14B:low_noise_model/diffusion_pytorch_model*.safetensors,Wan-AI/Wan2.2-T2V-A14B:text_encoder/"
          "model.safetensors,Wan-AI/Wan2.2-T2V-A14B:vae/diffusion_pytorch_model.safetensors\" --learning_rate 1e-4 --num_epochs 1 "
          "--remove_prefix_in_ckpt \"pipe.dit.\" --lora_base_model \"dit\" --lora_target_modules \"q,k,v,o,ffn.0,ffn.2\" --lora_rank "
          "32 --tokenizer_path '" +
          (base / "google/umt5-xxl").string() + "' --max_timestep_boundary 1 --min_timestep_boundary 0.417 " + option("output_path", run),
      "DIFFSYNTH_MODEL_BASE_PATH='" + (folder_ / "models").string() + "'");
  ASSERT_EQ(done.exit_code, 0) << done.output;
  EXPECT_THAT(done.output, testing::HasSubstr("lora of rank 32, scale 1 on 20 layers"));
  EXPECT_TRUE(fs::exists(run / "step-4.low_noise.safetensors")) << done.output;
}
