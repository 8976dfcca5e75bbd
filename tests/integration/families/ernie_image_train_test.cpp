// What of ERNIE-Image other families have not: one modulation for layers that see captions of unequal length, its adapters' names, a
// rewriter of prompts in its folder.
#include <gmock/gmock.h>

#include "io/json.h"
#include "tests/integration/families/ernie_image.h"
#include "tests/integration/model_run.h"

namespace burnish::ernie_image_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLong = "tree of the north and a cat face and a red apple on the tree and a cat on it and a tree behind it and a red cat";

class ErnieImageRun : public ModelRun {
 protected:
  ErnieImageRun() : ModelRun(ernie_image_model()) {}
  io::TensorSource weights(const char* folder, const char* stem) const {
    return io::TensorSource::open_folder(kErnieImage / "model" / folder, {stem});
  }
};

}  // namespace

TEST_F(ErnieImageRun, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 4; ++i) rows += (kGolden / "pictures" / (std::to_string(i) + ".png")).string() + "," + (i % 2 ? kLong : "") + "\n";
  auto data = "--dataset_metadata_path " + quoted(write("data.csv", rows)) + " --lora_rank 4 ";
  train("together", data + "--batch_size 4");
  train("apart", data + "--gradient_accumulation_steps 4");
  auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
}

TEST_F(ErnieImageRun, AdaptersOfEveryProgramAreTheSame) {
  const auto from = kErnieImage / "lora.safetensors";
  const auto expected = latents(ernie_image_model(), "--lora " + quoted(from));
  EXPECT_GT(relative_error(latents(ernie_image_model(), ""), expected), 1e-3);
  auto behind = [](const std::string& prefix, bool with_underscores, const char* down, const char* up) {
    return [=](std::string layer, bool is_down) {
      if (with_underscores) std::ranges::replace(layer, '.', '_');
      return prefix + layer + (is_down ? down : up);
    };
  };
  // ai-toolkit and ComfyUI; peft within OneTrainer and SimpleTuner; kohya's kind; OneTrainer's kind; DiffSynth-Studio.
  const char *lora_a = ".lora_A.weight", *lora_b = ".lora_B.weight", *down = ".lora_down.weight", *up = ".lora_up.weight";
  for (const auto& [name, rename] : std::map<std::string, std::function<std::string(const std::string&, bool)>>{
           {"ai-toolkit", behind("diffusion_model.", false, lora_a, lora_b)},
           {"peft", behind("base_model.model.", false, lora_a, lora_b)},
           {"kohya", behind("lora_unet_", true, down, up)},
           {"onetrainer", behind("lora_transformer_", true, down, up)},
           {"diffsynth", behind("", false, ".lora_A.default.weight", ".lora_B.default.weight")}}) {
    rename_lora(from, at("renamed.safetensors"), rename);
    EXPECT_LE(relative_error(latents(ernie_image_model(), "--lora " + quoted(at("renamed.safetensors"))), expected), 1e-6) << name;
  }
  for (const std::string format : {"diffusers", "kohya", "onetrainer", "comfyui", "diffsynth"}) {
    const auto written = quoted(at(format + ".safetensors"));
    run_ok("convert " + quoted(from) + " " + written + " --lora_format " + format + " " + ernie_image_model());
    EXPECT_LE(relative_error(latents(ernie_image_model(), "--lora " + written), expected), 1e-6) << format;
  }
}

TEST_F(ErnieImageRun, ASingleFileIsTheSameModel) {
  io::NamedTensors all;
  auto transformer = weights("transformer", "diffusion_pytorch_model"), text = weights("text_encoder", "model");
  for (const auto& name : transformer.names()) all.emplace_back("model.diffusion_model." + name, transformer.tensor(name));
  const std::string theirs = "language_model.model.";
  for (const auto& name : text.names()) {
    if (name.starts_with(theirs))
      all.emplace_back("text_encoders.ministral3_3b.transformer.model." + name.substr(theirs.size()), text.tensor(name));
  }
  io::save_safetensors(at("single.safetensors"), all);
  // The small autoencoder's numbers beside its tensors are in its config.json alone.
  auto single = "--model " + quoted(at("single.safetensors")) + " --model " + quoted(kErnieImage / "model/vae") + " --tokenizer_path " +
                quoted(kErnieImage / "model/tokenizer") + " --dtype fp32 ";
  EXPECT_LE(relative_error(latents(single, ""), latents(ernie_image_model(), "")), tolerance(1e-5));
  EXPECT_THAT(run_ok("inspect " + quoted(at("single.safetensors"))),
              HasSubstr("ERNIE-Image transformer (3 layers, width 32) + Mistral text encoder"));
}

TEST_F(ErnieImageRun, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kErnieImage / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("ERNIE-Image"));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(ernie_image_model(at("back")), ""), latents(ernie_image_model(), "")));
}

/// The rewriter has the text encoder's tensors, and comes before it in the folder's list.
TEST_F(ErnieImageRun, ARewriterOfPromptsBesideIsNotTakenForTheTextEncoder) {
  fs::copy(kErnieImage / "model", at("model"), fs::copy_options::recursive);
  fs::copy(at("model") / "text_encoder", at("model") / "pe", fs::copy_options::recursive);
  auto source = weights("text_encoder", "model");
  io::NamedTensors other;
  for (const auto& name : source.names()) other.emplace_back(name, source.tensor(name) * 2);
  io::save_safetensors(at("model") / "pe/model.safetensors", other);
  auto index = io::read_json(at("model") / "model_index.json");
  index["pe"] = {"transformers", "Ministral3ForCausalLM"};
  index["pe_tokenizer"] = {"transformers", "TokenizersBackend"};
  std::ofstream(at("model") / "model_index.json") << index.dump();
  EXPECT_TRUE(at::equal(latents(ernie_image_model(at("model")), ""), latents(ernie_image_model(), "")));
  fs::remove_all(at("model") / "pe");
  EXPECT_TRUE(at::equal(latents(ernie_image_model(at("model")), ""), latents(ernie_image_model(), "")));
}

TEST_F(ErnieImageRun, FirstLayersAheadOfTrainingGiveTheSameLossesAndFiles) {
  int number = 0;
  for (const std::string options :
       {"", "--batch_size 2 ", "--use_gradient_checkpointing --fp8_models dit ", "--lora_type dora --dtype bf16 "}) {
    auto run = std::to_string(number++);
    auto all =
        "--lora_rank 4 --lora_target_modules 'layers\\.2\\.self_attention\\.to_[qv]' --cache_path " + quoted(at("cache")) + " " + options;
    train(run + "live", all + "--precompute_timesteps off");
    auto ahead = train(run + "ahead", all + "--precompute_timesteps blocks");
    EXPECT_THAT(ahead, HasSubstr("in memory while training: dit.last_blocks, "));
    expect_same(run + "live", run + "ahead");
  }
}

TEST_F(ErnieImageRun, TheWholeTextEncoderIsWrittenUnderTransformersNames) {
  train("text", "--trainable_models text_encoder");
  auto source = weights("text_encoder", "model");
  auto written = io::TensorSource::open({(at("text") / "step-3.text_encoder.safetensors").string()});
  for (const auto& name : source.names()) {
    if (!name.starts_with("language_model.")) continue;
    bool is_read = name.find("layers.2.") == name.npos && name != "language_model.model.norm.weight";
    EXPECT_EQ(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)), !is_read) << name;
  }
}

}  // namespace burnish::ernie_image_train_test
