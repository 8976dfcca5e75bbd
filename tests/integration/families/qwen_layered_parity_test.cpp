// Qwen-Image-Layered in the whole program beside diffusers and peft: sampled latents and replayed training steps
// (tests/golden/make_qwen_layered.py).
#include "tests/integration/families/qwen_layered.h"
#include "tests/integration/parity.h"

namespace burnish::qwen_layered_parity_test {
using namespace burnish::test;

namespace {

void expect_latents(const std::string& name, const std::string& options) {
  test::expect_latents(
      kQwenLayered, name,
      qwen_layered_model() + picture_to_part() +
          "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " + options,
      1e-5);
}

void expect_steps(const std::string& name, const std::string& options) {
  test::expect_steps(kQwenLayered, name, qwen_layered_model() + layered_data() + "--loss_weighting uniform " + options, 2e-6);
}

const std::string kLoraFile = "'" + (kQwenLayered / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(QwenLayeredSampleParity, FourSteps) { expect_latents("latents.plain", ""); }
TEST(QwenLayeredSampleParity, OneAtATime) { expect_latents("latents.plain", "--batch_size 1"); }
TEST(QwenLayeredSampleParity, Guidance) { expect_latents("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(QwenLayeredSampleParity, GuidanceBroughtBack) {
  expect_latents("latents.normalized", "--negative_prompt cat --cfg_scale 2.5 --guidance_rescale 1");
}
TEST(QwenLayeredSampleParity, GuidanceFromTheEmptyPrompt) { expect_latents("latents.cfg_empty", "--cfg_scale 2.5"); }
TEST(QwenLayeredSampleParity, WithLora) { expect_latents("latents.lora", "--lora " + kLoraFile); }

TEST(QwenLayeredReplayParity, Lora) { expect_steps("lora", kLora); }
TEST(QwenLayeredReplayParity, LoraCheckpointed) { expect_steps("lora", kLora + "--use_gradient_checkpointing"); }
/// The noise of the layers alone, as musubi-tuner trains them.
TEST(QwenLayeredReplayParity, LoraWithoutTheWholePicture) {
  Scratch folder;
  auto source = io::TensorSource::open({(kQwenLayered / "replay.safetensors").string()});
  io::NamedTensors behind;
  for (const auto& name : source.names()) {
    auto tensor = source.tensor(name);
    behind.emplace_back(name, name.ends_with("noise") ? tensor.narrow(1, 1, tensor.size(1) - 1).contiguous() : tensor);
  }
  io::save_safetensors(folder / "replay.safetensors", behind);
  auto log = replayed(folder.path(), qwen_layered_model() + layered_data() + "--loss_weighting uniform --without_whole " + kLora);
  expect_logged(log, "loss", expected_in(kQwenLayered).tensor("without_whole.loss"), 2e-6);
}

TEST(QwenLayeredReplayParity, Full) { expect_steps("full", "--trainable_models dit"); }

}  // namespace burnish::qwen_layered_parity_test
