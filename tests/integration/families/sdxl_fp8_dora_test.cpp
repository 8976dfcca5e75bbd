// The combination that fails elsewhere with "Promotion for Float8 Types is not supported": SDXL, FP8 base weights and DoRA.
#include "tests/integration/families/stable_diffusion.h"

namespace burnish::sdxl_fp8_dora_test {
using namespace burnish::test;

namespace {

std::string run(const std::string& pipeline, const std::string& options, const fs::path& out) {
  return "train " + sd_model(pipeline, "fp32") + sd_data(pipeline) +
         "--fp8_models unet --lora_type dora --lora_rank 4 --max_steps 48 --save_dtype fp32 " +
         "--learning_rate 1e-2 --validation_metadata_path '" + (kGolden / "pictures/metadata.csv").string() + "' --output_path '" +
         out.string() + "' " + options;
}

double after(const fs::path& run) { return nlohmann::json::parse(read_file(run / "validation.json"))["after"].get<double>(); }
double before(const fs::path& run) { return nlohmann::json::parse(read_file(run / "validation.json"))["before"].get<double>(); }

}  // namespace

class Fp8Dora : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Fp8Dora,
                         testing::Values("--dtype bf16", "--dtype bf16 --use_gradient_checkpointing", "--dtype fp16",
                                         "--dtype fp16 --use_gradient_checkpointing", "--dtype fp16 --fp8_compute",
                                         "--dtype bf16 --dora_norm input --batch_size 2"));

TEST_P(Fp8Dora, OfSdxlTrainsAndItsFileIsReadAgain) {
  Scratch folder;
  auto outcome = run_burnish(run("sdxl_pipeline", GetParam(), folder / "run"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("FP8 (E4M3) with a scale per output row"), std::string::npos) << outcome.output;
  EXPECT_LT(after(folder / "run"), 0.97 * before(folder / "run")) << outcome.output;
  auto file = io::SafetensorsFile::open(folder / "run/step-48.safetensors");
  // DoRA over inputs is written in the names of OneTrainer, which reads it right.
  bool by_input = GetParam().find("--dora_norm input") != std::string::npos;
  std::string layer = by_input ? "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k.lora_down.weight"
                               : "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.lora_A.weight";
  EXPECT_TRUE(file->tensors().contains(layer)) << layer;
  auto again = run_burnish(run("sdxl_pipeline",
                               GetParam() + " --max_steps 1 --lora_checkpoint '" + (folder / "run/step-48.safetensors").string() + "'",
                               folder / "again"));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_NEAR(before(folder / "again"), after(folder / "run"), 1e-6) << "the file holds what was trained";
}

TEST(Fp8Dora, OfSd15TrainsInFp16) {
  Scratch folder;
  auto outcome = run_burnish(run("sd15_pipeline", "--dtype fp16 --use_gradient_checkpointing", folder / "run"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_LT(after(folder / "run"), before(folder / "run"));
}

TEST(Fp16, AResumedRunIsTheSameRun) {
  Scratch folder;
  auto steps = [&](const std::string& name, const std::string& more) {
    auto outcome = run_burnish("train " + sd_model("sdxl_pipeline", "fp16") + sd_data("sdxl_pipeline") +
                               "--lora_rank 4 --save_dtype fp32 --output_path '" + (folder / name).string() + "' " + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  };
  steps("whole", "--max_steps 4");
  steps("parts", "--max_steps 2");
  auto metadata = io::SafetensorsFile::open(folder / "parts/state/state.safetensors")->metadata();
  EXPECT_EQ(metadata.at("loss_scale"), "65536");
  EXPECT_EQ(metadata.at("loss_scale_steps"), "2");
  steps("parts", "--max_steps 4 --resume");
  EXPECT_EQ(read_file(folder / "whole/step-4.safetensors"), read_file(folder / "parts/step-4.safetensors"));
}

TEST(Fp16, IsRefusedWhereItIsTooCoarse) {
  Scratch folder;
  auto whole = run_burnish("train " + sd_model("sdxl_pipeline", "fp16") + sd_data("sdxl_pipeline") +
                           "--trainable_models unet --output_path '" + (folder / "run").string() + "'");
  EXPECT_EQ(whole.exit_code, 2) << whole.output;
  EXPECT_NE(whole.output.find("too coarse for weights that train"), std::string::npos) << whole.output;
}

}  // namespace burnish::sdxl_fp8_dora_test
