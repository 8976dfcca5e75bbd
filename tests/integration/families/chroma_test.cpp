// Chroma in the whole program: beside diffusers and peft (tests/golden/make_chroma.py), and what of it other families have not.
#include "tests/integration/families/chroma.h"

#include <gmock/gmock.h>

#include "models/families/chroma/keys.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"

namespace burnish::chroma_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kChroma, name, chroma_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat' " + options);
}
void expect_trained(const std::string& name, const std::string& options) {
  expect_steps(kChroma, name, chroma_model() + golden_data() + "--loss_weighting uniform " + options);
}

const std::string kAdapterFile = quoted(kChroma / "lora.safetensors") + " ";

class ChromaRun : public ModelRun {
 protected:
  ChromaRun() : ModelRun(chroma_model()) {}
};

}  // namespace

TEST(ChromaSampleParity, FourSteps) { expect_drawn("latents.plain", ""); }
TEST(ChromaSampleParity, InABatch) { expect_drawn("latents.plain", "--batch_size 2"); }
TEST(ChromaSampleParity, Guided) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5 --batch_size 2"); }
TEST(ChromaSampleParity, WithLora) { expect_drawn("latents.lora", "--lora " + kAdapterFile); }
TEST(ChromaReplayParity, Lora) { expect_trained("lora", "--lora_checkpoint " + kAdapterFile); }
TEST(ChromaReplayParity, LoraCheckpointed) { expect_trained("lora", "--use_gradient_checkpointing --lora_checkpoint " + kAdapterFile); }
TEST(ChromaReplayParity, Full) { expect_trained("full", "--trainable_models dit"); }

TEST_F(ChromaRun, BatchesEqualTheirSamplesOneByOne) {
  const std::string rows = "image,prompt\n0.png,cat\n1.png,tree of the north and a cat\n2.png,\n3.png,cat face\n";
  auto data = "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(write("data.csv", rows)) +
              " --lora_rank 4 ";
  train("together", data + "--batch_size 4");
  train("apart", data + "--gradient_accumulation_steps 4");
  auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
}

TEST_F(ChromaRun, TheModulationLeavesMemoryUnlessItTrains) {
  const auto cached = " --cache_path " + quoted(at("cache")) + " ";
  train("live", "--lora_rank 4 --precompute_timesteps off" + cached);
  EXPECT_THAT(train("ahead", "--lora_rank 4 --precompute_timesteps on" + cached), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
  const std::string modulation = "--lora_rank 4 --lora_target_modules distilled_guidance_layer.out_proj,to_q ";
  auto refused = run_burnish(train_command("refused", modulation + cached + "--precompute_timesteps on"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("finds nothing to compute ahead"));
}

TEST_F(ChromaRun, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(chroma_model(), "--lora " + kAdapterFile);
  EXPECT_GT(relative_error(latents(chroma_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_single_blocks_1_linear1.lora_down.weight"),
                                    {"comfyui", "diffusion_model.double_blocks.1.img_attn.proj.lora_A.weight"},
                                    {"onetrainer", "lora_transformer_transformer_blocks_0_attn_to_q.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapterFile + quoted(file) + " --lora_format " + format + " --model " + quoted(kChroma / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(chroma_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

TEST_F(ChromaRun, ASingleFileInOriginalNamesIsTheSameModel) {
  io::NamedTensors all, ours;
  auto transformer = io::TensorSource::open_folder(kChroma / "model/transformer", {"diffusion_pytorch_model"});
  for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
  for (auto& [name, tensor] : models::chroma::original_keys().to_file(ours)) all.emplace_back("model.diffusion_model." + name, tensor);
  io::save_safetensors(at("single.safetensors"), all);
  // The folder has the other parts and the scheduler; of two transformers the first named is taken.
  auto single = "--model " + quoted(at("single.safetensors")) + " --model " + quoted(kChroma / "model") + " --dtype fp32 ";
  EXPECT_LE(relative_error(latents(single, ""), latents(chroma_model(), "")), tolerance(1e-5));
  EXPECT_THAT(run_ok("inspect " + quoted(at("single.safetensors"))),
              HasSubstr("Chroma transformer (2 double and 2 single blocks, width 32, original names)"));
}

TEST_F(ChromaRun, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kChroma / "model"), single = quoted(at("single.safetensors"));
  run_ok("convert " + model + " " + single);
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents("--model " + quoted(at("back")) + " --dtype fp32 ", ""), latents(chroma_model(), "")));
}

}  // namespace burnish::chroma_test
