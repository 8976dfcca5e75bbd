// Wan in the whole program beside diffusers and peft: sampled latents and replayed training steps on pictures, which are clips of one frame
// (tests/golden/make_wan.py); and with two transformers, one for much noise and one for little (make_wan_experts.py).
#include <gmock/gmock.h>

#include "tests/integration/parity.h"
#include "tests/integration/refused.h"

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

TEST(WanReplayParity, Lora) { expect_steps("lora", "--lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, LoraCheckpointed) { expect_steps("lora", "--use_gradient_checkpointing --lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }

namespace {

const fs::path kExperts = golden_path("wan_experts");

/// A folder of diffusers with both transformers, which meet at a noise of 0.6.
class WanExperts : public testing::Test {
 protected:
  WanExperts() {
    fs::copy(kWan / "model", model(), fs::copy_options::recursive);
    fs::copy(kExperts / "low_noise_model", model() / "transformer_2");
    auto index = nlohmann::json::parse(read_file(model() / "model_index.json"));
    index["transformer_2"] = index["transformer"];
    index["boundary_ratio"] = 0.6;
    std::ofstream(model() / "model_index.json") << index.dump();
  }
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
TEST_F(WanExperts, TrainWholeByTheNoiseOfEachStep) { steps("full", "--trainable_models dit,dit_2"); }

TEST_F(WanExperts, OneTrainsAloneAndWritesAFileOfItsOwn) {
  const auto run = folder_ / "run";
  auto done = run_burnish("train " + options() + golden_data() + "--experts high_noise --lora_rank 4 --max_steps 4 --learning_rate 1e-3 " +
                          option("output_path", run));
  ASSERT_EQ(done.exit_code, 0) << done.output;
  EXPECT_TRUE(fs::exists(run / "step-4.high_noise.safetensors")) << done.output;
  for (const auto& file : files_below(run)) EXPECT_EQ(file.find("low_noise"), std::string::npos) << file;
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
