// Command lines as DiffSynth-Studio's examples of FLUX.1, FLUX.2, Z-Image and Qwen-Image spell them, with `burnish train` in front.
#include "tests/integration/families/boogu.h"
#include "tests/integration/families/ernie_image.h"
#include "tests/integration/families/flux2.h"
#include "tests/integration/families/flux2_dev.h"
#include "tests/integration/families/ideogram4.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/families/qwen_layered.h"
#include "tests/integration/families/zimage.h"
#include "tests/integration/refused.h"

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

TEST_F(BadInput, DiffSynthStudiosExampleCommandOfErnieImageRuns) {
  auto model = at("models/PaddlePaddle/ERNIE-Image");
  fs::create_directories(model.parent_path());
  fs::copy(kErnieImage / "model", model, fs::copy_options::recursive);
  fs::remove(model / "model_index.json");
  auto outcome = run_burnish(
      "train --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
          quoted(kGolden / "pictures/metadata.csv") +
          " --max_pixels 1048576 --dataset_repeat 1 "
          "--model_id_with_origin_paths \"PaddlePaddle/ERNIE-Image:transformer/diffusion_pytorch_model*.safetensors,"
          "PaddlePaddle/ERNIE-Image:text_encoder/model.safetensors,PaddlePaddle/ERNIE-Image:vae/diffusion_pytorch_model.safetensors\" "
          "--learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --output_path " +
          quoted(out()) +
          " --lora_base_model \"dit\" --lora_target_modules \"to_q,to_k,to_v,to_out.0\" --lora_rank 32 "
          "--use_gradient_checkpointing --dataset_num_workers 8 --find_unused_parameters",
      "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("lora of rank 32, scale 1 on 12 layers"), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(out() / "step-4.safetensors"));
}

TEST_F(BadInput, DiffSynthStudiosExampleCommandOfIdeogram4Runs) {
  auto model = at("models/DiffSynth-Studio/ideogram-4-bf16-repackage");
  fs::create_directories(model.parent_path());
  fs::copy(kIdeogram4 / "model", model, fs::copy_options::recursive);
  fs::remove(model / "model_index.json");
  const std::string id = "DiffSynth-Studio/ideogram-4-bf16-repackage:", stem = "/diffusion_pytorch_model.safetensors";
  auto outcome = run_burnish(
      "train --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
          quoted(kGolden / "pictures/metadata.csv") + " --max_pixels 1048576 --dataset_repeat 1 --model_id_with_origin_paths \"" + id +
          "transformer" + stem + "," + id + "text_encoder/model.safetensors," + id + "vae" + stem +
          "\" --learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --output_path " + quoted(out()) +
          " --lora_base_model \"dit\" --lora_target_modules \"attention.qkv,attention.o,feed_forward.w1,feed_forward.w2,feed_forward.w3,"
          "adaln_modulation\" --lora_rank 32 --use_gradient_checkpointing --dataset_num_workers 8 --find_unused_parameters",
      "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("lora of rank 32, scale 1 on 25 layers"), std::string::npos) << outcome.output;
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

namespace {

class QwenImageCommand : public BadInput {
 protected:
  QwenImageCommand() {
    auto model = at("models/Qwen/Qwen-Image");
    fs::create_directories(model.parent_path());
    fs::copy(kQwenImage / "model", model, fs::copy_options::recursive);
    fs::remove(model / "model_index.json");
  }
  /// The example's command with `more` behind what all of them have.
  std::string run(const std::string& name, const std::string& data, const std::string& more) const {
    auto outcome = run_burnish(
        "train " + data +
            " --max_pixels 1048576 --dataset_repeat 1 --model_id_with_origin_paths "
            "\"Qwen/Qwen-Image:transformer/diffusion_pytorch_model*.safetensors,Qwen/Qwen-Image:text_encoder/model*.safetensors,"
            "Qwen/Qwen-Image:vae/diffusion_pytorch_model.safetensors\" --learning_rate 1e-4 --num_epochs 1 "
            "--remove_prefix_in_ckpt \"pipe.dit.\" --output_path " +
            quoted(at(name)) + " " + more + " --use_gradient_checkpointing --dataset_num_workers 8 --find_unused_parameters",
        "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  }
  static std::string pictures() {
    return "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") +
           " --data_file_keys \"image\"";
  }
};

const std::string kQwenLora =
    "--lora_base_model \"dit\" --lora_target_modules "
    "\"to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,img_mlp.net.2,img_mod.1,txt_mlp.net.2,txt_mod.1\" --lora_rank "
    "32";

}  // namespace

TEST_F(QwenImageCommand, Lora) {
  EXPECT_NE(run("out", pictures(), kQwenLora).find("lora of rank 32, scale 1 on 36 layers"), std::string::npos);
  EXPECT_TRUE(fs::exists(at("out") / "step-4.safetensors"));
}

TEST_F(QwenImageCommand, LoraOverFp8) {
  run("out", pictures(), kQwenLora + " --fp8_models \"Qwen/Qwen-Image:transformer/diffusion_pytorch_model*.safetensors\"");
  EXPECT_TRUE(fs::exists(at("out") / "step-4.safetensors"));
}

TEST_F(QwenImageCommand, SplitIsTheSameAsOneRun) {
  run("out", pictures(), kQwenLora);
  run("cache", pictures(), kQwenLora + " --task sft:data_process");
  auto said = run("split", "--dataset_base_path " + quoted(at("cache")) + " --data_file_keys \"image\"", kQwenLora + " --task sft:train");
  EXPECT_NE(said.find("data_file_keys has no effect here: it belongs to the command that makes the cache"), std::string::npos) << said;
  EXPECT_EQ(read_file(at("out") / "step-4.safetensors"), read_file(at("split") / "step-4.safetensors"));
}

TEST_F(QwenImageCommand, Full) {
  run("out", pictures(), "--trainable_models \"dit\"");
  EXPECT_TRUE(fs::exists(at("out") / "step-4.safetensors"));
}

TEST_F(QwenImageCommand, DirectDistillation) {
  auto data = "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
              quoted(write("distill.csv", "image,prompt,seed,num_inference_steps,cfg_scale\n0.png,red apple,0,4,1\n1.png,cat,1,4,1\n")) +
              " --data_file_keys \"image\"";
  run("out", data, kQwenLora + " --task direct_distill --extra_inputs \"seed,num_inference_steps,cfg_scale\"");
  EXPECT_TRUE(fs::exists(at("out") / "step-2.safetensors"));
}

/// Layers in a list, and what the example names of each row beside them.
TEST_F(QwenImageCommand, OfLayersTrains) {
  auto layered = at("models/Qwen/Qwen-Image-Layered");
  fs::copy(kQwenLayered / "model", layered, fs::copy_options::recursive);
  fs::remove(layered / "model_index.json");
  nlohmann::json rows;
  for (int i = 0; i < 4; ++i) {
    const auto stem = std::to_string(i);
    rows.push_back({{"prompt", "a poster"},
                    {"image", {stem + ".png", stem + "_1.png", stem + "_2.png"}},
                    {"layer_input_image", stem + ".png"},
                    {"layer_num", 2}});
  }
  auto outcome = run_burnish(
      "train --dataset_base_path " + quoted(kQwenLayered / "layers") + " --dataset_metadata_path " +
          quoted(write("metadata.json", rows.dump())) +
          " --data_file_keys \"image,layer_input_image\" --max_pixels 1048576 --dataset_repeat 1 --model_id_with_origin_paths "
          "\"Qwen/Qwen-Image-Layered:transformer/diffusion_pytorch_model*.safetensors,Qwen/Qwen-Image:text_encoder/model*.safetensors,"
          "Qwen/Qwen-Image-Layered:vae/diffusion_pytorch_model.safetensors\" --learning_rate 1e-4 --num_epochs 1 "
          "--remove_prefix_in_ckpt \"pipe.dit.\" --output_path " +
          quoted(at("out")) + " " + kQwenLora +
          " --extra_inputs \"layer_num,layer_input_image\" --use_gradient_checkpointing --dataset_num_workers 8 --find_unused_parameters",
      "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("lora of rank 32, scale 1 on 24 layers"), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(at("out") / "step-4.safetensors"));
}

namespace {

/// The models of the examples: text encoder, autoencoder and tokenizer are those of the distilled model, also beside a base's transformer.
class KleinCommand : public BadInput {
 protected:
  KleinCommand() {
    for (const std::string size : {"4B", "9B"}) {
      copy("FLUX.2-klein-" + size, {"transformer", "text_encoder", "vae", "tokenizer", "scheduler"});
      copy("FLUX.2-klein-base-" + size, {"transformer"});
    }
  }
  std::string run(const std::string& command) const {
    auto outcome = run_burnish("train " + command, "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  }
  std::string out_path(const std::string& name) const { return " --output_path " + quoted(at(name)); }
  std::string pictures() const {
    return "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv");
  }
  /// One sample with an edited picture, of two pictures that it is made of.
  std::string edits() const {
    auto picture = golden_path("references/a.png");
    nlohmann::json row{{"image", (kGolden / "pictures/0.png").string()}, {"prompt", "red apple"}, {"edit_image", {picture, picture}}};
    return "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
           quoted(write("metadata.json", nlohmann::json::array({row}).dump())) +
           " --data_file_keys \"image,edit_image\" --extra_inputs \"edit_image\"";
  }
  /// What the examples have behind the data: the models, of which the transformer is a base's or not.
  static std::string models(const std::string& size, const std::string& transformer) {
    const std::string id = "black-forest-labs/FLUX.2-klein-";
    return " --max_pixels 1048576 --dataset_repeat 1 --model_id_with_origin_paths \"" + id + size + ":text_encoder/*.safetensors," + id +
           transformer + size + ":transformer/*.safetensors," + id + size +
           ":vae/diffusion_pytorch_model.safetensors\" --tokenizer_path \"" + id + size + ":tokenizer/\"";
  }
  /// Their targets name to_out of every single block, of which the small model has three.
  static std::string lora() {
    std::string targets = "to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out,linear_in,linear_out,to_qkv_mlp_proj";
    for (int i = 0; i < 3; ++i) targets += ",single_transformer_blocks." + std::to_string(i) + ".attn.to_out";
    return " --learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --lora_base_model \"dit\" --lora_target_modules \"" +
           targets + "\" --lora_rank 32 --use_gradient_checkpointing";
  }

 private:
  void copy(const std::string& name, const std::vector<std::string>& parts) const {
    for (const auto& part : parts) {
      auto to = at("models/black-forest-labs/" + name) / part;
      fs::create_directories(to.parent_path());
      fs::copy(kFlux2 / "model" / part, to, fs::copy_options::recursive);
    }
  }
};

const std::string kKleinFull =
    " --learning_rate 1e-5 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --trainable_models \"dit\" --use_gradient_checkpointing";

}  // namespace

TEST_F(KleinCommand, Lora) {
  for (const auto& [size, base] : {std::pair("4B", ""), {"4B", "base-"}, {"9B", ""}, {"9B", "base-"}}) {
    auto name = std::string(base) + size;
    auto said = run(pictures() + models(size, base) + lora() + out_path(name));
    EXPECT_NE(said.find("lora of rank 32, scale 1 on 30 layers"), std::string::npos) << said;
    EXPECT_TRUE(fs::exists(at(name) / "step-4.safetensors"));
  }
}

TEST_F(KleinCommand, LoraThatEdits) {
  run(edits() + models("4B", "base-") + lora() + out_path("out"));
  EXPECT_TRUE(fs::exists(at("out") / "step-1.safetensors"));
}

TEST_F(KleinCommand, Full) {
  for (const auto& [size, base] : {std::pair("4B", ""), {"4B", "base-"}, {"9B", ""}, {"9B", "base-"}}) {
    auto name = std::string(base) + size;
    run(pictures() + models(size, base) + kKleinFull + out_path(name));
    EXPECT_TRUE(fs::exists(at(name) / "step-4.safetensors"));
  }
  run(edits() + models("9B", "") + kKleinFull + out_path("edits"));
  EXPECT_TRUE(fs::exists(at("edits") / "step-1.safetensors"));
}

TEST_F(KleinCommand, SplitIsTheSameAsOneRun) {
  const std::string id = "black-forest-labs/FLUX.2-klein-", tokenizer = " --tokenizer_path \"" + id + "4B:tokenizer/\"";
  run(pictures() + models("4B", "base-") + lora() + out_path("out"));
  run(pictures() + " --max_pixels 1048576 --dataset_repeat 1 --model_id_with_origin_paths \"" + id + "4B:text_encoder/*.safetensors," + id +
      "4B:vae/diffusion_pytorch_model.safetensors\"" + tokenizer + lora() + out_path("cache") + " --task \"sft:data_process\"");
  run("--dataset_base_path " + quoted(at("cache")) + " --max_pixels 1048576 --dataset_repeat 1 --model_id_with_origin_paths \"" + id +
      "base-4B:transformer/*.safetensors\"" + tokenizer + lora() + out_path("split") + " --task \"sft:train\"");
  EXPECT_EQ(read_file(at("out") / "step-4.safetensors"), read_file(at("split") / "step-4.safetensors"));
}

/// DiffSynth-Studio's examples of Boogu-Image, whose tokenizer lies beside the text encoder's weights: Base, and Edit in two stages.
TEST_F(BadInput, BooguImageOfDiffSynthStudio) {
  const auto to = at("models/Boogu/Boogu-Image-0.1-Edit");
  fs::create_directories(to);
  for (const char* part : {"transformer", "mllm", "vae"}) fs::copy(kBoogu / "model" / part, to / part, fs::copy_options::recursive);
  for (const auto& file : fs::directory_iterator(kBoogu / "model/processor")) fs::copy(file.path(), to / "mllm" / file.path().filename());
  auto run = [&](const std::string& command) {
    auto outcome = run_burnish("train " + command, "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  };
  const std::string id = "Boogu/Boogu-Image-0.1-Edit:", encoders = id + "mllm/*.safetensors," + id + "vae/*.safetensors";
  auto with = [&](const std::string& models) {
    return " --max_pixels 4096 --dataset_repeat 1 --model_id_with_origin_paths \"" + models +
           "\" --learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --lora_base_model \"dit\" --lora_target_modules "
           "\"to_q,to_k,to_v,to_out.0,img_to_q,img_to_k,img_to_v,img_out,instruct_to_q,instruct_to_k,instruct_to_v,instruct_out\" "
           "--lora_rank 32 --use_gradient_checkpointing --dataset_num_workers 8 --find_unused_parameters ";
  };
  const auto all = with(id + "transformer/*.safetensors," + encoders);
  EXPECT_NE(run("--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
                quoted(kGolden / "pictures/metadata.csv") + all + "--data_file_keys \"image\" --output_path " + quoted(at("base")))
                .find("lora of rank 32, scale 1 on 46 layers"),
            std::string::npos);
  const auto edits = "--dataset_metadata_path " + quoted(kBooguEdit / "metadata.json");
  const std::string keys = "--data_file_keys \"image,edit_image\" --extra_inputs \"edit_image\" --processor_path " +
                           quoted(kBoogu / "model/processor") + " --output_path ";
  run(edits + all + keys + quoted(at("out")));
  run(edits + with(encoders) + "--task \"sft:data_process\" " + keys + quoted(at("cache")));
  run("--dataset_base_path " + quoted(at("cache")) + with(id + "transformer/*.safetensors") + "--task \"sft:train\" " + keys +
      quoted(at("split")));
  EXPECT_EQ(read_file(at("out") / "step-4.safetensors"), read_file(at("split") / "step-4.safetensors"));
}

/// DiffSynth-Studio's example of FLUX.2 dev, in two stages.
TEST_F(BadInput, FluxTwoDevOfDiffSynthStudioInTwoStages) {
  const auto to = at("models/black-forest-labs/FLUX.2-dev");
  fs::create_directories(to.parent_path());
  fs::copy(kFlux2Dev / "model", to, fs::copy_options::recursive);
  auto run = [&](const std::string& command) {
    auto outcome = run_burnish("train " + command, "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  };
  const std::string id = "black-forest-labs/FLUX.2-dev:", tokenizer = " --tokenizer_path \"" + id + "tokenizer/\"";
  const auto pictures =
      "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv");
  const std::string how =
      " --max_pixels 1048576 --dataset_repeat 1 --learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" "
      "--lora_base_model "
      "\"dit\" --lora_target_modules \"to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out,linear_in,linear_out,"
      "to_qkv_mlp_proj,single_transformer_blocks.0.attn.to_out,single_transformer_blocks.1.attn.to_out\" --lora_rank 32 "
      "--use_gradient_checkpointing";
  run(pictures + how + " --model_id_with_origin_paths \"" + id + "text_encoder/*.safetensors," + id + "transformer/*.safetensors," + id +
      "vae/diffusion_pytorch_model.safetensors\"" + tokenizer + " --output_path " + quoted(at("out")));
  run(pictures + how + " --model_id_with_origin_paths \"" + id + "text_encoder/*.safetensors," + id +
      "vae/diffusion_pytorch_model.safetensors\"" + tokenizer + " --task \"sft:data_process\" --output_path " + quoted(at("cache")));
  run("--dataset_base_path " + quoted(at("cache")) + how + " --model_id_with_origin_paths \"" + id + "transformer/*.safetensors\"" +
      tokenizer + " --task \"sft:train\" --output_path " + quoted(at("split")));
  EXPECT_EQ(read_file(at("out") / "step-4.safetensors"), read_file(at("split") / "step-4.safetensors"));
}
