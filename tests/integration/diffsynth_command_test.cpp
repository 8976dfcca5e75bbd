// Command lines as DiffSynth-Studio's examples of FLUX.1 and Z-Image spell them, with `burnish train` in front.
#include "tests/integration/refused.h"
#include "tests/integration/zimage.h"

using namespace burnish;
using namespace burnish::test;

TEST_F(BadInput, DiffSynthStudiosExampleCommandRuns) {
  auto model = at("models/black-forest-labs/FLUX.1-dev");
  fs::create_directories(model.parent_path());
  fs::copy(kGolden / "model", model, fs::copy_options::recursive);
  fs::remove(model / "model_index.json");
  fs::copy(kAssets / "tokenizer", model / "tokenizer", fs::copy_options::recursive);
  fs::copy(kAssets / "tokenizer_2", model / "tokenizer_2", fs::copy_options::recursive);
  auto outcome = run_burnish(
      "train --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
          quoted(kGolden / "pictures/metadata.csv") +
          " --data_file_keys \"image\" --max_pixels 1048576 --dataset_repeat 1 "
          "--model_id_with_origin_paths \"black-forest-labs/FLUX.1-dev:transformer/diffusion_pytorch_model.safetensors,"
          "black-forest-labs/FLUX.1-dev:text_encoder/model.safetensors,black-forest-labs/FLUX.1-dev:text_encoder_2/*.safetensors,"
          "black-forest-labs/FLUX.1-dev:vae/diffusion_pytorch_model.safetensors\" "
          "--learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --output_path " +
          quoted(out()) +
          " --lora_base_model \"dit\" --lora_target_modules \"a_to_qkv,b_to_qkv,ff_a.0,ff_a.2,ff_b.0,ff_b.2,a_to_out,b_to_out,proj_out,"
          "norm.linear,norm1_a.linear,norm1_b.linear,to_qkv_mlp\" --lora_rank 32 --align_to_opensource_format "
          "--use_gradient_checkpointing",
      "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* words :
       {"without effect here: remove_prefix_in_ckpt, align_to_opensource_format", "lora of rank 32, scale 1 on 26 layers"})
    EXPECT_NE(outcome.output.find(words), std::string::npos) << words << " is not in: " << outcome.output;
  EXPECT_TRUE(fs::exists(out() / "step-4.safetensors"));
}

TEST_F(BadInput, DiffSynthStudiosExampleCommandOfZImageRuns) {
  auto model = at("models/Tongyi-MAI/Z-Image-Turbo");
  fs::create_directories(model.parent_path());
  fs::copy(kZImage / "model", model, fs::copy_options::recursive);
  fs::remove(model / "model_index.json");
  auto outcome = run_burnish(
      "train --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
          quoted(kGolden / "pictures/metadata.csv") +
          " --max_pixels 1048576 --dataset_repeat 1 "
          "--model_id_with_origin_paths \"Tongyi-MAI/Z-Image-Turbo:transformer/*.safetensors,"
          "Tongyi-MAI/Z-Image-Turbo:text_encoder/*.safetensors,Tongyi-MAI/Z-Image-Turbo:vae/diffusion_pytorch_model.safetensors\" "
          "--learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --output_path " +
          quoted(out()) +
          " --lora_base_model \"dit\" --lora_target_modules \"to_q,to_k,to_v,to_out.0,w1,w2,w3\" --lora_rank 32 "
          "--use_gradient_checkpointing --dataset_num_workers 8 --preset_lora_path " +
          quoted(kZImage / "lora.safetensors") + " --preset_lora_model \"dit\"",
      "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("lora of rank 32, scale 1 on 35 layers"), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(out() / "step-4.safetensors"));
}
