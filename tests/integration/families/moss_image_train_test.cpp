// What of MOSS-Image other families have not: names of other programs' adapters, single files, a block that guidance leaves out, a text
// encoder most of whose layers have no attention.
#include <gmock/gmock.h>

#include "tests/integration/families/moss_image.h"
#include "tests/integration/model_run.h"

namespace burnish::moss_image_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLong = "tree of the north and a cat face and a red apple on the tree and a cat on it and a tree behind it and a red cat";

class MossImageRun : public ModelRun {
 protected:
  MossImageRun() : ModelRun(moss_image_model()) {}
  io::TensorSource weights(const char* folder, const char* stem) const {
    return io::TensorSource::open_folder(kMossImage / "model" / folder, {stem});
  }
};

}  // namespace

TEST_F(MossImageRun, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 4; ++i) rows += (kGolden / "pictures" / (std::to_string(i) + ".png")).string() + "," + (i % 2 ? kLong : "") + "\n";
  auto data = "--dataset_metadata_path " + quoted(write("data.csv", rows)) + " --lora_rank 4 ";
  train("together", data + "--batch_size 4");
  train("apart", data + "--gradient_accumulation_steps 4");
  auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
}

TEST_F(MossImageRun, AdaptersOfEveryProgramAreTheSame) {
  const auto from = kMossImage / "lora.safetensors";
  const auto expected = latents(moss_image_model(), "--lora " + quoted(from));
  EXPECT_GT(relative_error(latents(moss_image_model(), ""), expected), 1e-3);
  auto behind = [](const std::string& prefix, bool with_underscores, const char* down, const char* up) {
    return [=](std::string layer, bool is_down) {
      if (with_underscores) std::ranges::replace(layer, '.', '_');
      return prefix + layer + (is_down ? down : up);
    };
  };
  // ai-toolkit, ComfyUI and KohakuMoss; peft; kohya's kind; DiffSynth-Studio.
  const char *lora_a = ".lora_A.weight", *lora_b = ".lora_B.weight", *down = ".lora_down.weight", *up = ".lora_up.weight";
  for (const auto& [name, rename] : std::map<std::string, std::function<std::string(const std::string&, bool)>>{
           {"ai-toolkit", behind("diffusion_model.", false, lora_a, lora_b)},
           {"kohakumoss", behind("diffusion_model.", false, down, up)},
           {"peft", behind("base_model.model.", false, lora_a, lora_b)},
           {"kohya", behind("lora_unet_", true, down, up)},
           {"diffsynth", behind("", false, ".lora_A.default.weight", ".lora_B.default.weight")}}) {
    rename_lora(from, at("renamed.safetensors"), rename);
    EXPECT_LE(relative_error(latents(moss_image_model(), "--lora " + quoted(at("renamed.safetensors"))), expected), 1e-6) << name;
  }
  for (const std::string format : {"diffusers", "kohya", "comfyui", "diffsynth"}) {
    const auto written = quoted(at(format + ".safetensors"));
    run_ok("convert " + quoted(from) + " " + written + " --lora_format " + format + " " + moss_image_model());
    EXPECT_LE(relative_error(latents(moss_image_model(), "--lora " + written), expected), 1e-6) << format;
  }
}

/// ComfyUI's adapters may have one layer for query, key and value.
TEST_F(MossImageRun, AnAdapterOfQueryKeyAndValueTogetherIsThreeOfThem) {
  at::manual_seed(3);
  const auto down = at::randn({4, 32}) * 0.1, up = at::randn({96, 4}) * 0.1;
  const std::string layer = "diffusion_model.layers.1.proj.";
  io::save_safetensors(at("fused.safetensors"), {{layer + "qkv.lora_A.weight", down}, {layer + "qkv.lora_B.weight", up}});
  io::NamedTensors apart;
  const auto parts = up.chunk(3);
  for (size_t i = 0; i < 3; ++i) {
    const auto name = layer + std::string("qkv").substr(i, 1);
    apart.emplace_back(name + ".lora_A.weight", down.clone());
    apart.emplace_back(name + ".lora_B.weight", parts[i].contiguous());
  }
  io::save_safetensors(at("apart.safetensors"), apart);
  const auto expected = latents(moss_image_model(), "--lora " + quoted(at("apart.safetensors")));
  EXPECT_LE(relative_error(latents(moss_image_model(), "--lora " + quoted(at("fused.safetensors"))), expected), 1e-6);
  EXPECT_GT(relative_error(latents(moss_image_model(), ""), expected), 1e-4);
}

TEST_F(MossImageRun, ASingleFileIsTheSameModel) {
  io::NamedTensors all;
  auto transformer = weights("transformer", "diffusion_pytorch_model"), text = weights("text_encoder", "model");
  for (const auto& name : transformer.names()) all.emplace_back("model.diffusion_model." + name, transformer.tensor(name));
  const std::string theirs = "language_model.";
  for (const auto& name : text.names()) {
    if (name.starts_with(theirs))
      all.emplace_back("text_encoders.qwen35_9b.transformer.model." + name.substr(theirs.size()), text.tensor(name));
  }
  io::save_safetensors(at("single.safetensors"), all);
  // The small autoencoder's numbers beside its tensors are in its config.json alone.
  auto single = "--model " + quoted(at("single.safetensors")) + " --model " + quoted(kMossImage / "model/vae") + " --tokenizer_path " +
                quoted(kMossImage / "model/tokenizer") + " --dtype fp32 ";
  EXPECT_LE(relative_error(latents(single, ""), latents(moss_image_model(), "")), tolerance(1e-5));
  EXPECT_THAT(run_ok("inspect " + quoted(at("single.safetensors"))),
              HasSubstr("MOSS-Image transformer (3 layers, width 32) + Qwen3.5 text encoder"));
}

TEST_F(MossImageRun, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kMossImage / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("MOSS-Image"));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(moss_image_model(at("back")), ""), latents(moss_image_model(), "")));
}

TEST_F(MossImageRun, ABlockThatThereIsNotIsRefused) {
  auto drawn = run_burnish("sample " + moss_image_model() + "--prompt cat --uncond_skip_layer 3 --output_path " + quoted(at("none")));
  EXPECT_EQ(drawn.exit_code, 2);
  EXPECT_THAT(drawn.output, HasSubstr("uncond_skip_layer 3 asks for a block that there is not; the transformer has 3, counted from 0"));
}

TEST_F(MossImageRun, LayersOfLinearAttentionTrainToo) {
  train("text", "--trainable_models text_encoder");
  auto source = weights("text_encoder", "model");
  auto written = io::TensorSource::open({(at("text") / "step-3.text_encoder.safetensors").string()});
  for (const auto& name : source.names()) {
    if (!name.starts_with("language_model.")) continue;
    EXPECT_FALSE(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat))) << name;
  }
  train("lora", "--lora_base_model text_encoder --lora_rank 4");
  auto adapter = io::TensorSource::open({(at("lora") / "step-3.safetensors").string()});
  for (const std::string layer : {"layers.0.linear_attn.in_proj_qkv", "layers.2.linear_attn.out_proj", "layers.3.self_attn.q_proj"}) {
    bool is_there = std::ranges::any_of(adapter.names(), [&](const std::string& name) { return name.find(layer) != name.npos; });
    EXPECT_TRUE(is_there) << layer;
  }
}

}  // namespace burnish::moss_image_train_test
