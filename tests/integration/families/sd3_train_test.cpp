// What of Stable Diffusion 3.5 other families have not: names of other programs' adapters, single files with three text encoders.
#include <gmock/gmock.h>

#include "models/families/sd3/keys.h"
#include "tests/integration/families/sd3.h"
#include "tests/integration/model_run.h"

namespace burnish::sd3_train_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kAdapterFile = quoted(kSd3 / "lora.safetensors") + " ";

class Sd3Run : public ModelRun {
 protected:
  Sd3Run() : ModelRun(sd3_model()) {}
  static io::TensorSource weights(const char* folder, const char* stem = "model") {
    return io::TensorSource::open_folder(kSd3 / "model" / folder, {stem});
  }
  /// A file as ComfyUI has it, with the transformer in original names and the text encoders behind it.
  fs::path single_file() const {
    io::NamedTensors all, ours;
    auto transformer = weights("transformer", "diffusion_pytorch_model");
    for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
    for (auto& [name, tensor] : models::sd3::original_keys(3).to_file(ours)) all.emplace_back("model.diffusion_model." + name, tensor);
    for (const auto& [folder, word] : {std::pair("text_encoder", "clip_l"), {"text_encoder_2", "clip_g"}, {"text_encoder_3", "t5xxl"}}) {
      auto text = weights(folder);
      for (const auto& name : text.names())
        all.emplace_back(std::string("text_encoders.") + word + ".transformer." + name, text.tensor(name));
    }
    io::save_safetensors(at("single.safetensors"), all);
    return at("single.safetensors");
  }
};

}  // namespace

TEST_F(Sd3Run, AdaptersOfEveryProgramAreTheSame) {
  const auto expected = latents(sd3_model(), "--lora " + kAdapterFile);
  EXPECT_GT(relative_error(latents(sd3_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("diffusers", "transformer.transformer_blocks.1.attn2.to_q.lora_A.weight"),
                                    {"kohya", "lora_unet_joint_blocks_1_x_block_attn2_qkv.lora_down.weight"},
                                    {"comfyui", "diffusion_model.joint_blocks.0.context_block.attn.proj.lora_A.weight"},
                                    {"onetrainer", "lora_transformer_transformer_blocks_0_attn_add_q_proj.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapterFile + quoted(file) + " --lora_format " + format + " --model " + quoted(kSd3 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(sd3_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

/// sd-scripts' adapters have one layer for query, key and value, and modulations in the order of the original files.
TEST_F(Sd3Run, AnAdapterOfFusedAndSwappedLayersIsOurs) {
  at::manual_seed(3);
  const auto down = at::randn({4, 32}) * 0.1, up = at::randn({96, 4}) * 0.1, last = at::randn({64, 4}) * 0.1;
  const std::string theirs = "lora_unet_joint_blocks_", ours = "transformer.transformer_blocks.";
  io::save_safetensors(at("fused.safetensors"), {{theirs + "1_x_block_attn_qkv.lora_down.weight", down},
                                                 {theirs + "1_x_block_attn_qkv.lora_up.weight", up},
                                                 {theirs + "2_context_block_adaLN_modulation_1.lora_down.weight", down.clone()},
                                                 {theirs + "2_context_block_adaLN_modulation_1.lora_up.weight", last}});
  const auto parts = up.chunk(3), halves = last.chunk(2);
  io::NamedTensors apart{{ours + "2.norm1_context.linear.lora_A.weight", down.clone()},
                         {ours + "2.norm1_context.linear.lora_B.weight", at::cat({halves[1], halves[0]})}};
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto name = ours + "1.attn.to_" + std::string("qkv").substr(i, 1);
    apart.emplace_back(name + ".lora_A.weight", down.clone());
    apart.emplace_back(name + ".lora_B.weight", parts[i].contiguous());
  }
  io::save_safetensors(at("apart.safetensors"), apart);
  const auto expected = latents(sd3_model(), "--lora " + quoted(at("apart.safetensors")));
  EXPECT_LE(relative_error(latents(sd3_model(), "--lora " + quoted(at("fused.safetensors"))), expected), 1e-6);
  EXPECT_GT(relative_error(latents(sd3_model(), ""), expected), 1e-4);
}

TEST_F(Sd3Run, ASingleFileIsTheSameModel) {
  const auto file = single_file();
  // The small autoencoder's numbers beside its tensors are in its config.json alone. CLIP's folder does for both of them.
  const auto single = "--model " + quoted(file) + " --model " + quoted(kSd3 / "model/vae") + " --tokenizer_path " +
                      quoted(kSd3 / "model/tokenizer") + " --tokenizer_2_path " + quoted(kSd3 / "model/tokenizer_3") + " --dtype fp32 ";
  const auto of_folders =
      "--model " + quoted(kSd3 / "model/text_encoder") + " --model " + quoted(kSd3 / "model/text_encoder_2") + " " + single;
  // Heads of the small CLIPs are narrower than 64, which config.json alone says.
  EXPECT_LE(relative_error(latents(of_folders, ""), latents(sd3_model(), "")), tolerance(1e-5));
  EXPECT_THAT(run_ok("inspect " + quoted(file)),
              HasSubstr("SD 3.5 Medium transformer (3 blocks, width 32, original names) + CLIP text encoder + "
                        "OpenCLIP text encoder + T5 encoder"));
}

TEST_F(Sd3Run, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kSd3 / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("SD 3.5 Medium"));
  const auto file = io::TensorSource::open({at("single.safetensors").string()});
  for (const char* name :
       {"model.diffusion_model.pos_embed", "model.diffusion_model.joint_blocks.1.x_block.attn2.qkv.weight",
        "text_encoders.clip_l.transformer.text_projection.weight", "text_encoders.clip_g.transformer.text_projection.weight",
        "text_encoders.t5xxl.transformer.shared.weight", "first_stage_model.decoder.conv_in.weight"})
    EXPECT_TRUE(file.contains(name)) << name;
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(sd3_model(at("back")), ""), latents(sd3_model(), "")));
}

/// A CLIP-L that other models read has no projection; that of this model changes nothing in them.
TEST_F(Sd3Run, AClipWithoutItsProjectionPoolsWithoutOne) {
  fs::copy(kSd3 / "model", at("model"), fs::copy_options::recursive);
  auto clip = weights("text_encoder");
  const auto path = at("model") / "text_encoder/model.safetensors";
  auto write_with = [&](const at::Tensor& projection) {
    io::NamedTensors tensors;
    for (const auto& name : clip.names())
      if (name != "text_projection.weight") tensors.emplace_back(name, clip.tensor(name).clone());
    if (projection.defined()) tensors.emplace_back("text_projection.weight", projection);
    fs::remove(path);
    io::save_safetensors(path, tensors);
  };
  write_with(at::eye(8));
  const auto with_it = latents(sd3_model(at("model")), "");
  write_with({});
  EXPECT_LE(relative_error(latents(sd3_model(at("model")), ""), with_it), tolerance(1e-6));
}

TEST_F(Sd3Run, TextEncodersTrainBesideTheTransformer) {
  train("texts", "--lora_rank 4 --lora_base_model dit,text_encoder,text_encoder_2 ");
  auto adapter = io::TensorSource::open({(at("texts") / "step-3.safetensors").string()});
  auto has = [&](const std::string& start) {
    return std::ranges::any_of(adapter.names(), [&](const std::string& name) { return name.starts_with(start); });
  };
  for (const char* start : {"transformer.", "text_encoder.", "text_encoder_2."}) EXPECT_TRUE(has(start)) << start;
  EXPECT_GT(relative_error(latents(sd3_model(), "--lora " + quoted(at("texts") / "step-3.safetensors")), latents(sd3_model(), "")), 1e-5);
}

TEST_F(Sd3Run, TheTableOfPlacesStaysAsItIs) {
  train("whole", "--trainable_models dit");
  auto written = io::TensorSource::open({(at("whole") / "step-3.safetensors").string()});
  const auto before = weights("transformer", "diffusion_pytorch_model");
  const std::string places = "pos_embed.pos_embed", other = "pos_embed.proj.weight";
  auto name_of = [&](const std::string& end) {
    const auto names = written.names();
    return *std::ranges::find_if(names, [&](const std::string& name) { return name.ends_with(end); });
  };
  EXPECT_TRUE(at::equal(written.tensor(name_of(places)).to(at::kFloat), before.tensor(places).to(at::kFloat)));
  EXPECT_FALSE(at::equal(written.tensor(name_of(other)).to(at::kFloat), before.tensor(other).to(at::kFloat)));
}

}  // namespace burnish::sd3_train_test
