// Wan in the whole program beside diffusers and peft: sampled latents and replayed training steps on pictures, which are clips of one frame
// (tests/golden/make_wan.py).
#include "tests/integration/parity.h"
#include "tests/integration/wan.h"

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

TEST(WanReplayParity, Lora) { expect_steps("lora", "--lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, LoraCheckpointed) { expect_steps("lora", "--use_gradient_checkpointing --lora_checkpoint " + kLoraFile); }
TEST(WanReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }
