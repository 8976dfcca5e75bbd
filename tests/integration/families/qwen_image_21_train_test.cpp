// Qwen-Image-2.1: captions of unequal length, its autoencoder and processor in a folder, names of other programs, single files.
#include <gmock/gmock.h>

#include <cmath>

#include "models/families/qwen_image_21/keys.h"
#include "tests/integration/families/qwen_image_21.h"
#include "tests/integration/model_run.h"

namespace burnish::qwen_image_21_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLong = "tree of the north and a cat face and a red apple on the tree and a cat on it and a tree behind it and a red cat";
const fs::path kAdapterFile = kQwenImage21 / "lora.safetensors";
const std::string kAdapter = quoted(kAdapterFile) + " ";

class QwenImage21Run : public ModelRun {
 protected:
  QwenImage21Run() : ModelRun(qwen_image_21_model(), kQwenImage21Size) {}
};

}  // namespace

TEST_F(QwenImage21Run, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 4; ++i) rows += (kGolden / "pictures" / (std::to_string(i) + ".png")).string() + "," + (i % 2 ? kLong : "cat") + "\n";
  auto data = "--dataset_metadata_path " + quoted(write("data.csv", rows)) + " ";
  train("together", data + "--lora_rank 4 --batch_size 4");
  train("apart", data + "--lora_rank 4 --gradient_accumulation_steps 4");
  auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
}

TEST_F(QwenImage21Run, PairsOfABatchHaveTextsOfUnequalLengthBesideTheModelBeforeTraining) {
  const auto data = write("pairs.csv", "image,rejected_image,prompt\n0.png,1.png,cat\n2.png,3.png," + kLong + "\n");
  auto pairs = "--task dpo --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(data) + " ";
  train("together", pairs + "--lora_rank 4 --batch_size 2");
  EXPECT_NEAR(of_log("together", "loss").front(), std::log(2.0), 1e-6) << "nothing is trained yet";
}

TEST_F(QwenImage21Run, TheModulationLeavesMemoryWhereItDoesNotTrain) {
  const auto blocks = "--lora_rank 4 --cache_path " + quoted(at("cache")) + " ";
  train("live", blocks + "--precompute_timesteps off");
  EXPECT_THAT(train("ahead", blocks + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
}

TEST_F(QwenImage21Run, BlocksBeforeTheFirstThatTrainsAreComputedAhead) {
  const auto cached = "--lora_rank 4 --overwrite --cache_path " + quoted(at("cache")) + " ";
  const auto pictures =
      "--extra_inputs edit_image --reference_pixels 2048 --dataset_metadata_path " + quoted(kQwenImage21Edit / "metadata.json") + " ";
  for (const std::string& data : {std::string(), pictures}) {
    for (const std::string layers : {"transformer_blocks\\.1\\..*", "proj_out"}) {
      const auto options = cached + data + "--lora_target_modules '" + layers + "' ";
      train("live", options + "--precompute_timesteps off");
      EXPECT_THAT(train("ahead", options + "--precompute_timesteps blocks"), HasSubstr("in memory while training: dit.last_blocks, "));
      expect_same("live", "ahead");
    }
  }
  const auto control = "--model " + quoted(fs::path(golden_path("qwen_image_21_control/control.safetensors"))) +
                       " --extra_inputs controlnet_image --lora_target_modules proj_out --dataset_metadata_path " +
                       quoted(fs::path(golden_path("qwen_image_21_control/metadata.json")));
  for (const std::string& options : {std::string("--lora_target_modules modulation.1,proj_out"), control}) {
    auto refused = run_burnish(train_command("none", cached + "--precompute_timesteps blocks " + options));
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_THAT(refused.output, HasSubstr("precompute_timesteps blocks finds no frozen blocks to compute ahead"));
  }
}

TEST_F(QwenImage21Run, LinearLayersOfTheBlocksTrainUnlessOtherwiseAsked) {
  EXPECT_THAT(train("blocks", "--lora_rank 4 "), HasSubstr("on 21 layers"));
  EXPECT_THAT(train("all", "--lora_rank 4 --lora_target_modules all-linear"), HasSubstr("on 29 layers"));
}

TEST_F(QwenImage21Run, SidesAreMultiplesOf32) {
  auto outcome = run_burnish("sample " + qwen_image_21_model() + "--prompt cat --height 48 --width 64 --output_path " + quoted(at("none")));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("32"));
}

TEST_F(QwenImage21Run, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(qwen_image_21_model(), "--lora " + kAdapter);
  EXPECT_GT(relative_error(latents(qwen_image_21_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_transformer_blocks_1_img_mlp_gate_layer.lora_down.weight"),
                                    {"comfyui", "transformer.transformer_blocks.0.img_mlp.proj.lora_A.weight"},
                                    {"diffsynth", "transformer_blocks.2.attn.to_q.lora_A.default.weight"},
                                    {"onetrainer", "lora_transformer_transformer_blocks_0_attn_to_q.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kQwenImage21 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(qwen_image_21_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
  auto file = at("before.safetensors");
  rename_lora(kAdapterFile, file,
              [](const std::string& layer, bool down) { return "diffusion_model." + layer + (down ? ".lora_A" : ".lora_B") + ".weight"; });
  EXPECT_LE(relative_error(latents(qwen_image_21_model(), "--lora " + quoted(file)), expected), tolerance(1e-5));
}

// ComfyUI has one layer for two of ours: an adapter of its layer is one of both.
TEST_F(QwenImage21Run, AnAdapterOnComfyUisLayerIsOneOfItsTwoLayers) {
  auto source = io::TensorSource::open({kAdapterFile.string()});
  const std::string mlp = "transformer_blocks.1.img_mlp.", down = ".lora_A.weight", up = ".lora_B.weight";
  auto of = [&](const std::string& layer, const std::string& half) { return source.tensor("transformer." + mlp + layer + half); };
  auto gate = of("gate_layer", up), proj = of("proj", up), none = at::zeros_like(gate);
  io::NamedTensors fused{
      {"diffusion_model." + mlp + "gate_up" + down, at::cat({of("gate_layer", down), of("proj", down)})},
      {"diffusion_model." + mlp + "gate_up" + up, at::cat({at::cat({gate, none}, 1), at::cat({at::zeros_like(proj), proj}, 1)})}};
  io::NamedTensors apart;
  for (const std::string layer : {"gate_layer", "proj"}) {
    apart.emplace_back("transformer." + mlp + layer + down, of(layer, down));
    apart.emplace_back("transformer." + mlp + layer + up, of(layer, up));
  }
  io::save_safetensors(at("fused.safetensors"), fused);
  io::save_safetensors(at("apart.safetensors"), apart);
  auto expected = latents(qwen_image_21_model(), "--lora " + quoted(at("apart.safetensors")));
  EXPECT_GT(relative_error(latents(qwen_image_21_model(), ""), expected), 1e-3);
  EXPECT_LE(relative_error(latents(qwen_image_21_model(), "--lora " + quoted(at("fused.safetensors"))), expected), tolerance(1e-5));
}

TEST_F(QwenImage21Run, ASingleFileInComfyUisNamesIsTheSameModel) {
  io::NamedTensors all, ours;
  auto of = [](const char* folder, const char* stem) { return io::TensorSource::open_folder(kQwenImage21 / "model" / folder, {stem}); };
  auto transformer = of("transformer", "diffusion_pytorch_model"), text = of("text_encoder", "model");
  for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
  auto original = models::qwen_image_21::comfyui_keys().to_file(ours);
  io::save_safetensors(at("alone.safetensors"), original);
  for (auto& [name, tensor] : original) all.emplace_back("model.diffusion_model." + name, tensor);
  for (const auto& name : text.names()) all.emplace_back("text_encoders.qwen3vl_8b.transformer." + name, text.tensor(name));
  io::save_safetensors(at("single.safetensors"), all);
  const auto expected = latents(qwen_image_21_model(), "");
  // The folder has the tokenizer, the scheduler and the autoencoder; of two components the first named is taken.
  for (const char* file : {"alone.safetensors", "single.safetensors"}) {
    auto single = "--model " + quoted(at(file)) + " --model " + quoted(kQwenImage21 / "model") + " --dtype fp32 ";
    EXPECT_LE(relative_error(latents(single, ""), expected), tolerance(1e-5)) << file;
  }
  EXPECT_THAT(run_ok("inspect " + quoted(at("single.safetensors"))),
              HasSubstr("Qwen-Image-2.1 transformer (3 layers, width 32) + Qwen3-VL text encoder + vision tower"));
}

TEST_F(QwenImage21Run, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kQwenImage21 / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("Qwen-Image-2.1"));
  auto source = io::TensorSource::open({at("single.safetensors").string()});
  EXPECT_EQ(source.info("model.diffusion_model.transformer_blocks.0.img_mlp.gate_up.weight").shape, (std::vector<int64_t>{192, 32}));
  EXPECT_EQ(source.info("vae.encoder.conv1.weight").shape, (std::vector<int64_t>{2, 4, 3, 3}));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(qwen_image_21_model(at("back")), ""), latents(qwen_image_21_model(), "")));
}

TEST_F(QwenImage21Run, TheWholeTextEncoderIsWrittenUnderTransformersNames) {
  train("text", "--trainable_models text_encoder");
  auto source = io::TensorSource::open_folder(kQwenImage21 / "model/text_encoder", {"model"});
  auto written = io::TensorSource::open({(at("text") / "step-3.text_encoder.safetensors").string()});
  int num_changed = 0;
  for (const auto& name : source.names()) {
    if (name.starts_with("model.visual.") || name.starts_with("lm_head.")) continue;
    ASSERT_TRUE(written.contains(name)) << name;
    bool is_read = name != "model.language_model.norm.weight";
    EXPECT_EQ(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)), !is_read) << name;
    num_changed += is_read;
  }
  EXPECT_GT(num_changed, 30);
}

TEST_F(QwenImage21Run, FilesOfAnotherFamilyAreToldApart) {
  EXPECT_THAT(run_ok("inspect " + quoted(kQwenImage21 / "model")), HasSubstr("Qwen-Image-2.1 transformer (3 layers, width 32)"));
  EXPECT_THAT(run_ok("inspect " + quoted(kQwenImage21 / "model/vae")), HasSubstr("autoencoder of pictures with a fourth channel"));
  EXPECT_THAT(run_ok("inspect " + quoted(kQwenImage21 / "model/text_encoder")), HasSubstr("Qwen3-VL text encoder"));
}

}  // namespace burnish::qwen_image_21_train_test
