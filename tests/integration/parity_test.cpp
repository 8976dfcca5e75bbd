// The whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_pipeline.py).
#include "tests/golden.h"
#include "tests/integration/program.h"

using namespace burnish;
using namespace burnish::test;

namespace {

io::TensorSource expected() { return io::TensorSource::open({(kGolden / "expected.safetensors").string()}); }

void expect_latents(const std::string& name, const std::string& options) {
  TempFolder folder;
  auto source = expected();
  io::save_safetensors(folder / "noise.safetensors", {{"noise", source.tensor("noise")}});
  auto out = run_burnish(
      "sample " + golden_model() +
      "--prompt 'red apple' --prompt 'tree of the north' --height 48 --width 64 --num_inference_steps 4 --embedded_guidance 3.5 "
      "--noise " +
      (folder / "noise.safetensors").string() + " --save_latents " + (folder / "latents.safetensors").string() + " --output_path " +
      (folder / "out").string() + " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto latents = io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
  EXPECT_LE(relative_error(latents, source.tensor(name)), 1e-4) << name;
  EXPECT_TRUE(fs::exists(folder / "out/0001.png"));
}

void expect_steps(const std::string& name, const std::string& options) {
  TempFolder folder;
  auto out = run_burnish("train " + golden_model() + golden_data() + "--max_steps 10 --learning_rate 1e-3 --replay '" +
                         (kGolden / "replay.safetensors").string() + "' --output_path " + (folder / "run").string() + " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto log = read_log(folder / "run");
  auto source = expected();
  auto losses = source.tensor(name + ".loss"), norms = source.tensor(name + ".grad_norm");
  ASSERT_EQ(log.size(), 10u);
  for (size_t i = 0; i < log.size(); ++i) {
    auto loss = losses[static_cast<int64_t>(i)].item<double>(), norm = norms[static_cast<int64_t>(i)].item<double>();
    EXPECT_NEAR(log[i]["loss"].get<double>(), loss, 1e-5 * loss) << name << " step " << i;
    EXPECT_NEAR(log[i]["grad_norm"].get<double>(), norm, 1e-4 * norm) << name << " step " << i;
  }
}

const std::string kLora = "--lora_checkpoint '" + (kGolden / "lora.safetensors").string() + "' ";
const std::string kDora = "--lora_checkpoint '" + (kGolden / "dora.safetensors").string() + "' ";

}  // namespace

TEST(SampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(SampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
TEST(SampleParity, TrueGuidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(SampleParity, WithLora) { expect_latents("latents.lora", "--lora '" + (kGolden / "lora.safetensors").string() + "'"); }

TEST(ReplayParity, Lora) { expect_steps("lora", kLora + "--loss_weighting uniform"); }
TEST(ReplayParity, LoraCheckpointed) { expect_steps("lora", kLora + "--loss_weighting uniform --use_gradient_checkpointing"); }
TEST(ReplayParity, LoraWithDiffSynthWeights) { expect_steps("lora_diffsynth", kLora); }
TEST(ReplayParity, Dora) { expect_steps("dora", kDora + "--loss_weighting uniform"); }
TEST(ReplayParity, DoraCheckpointed) { expect_steps("dora", kDora + "--loss_weighting uniform --use_gradient_checkpointing"); }
TEST(ReplayParity, Full) { expect_steps("full", "--trainable_models dit --loss_weighting uniform"); }
