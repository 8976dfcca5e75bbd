// Z-Image in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_zimage.py).
#include "tests/integration/zimage.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const std::string kFiles = kZImage.string();

io::TensorSource expected_of_zimage() { return io::TensorSource::open({kFiles + "/expected.safetensors"}); }

void expect_latents(const std::string& name, const std::string& options) {
  TempFolder folder;
  auto source = expected_of_zimage();
  io::save_safetensors(folder / "noise.safetensors", {{"noise", source.tensor("noise")}});
  auto out = run_burnish("sample " + zimage_model() +
                         "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' "
                         "--height 48 --width 64 --num_inference_steps 4 --noise " +
                         (folder / "noise.safetensors").string() + " --save_latents " + (folder / "latents.safetensors").string() +
                         " --output_path " + (folder / "out").string() + " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto latents = io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
  EXPECT_LE(relative_error(latents, source.tensor(name)), 1e-4) << name;
  EXPECT_TRUE(fs::exists(folder / "out/0001.png"));
}

void expect_steps(const std::string& name, const std::string& options) {
  TempFolder folder;
  auto out =
      run_burnish("train " + zimage_model() + golden_data() + "--max_steps 10 --learning_rate 1e-3 --loss_weighting uniform --replay '" +
                  kFiles + "/replay.safetensors' --output_path " + (folder / "run").string() + " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto log = read_log(folder / "run");
  auto source = expected_of_zimage();
  auto losses = source.tensor(name + ".loss"), norms = source.tensor(name + ".grad_norm");
  ASSERT_EQ(log.size(), 10u);
  for (size_t i = 0; i < log.size(); ++i) {
    auto loss = losses[static_cast<int64_t>(i)].item<double>(), norm = norms[static_cast<int64_t>(i)].item<double>();
    EXPECT_NEAR(log[i]["loss"].get<double>(), loss, 1e-5 * loss) << name << " step " << i;
    EXPECT_NEAR(log[i]["grad_norm"].get<double>(), norm, 1e-4 * norm) << name << " step " << i;
  }
}

const std::string kLora = "--lora_checkpoint '" + kFiles + "/lora.safetensors' ";

}  // namespace

TEST(ZImageSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(ZImageSampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
// The pipeline adds guidance_scale times the difference to the prediction, here it is cfg_scale - 1 times.
TEST(ZImageSampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(ZImageSampleParity, GuidanceFromTheEmptyPrompt) { expect_latents("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(ZImageSampleParity, WithLora) { expect_latents("latents.lora", "--lora '" + kFiles + "/lora.safetensors'"); }

TEST(ZImageReplayParity, Lora) { expect_steps("lora", kLora); }
TEST(ZImageReplayParity, LoraCheckpointed) { expect_steps("lora", kLora + "--use_gradient_checkpointing"); }
TEST(ZImageReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }
