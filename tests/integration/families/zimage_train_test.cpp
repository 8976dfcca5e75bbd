// What of Z-Image other families have not: captions of unequal length, its files' other names, and its layers ahead of training.
#include <gmock/gmock.h>

#include "models/families/zimage/keys.h"
#include "tests/integration/families/zimage.h"
#include "tests/integration/model_run.h"

namespace burnish::zimage_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLong = "tree of the north and a cat face and a red apple on the tree and a cat on it and a tree behind it and a red cat";

class ZImageRun : public ModelRun {
 protected:
  ZImageRun() : ModelRun(zimage_model()) {}
};

}  // namespace

TEST_F(ZImageRun, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 4; ++i) rows += (kGolden / "pictures" / (std::to_string(i) + ".png")).string() + "," + (i % 2 ? kLong : "cat") + "\n";
  auto data = "--dataset_metadata_path " + quoted(write("data.csv", rows)) + " --lora_rank 4 --lora_target_modules 'to_q,to_v,w2' ";
  train("together", data + "--batch_size 4");
  train("apart", data + "--gradient_accumulation_steps 4");
  auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
}

TEST_F(ZImageRun, AFusedLayerOfAnAdapterIsThatOfItsThree) {
  auto a = at::linspace(-1, 1, 4 * 32).view({4, 32}).sin(), b = at::linspace(-2, 2, 96 * 4).view({96, 4}).cos();
  io::save_safetensors(at("fused.safetensors"), {{"lora_unet_layers_1_attention_qkv.lora_down.weight", a},
                                                 {"lora_unet_layers_1_attention_qkv.lora_up.weight", b},
                                                 {"lora_unet_layers_1_attention_qkv.alpha", at::full({}, 4.0)}});
  io::NamedTensors three;
  for (int i = 0; i < 3; ++i) {
    auto layer = std::string("transformer.layers.1.attention.to_") + "qkv"[i];
    three.emplace_back(layer + ".lora_A.weight", a);
    three.emplace_back(layer + ".lora_B.weight", b.narrow(0, 32 * i, 32).contiguous());
  }
  io::save_safetensors(at("three.safetensors"), three);
  EXPECT_LE(relative_error(latents(zimage_model(), "--lora " + quoted(at("fused.safetensors"))),
                           latents(zimage_model(), "--lora " + quoted(at("three.safetensors")))),
            1e-6);
}

TEST_F(ZImageRun, ASingleFileInOriginalNamesIsTheSameModel) {
  io::NamedTensors all, ours;
  auto of = [](const char* folder, const char* stem) { return io::TensorSource::open_folder(kZImage / "model" / folder, {stem}); };
  auto transformer = of("transformer", "diffusion_pytorch_model"), text = of("text_encoder", "model");
  for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
  for (auto& [name, tensor] : models::zimage::original_keys().to_file(ours)) all.emplace_back("model.diffusion_model." + name, tensor);
  all.emplace_back("model.diffusion_model.norm_final.weight", at::ones({32}));
  for (const auto& name : text.names()) all.emplace_back("text_encoders.qwen3_4b.transformer." + name, text.tensor(name));
  io::save_safetensors(at("single.safetensors"), all);
  // The small autoencoder's scale is in its config.json alone.
  auto single = "--model " + quoted(at("single.safetensors")) + " --model " + quoted(kZImage / "model/vae") + " --tokenizer_path " +
                quoted(kZImage / "model/tokenizer") + " --dtype fp32 ";
  EXPECT_LE(relative_error(latents(single, ""), latents(zimage_model(), "")), tolerance(1e-5));
  auto inspected = run_ok("inspect " + quoted(at("single.safetensors")));
  EXPECT_THAT(inspected, HasSubstr("Z-Image transformer (3 layers, 1 in each refiner, width 32, original names) + Qwen3 text encoder"));
}

TEST_F(ZImageRun, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kZImage / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("Z-Image"));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(zimage_model(at("back")), ""), latents(zimage_model(), "")));
}

TEST_F(ZImageRun, FirstBlocksAheadOfTrainingGiveTheSameLossesAndFiles) {
  int number = 0;
  for (const std::string options :
       {"", "--batch_size 2 ", "--use_gradient_checkpointing --fp8_models dit ", "--lora_type dora --dtype bf16 "}) {
    auto run = std::to_string(number++);
    auto all = "--lora_rank 4 --lora_target_modules 'layers\\.2\\.attention\\.to_[qv]' --cache_path " + quoted(at("cache")) + " " + options;
    train(run + "live", all + "--precompute_timesteps off");
    auto ahead = train(run + "ahead", all + "--precompute_timesteps blocks");
    EXPECT_THAT(ahead, HasSubstr("in memory while training: dit.last_blocks, "));
    expect_same(run + "live", run + "ahead");
  }
  auto refiner = "train " + zimage_model() + golden_data() + "--max_steps 1 --lora_rank 4 --lora_target_modules 'noise_refiner.*to_q' " +
                 "--precompute_timesteps blocks --cache_path " + quoted(at("cache")) + " --output_path " + quoted(at("refused"));
  EXPECT_THAT(run_burnish(refiner).output, HasSubstr("finds no frozen blocks to compute ahead"));
}

TEST_F(ZImageRun, ATrainingAdapterIsThereWhileTrainingAndNotInPreviews) {
  auto prompts = write("prompts.txt", "red apple --s 2 --d 3\n");
  auto run = "--lora_rank 2 --width 64 --preview_prompts " + quoted(prompts) + " ";
  train("plain", run);
  train("with", run + "--preset_lora_path " + quoted(kZImage / "lora.safetensors"));
  EXPECT_NE(of_log("plain", "loss"), of_log("with", "loss"));
  const std::string first = "samples/step-000000/00.png";
  EXPECT_EQ(read_file(at("plain") / first), read_file(at("with") / first)) << "nothing is trained yet";
  EXPECT_NE(read_file(at("plain") / first), "");
}

TEST_F(ZImageRun, CaptionsAreCutAtTheirLimitAndThatIsSaid) {
  auto data = write("data.csv", "image,prompt\n" + (kGolden / "pictures/0.png").string() + "," + kLong + "\n");
  auto run = [&](const std::string& name, const std::string& more) {
    return train(name, "--dataset_metadata_path " + quoted(data) + " --lora_rank 2 --max_steps 1 " + more);
  };
  EXPECT_THAT(run("cut", "--max_sequence_length 24"), HasSubstr("1 of 1 captions have more than the 24 tokens that text_encoder reads"));
  EXPECT_THAT(run("whole", ""), testing::Not(HasSubstr("tokens that text_encoder reads")));
  EXPECT_NE(of_log("cut", "loss"), of_log("whole", "loss"));
}

TEST_F(ZImageRun, TheWholeTextEncoderIsWrittenUnderTransformersNames) {
  train("text", "--trainable_models text_encoder");
  auto source = io::TensorSource::open_folder(kZImage / "model/text_encoder", {"model"});
  auto written = io::TensorSource::open({(at("text") / "step-3.text_encoder.safetensors").string()});
  for (const auto& name : source.names()) {
    bool read = name.find("layers.2.") == name.npos && name != "model.norm.weight";
    EXPECT_EQ(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)), !read) << name;
  }
}

}  // namespace burnish::zimage_train_test
