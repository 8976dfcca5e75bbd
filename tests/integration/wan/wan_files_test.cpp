// Wan's files in every layout in which they are published: diffusers' folder, the original one, single files as ComfyUI has them.
#include <gmock/gmock.h>

#include "io/safetensors.h"
#include "tests/coded_files.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan_experts.h"
#include "tests/integration/wan/wan_original.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

constexpr const char *kText = "models_t5_umt5-xxl-enc-bf16.pth", *kVae = "Wan2.1_VAE.pth", *kDit = "diffusion_pytorch_model.safetensors";

void copy_into(const fs::path& from, const fs::path& folder) {
  fs::create_directories(folder);
  fs::copy(from, folder, fs::copy_options::recursive);
}

/// The original folder, with its tokenizer where Wan has it.
fs::path original_folder(const fs::path& folder) {
  make_wan_original(folder);
  copy_into(kWan / "model/tokenizer", folder / "google/umt5-xxl");
  return folder;
}

io::NamedTensors tensors_of(const fs::path& file, const std::string& prefix = "") {
  auto source = io::TensorSource::open({file});
  io::NamedTensors all;
  for (const auto& name : source.names()) all.emplace_back(prefix + name, source.tensor(name).clone());
  return all;
}

/// The weights of linear layers in blocks as FP8 numbers, each with a scale, and the mark of such files.
io::NamedTensors in_fp8(const io::NamedTensors& tensors, const std::string& prefix) {
  io::NamedTensors all{{prefix + "scaled_fp8", at::zeros({0}, at::kFloat8_e4m3fn)}};
  for (const auto& [name, tensor] : tensors) {
    bool is_linear = name.find("blocks.") != name.npos && name.ends_with(".weight") && tensor.dim() == 2;
    if (!is_linear) {
      all.emplace_back(name, tensor);
      continue;
    }
    auto scale = tensor.to(at::kFloat).abs().max() / 448;
    all.emplace_back(name, (tensor.to(at::kFloat) / scale).to(at::kFloat8_e4m3fn));
    all.emplace_back(name.substr(0, name.size() - 6) + "scale_weight", scale);
  }
  return all;
}

class WanFiles : public BadInput {
 protected:
  std::string trained(const std::string& name, const std::string& model) const {
    auto outcome = run_burnish("train " + model + "--dtype fp32 " + golden_data() +
                               "--lora_rank 4 --max_steps 3 --learning_rate 1e-2 --num_threads 1 --output_path " + quoted(at(name)));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.exit_code == 0 ? logged(name) : outcome.output;
  }
  std::string logged(const std::string& name) const {
    std::string text;
    for (auto& line : read_log(at(name))) text += nlohmann::json{line["loss"], line["grad_norm"]}.dump() + "\n";
    return text;
  }
  /// ComfyUI's text encoder: transformers' names, and the vocabulary as a tensor.
  fs::path comfy_text() const {
    auto tensors = tensors_of(kWan / "model/text_encoder/model.safetensors");
    auto bytes = read_file(kWan / "model/tokenizer/spiece.model");
    tensors.emplace_back("spiece_model", at::from_blob(bytes.data(), {std::ssize(bytes)}, at::kByte).clone());
    io::save_safetensors(at("umt5_xxl_fp16.safetensors"), tensors);
    return at("umt5_xxl_fp16.safetensors");
  }
  fs::path comfy_vae() const {
    io::save_safetensors(at("wan_2.1_vae.safetensors"), in_original_names("vae"));
    return at("wan_2.1_vae.safetensors");
  }
  /// ComfyUI's files hold no number of heads, which the small model has fewer of than its width says.
  std::string comfy_files(const fs::path& dit) const {
    fs::copy(kWanOriginal / "config.json", dit.parent_path() / "config.json", fs::copy_options::overwrite_existing);
    return "--model " + quoted(dit) + " --model " + quoted(comfy_text()) + " --model " + quoted(comfy_vae()) + " ";
  }
  fs::path dit(const std::string& name, const io::NamedTensors& tensors) const {
    fs::create_directories(at("dit"));
    io::save_safetensors(at("dit") / name, tensors);
    return at("dit") / name;
  }
};

}  // namespace

TEST_F(WanFiles, OfEveryLayoutTrainAlike) {
  const auto expected = trained("diffusers", wan_model());
  EXPECT_EQ(trained("original", "--model " + quoted(original_folder(at("original_model"))) + " "), expected);
  EXPECT_EQ(trained("bare", comfy_files(dit("bare.safetensors", in_original_names("transformer")))), expected);
  EXPECT_EQ(trained("prefixed", comfy_files(dit("prefixed.safetensors", in_original_names("transformer", "model.diffusion_model.")))),
            expected);
}

TEST_F(WanFiles, OfOriginalNamesByThemselvesTrainAlike) {
  original_folder(at("whole"));
  auto one_by_one = "--model " + quoted(at("whole") / kDit) + " --model " + quoted(at("whole") / kText) + " --model " +
                    quoted(at("whole") / kVae) + " --tokenizer_path " + quoted(at("whole") / "google/umt5-xxl") + " ";
  EXPECT_EQ(trained("one_by_one", one_by_one), trained("diffusers", wan_model()));
}

TEST_F(WanFiles, OfScaledFp8AreReadAsTheirNumbers) {
  const auto codes = in_fp8(in_original_names("transformer", "model.diffusion_model."), "model.diffusion_model.");
  io::NamedTensors numbers;
  for (const auto& [name, tensor] : codes) {
    if (name.ends_with("scaled_fp8") || name.ends_with(".scale_weight")) continue;
    auto layer = name.substr(0, name.size() - 6);
    auto scale = std::ranges::find_if(codes, [&](const auto& item) { return item.first == layer + "scale_weight"; });
    numbers.emplace_back(name, scale == codes.end() ? tensor : tensor.to(at::kFloat) * scale->second);
  }
  auto stored = trained("codes", comfy_files(dit("codes.safetensors", codes)));
  EXPECT_EQ(stored, trained("numbers", comfy_files(dit("numbers.safetensors", numbers))));
  EXPECT_NE(stored, trained("diffusers", wan_model()));
}

TEST_F(WanFiles, AreDescribed) {
  original_folder(at("whole"));
  auto whole = run_burnish("inspect " + quoted(at("whole")));
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  for (const char* words : {"Wan transformer (2 layers, width 24, original names)", "T5 encoder", "causal autoencoder"})
    EXPECT_THAT(whole.output, HasSubstr(words));
}

TEST_F(WanFiles, AreConvertedIntoEachOther) {
  original_folder(at("whole"));
  auto convert = [&](const std::string& arguments) {
    auto outcome = run_burnish("convert " + arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  };
  convert(quoted(at("whole")) + " " + quoted(at("folder")) + " --config_from " + quoted(kWan / "model"));
  convert(quoted(kWan / "model") + " " + quoted(at("single.safetensors")));
  for (const char* part : {"transformer/diffusion_pytorch_model.safetensors", "vae/diffusion_pytorch_model.safetensors"}) {
    auto ours = io::TensorSource::open({kWan / "model" / part}), back = io::TensorSource::open({at("folder") / part});
    ASSERT_EQ(ours.names(), back.names()) << part;
    for (const auto& name : ours.names()) EXPECT_TRUE(at::equal(ours.tensor(name), back.tensor(name))) << name;
  }
  auto single = io::TensorSource::open({at("single.safetensors")});
  for (const auto& [name, tensor] : in_original_names("transformer", "model.diffusion_model.")) {
    ASSERT_TRUE(single.contains(name)) << name;
    EXPECT_TRUE(at::equal(single.tensor(name), tensor)) << name;
  }
  for (const auto& [name, tensor] : in_original_names("vae", "vae.")) EXPECT_TRUE(single.contains(name)) << name;
}

TEST_F(WanFiles, WithoutATokenizerAreRefusedInASentence) {
  make_wan_original(at("whole"));
  auto files = "--model " + quoted(at("whole")) + " " + golden_data();
  refused(3, "train --dtype fp32 --lora_rank 2 " + files, {"no T5 tokenizer beside the model", "--tokenizer_path"});
  refused(3, "train --dtype fp32 --lora_rank 2 --model " + quoted(at("whole") / kDit) + " " + golden_data(),
          {"needs a", "and there is none in", "name it with a further --model"});
}

/// The usual tool writes the kernel of the patches with all of its five sides.
TEST_F(WanFiles, OfGgufTrainAsTheirNumbers) {
  const auto tensors = in_original_names("transformer");
  fs::create_directories(at("dit"));
  save_gguf(at("dit/wan.gguf"), tensors, [](const auto&, const auto&) { return false; });
  EXPECT_EQ(trained("gguf", comfy_files(at("dit/wan.gguf"))), trained("numbers", comfy_files(dit("wan.safetensors", tensors))));
}

/// The text encoder of ComfyUI carries its vocabulary, and so does the file that is written of it.
TEST_F(WanFiles, KeepTheVocabularyInASingleFile) {
  const auto transformer = dit("bare.safetensors", in_original_names("transformer"));
  const auto files = comfy_files(transformer);
  fs::create_directories(at("single"));
  auto done = run_burnish("convert " + quoted(transformer) + " " + quoted(at("umt5_xxl_fp16.safetensors")) + " " +
                          quoted(at("wan_2.1_vae.safetensors")) + " " + quoted(at("single/wan.safetensors")));
  ASSERT_EQ(done.exit_code, 0) << done.output;
  EXPECT_TRUE(io::TensorSource::open({at("single/wan.safetensors")}).contains("text_encoders.umt5xxl.transformer.spiece_model"));
  fs::copy(kWanOriginal / "config.json", at("single/config.json"));
  EXPECT_EQ(trained("single_run", "--model " + quoted(at("single/wan.safetensors")) + " "), trained("files", files));
}

/// The numbers of each config that diffusers' own folder has too, but for the length up to which it keeps tables of places.
void expect_configs_as(const fs::path& expected, const fs::path& folder) {
  for (const std::string part : {"transformer", "vae", "text_encoder"}) {
    const auto theirs = nlohmann::json::parse(read_file(expected / part / "config.json")),
               ours = nlohmann::json::parse(read_file(folder / part / "config.json"));
    size_t num_compared = 0;
    for (const auto& [key, value] : ours.items()) {
      if (key == "rope_max_seq_len") continue;
      ASSERT_TRUE(theirs.contains(key)) << part << ": " << key;
      EXPECT_EQ(value, theirs[key]) << part << ": " << key;
      ++num_compared;
    }
    EXPECT_GE(num_compared, 15u) << part;
  }
}

TEST_F(WanFiles, OfTheOriginalFolderBecomeDiffusersWithoutAnother) {
  auto done = run_burnish("convert " + quoted(original_folder(at("whole"))) + " " + quoted(at("folder")));
  ASSERT_EQ(done.exit_code, 0) << done.output;
  expect_configs_as(kWan / "model", at("folder"));
  const auto index = nlohmann::json::parse(read_file(at("folder/model_index.json")));
  EXPECT_EQ(index["_class_name"], "WanPipeline");
  EXPECT_EQ(index["boundary_ratio"], nullptr);
  EXPECT_EQ(nlohmann::json::parse(read_file(at("folder/scheduler/scheduler_config.json")))["flow_shift"], 3);
  EXPECT_EQ(trained("folder_run", "--model " + quoted(at("folder")) + " "), trained("diffusers", wan_model()));
}

/// One file takes the vocabulary that lies beside, which ComfyUI looks for in it.
TEST_F(WanFiles, OfTheOriginalFolderBecomeOneFileThatIsWhole) {
  fs::create_directories(at("single"));
  auto done = run_burnish("convert " + quoted(original_folder(at("whole"))) + " " + quoted(at("single/wan.safetensors")));
  ASSERT_EQ(done.exit_code, 0) << done.output;
  fs::copy(kWanOriginal / "config.json", at("single/config.json"));
  EXPECT_EQ(trained("single_run", "--model " + quoted(at("single/wan.safetensors")) + " "),
            trained("original", "--model " + quoted(at("whole")) + " "));
}

namespace {

/// What is made of the time, and the tables that are added to it, by diffusers' names or the original ones.
bool is_of_time(const std::string& name) {
  return std::ranges::any_of(
      std::vector{"scale_shift_table", "time_embedder", "time_proj", "modulation", "time_embedding", "time_projection"},
      [&](const std::string& word) { return name.find(word) != name.npos; });
}

/// Expects fp32 there and `dtype` elsewhere.
void expect_time_in_fp32(const fs::path& file, c10::ScalarType dtype) {
  auto source = io::TensorSource::open({file});
  int64_t num_kept = 0;
  for (const auto& name : source.names()) {
    EXPECT_EQ(source.info(name).dtype, is_of_time(name) ? at::kFloat : dtype) << file << ": " << name;
    num_kept += is_of_time(name);
  }
  EXPECT_EQ(num_kept, 9) << "three tables, and weights and biases of three layers";
}

}  // namespace

TEST_F(WanFiles, KeepInFp32WhatIsComputedInFp32) {
  for (const std::string average : {"", "--ema_decay 0.5 "}) {
    auto outcome = run_burnish("train --model " + quoted(kWan / "model") + " --dtype bf16 " + golden_data() + average +
                               "--trainable_models dit --max_steps 2 --overwrite --learning_rate 1e-4 --output_path " + quoted(out()));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    const auto file = out() / "step-2.safetensors";
    expect_time_in_fp32(file, at::kBFloat16);
    auto table = io::TensorSource::open({file}).tensor("scale_shift_table");
    EXPECT_FALSE(at::equal(table, table.to(at::kBFloat16).to(at::kFloat))) << "training moves it by less than bf16 holds";
  }
  auto convert = [](const std::string& arguments) {
    auto outcome = run_burnish("convert " + arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  };
  convert(quoted(out() / "step-2.safetensors") + " " + quoted(at("half.safetensors")) + " --dtype fp16");
  expect_time_in_fp32(at("half.safetensors"), at::kHalf);
  auto lora = " --lora " + quoted(fs::path(golden_path("wan_lora")) / "comfyui.safetensors");
  convert(quoted(out() / "step-2.safetensors") + " " + quoted(at("merged.safetensors")) + " --dtype bf16" + lora);
  expect_time_in_fp32(at("merged.safetensors"), at::kBFloat16);
}

TEST_F(WanFiles, WithoutATokenizerBecomeDiffusersParts) {
  make_wan_original(at("whole"));
  auto done = run_burnish("convert " + quoted(at("whole")) + " " + quoted(at("folder")));
  ASSERT_EQ(done.exit_code, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("no whole pipeline"));
  EXPECT_FALSE(fs::exists(at("folder/model_index.json")));
}

namespace {

/// Both transformers, in diffusers' folder and in the original one.
class WanExpertFiles : public WanFiles {
 protected:
  WanExpertFiles() {
    make_wan_experts(at("diffusers_model"));
    auto index = nlohmann::json::parse(read_file(at("diffusers_model/model_index.json")));
    index["boundary_ratio"] = 0.875;  // as the original has it, which says none
    std::ofstream(at("diffusers_model/model_index.json")) << index.dump();
    original_folder(at("original_model"));
    fs::create_directories(at("original_model/high_noise_model"));
    for (const char* name : {kDit, "config.json"}) fs::rename(at("original_model") / name, at("original_model/high_noise_model") / name);
    copy_into(kWanExperts / "low_noise_model", at("original_model/low_noise_model"));
  }
};

}  // namespace

TEST_F(WanExpertFiles, OfEitherLayoutTrainAlike) {
  auto run = [&](const std::string& name) { return trained(name + "_run", "--model " + quoted(at(name)) + " "); };
  const auto expected = run("diffusers_model");
  EXPECT_EQ(run("original_model"), expected);
  EXPECT_NE(expected, trained("one", wan_model()));
}

/// A fine-tuned expert in a file of its own, which its name tells from the other.
TEST_F(WanExpertFiles, OfOneExpertStandForThatOfAFolder) {
  auto run = [&](const std::string& name, const std::string& models) { return trained(name, models); };
  io::NamedTensors tuned;
  for (const auto& [name, tensor] : tensors_of(kWanExperts / "low_noise_model" / kDit)) tuned.emplace_back(name, tensor * 1.5);
  fs::copy(at("diffusers_model"), at("expected"), fs::copy_options::recursive);
  io::save_safetensors(at("expected/transformer_2") / kDit, tuned);
  fs::create_directories(at("tuned"));
  fs::copy(kWanExperts / "low_noise_model/config.json", at("tuned/config.json"));
  for (const char* name : {"my.low_noise.safetensors", "mine.safetensors"}) io::save_safetensors(at("tuned") / name, tuned);
  const auto folder = "--model " + quoted(at("diffusers_model")) + " ",
             file = "--model " + quoted(at("tuned/my.low_noise.safetensors")) + " ";
  const auto expected = run("expected_run", "--model " + quoted(at("expected")) + " ");
  EXPECT_EQ(run("file_last", folder + file), expected);
  EXPECT_EQ(run("file_first", file + folder), expected);
  EXPECT_NE(run("folder_alone", folder), expected);
  refused(3, "train " + folder + "--model " + quoted(at("tuned/mine.safetensors")) + " --lora_rank 2 " + golden_data(),
          {"mine.safetensors", "do not say which is for much noise and which for little"});
}

TEST_F(WanExpertFiles, AreNotConvertedIntoOneFile) {
  refused(2, "convert " + quoted(at("diffusers_model")) + " " + quoted(at("one.safetensors")),
          {"one file cannot hold dit and dit_2", "or all into a folder"});
  EXPECT_FALSE(fs::exists(at("one.safetensors")));
}

TEST_F(WanExpertFiles, AreConvertedIntoDiffusersFolder) {
  auto done = run_burnish("convert " + quoted(at("original_model")) + " " + quoted(at("folder")) + " --config_from " +
                          quoted(at("diffusers_model")));
  ASSERT_EQ(done.exit_code, 0) << done.output;
  for (const std::string part : {"transformer", "transformer_2"}) {
    auto ours = io::TensorSource::open({at("diffusers_model") / part / kDit}), back = io::TensorSource::open({at("folder") / part / kDit});
    ASSERT_EQ(ours.names(), back.names()) << part;
    for (const auto& name : ours.names()) EXPECT_TRUE(at::equal(ours.tensor(name), back.tensor(name))) << part << ": " << name;
  }
}

TEST_F(WanExpertFiles, AreConvertedIntoDiffusersFolderWithoutAnother) {
  auto done = run_burnish("convert " + quoted(at("original_model")) + " " + quoted(at("folder")));
  ASSERT_EQ(done.exit_code, 0) << done.output;
  const auto index = nlohmann::json::parse(read_file(at("folder/model_index.json")));
  EXPECT_EQ(index["transformer_2"][1], "WanTransformer3DModel");
  EXPECT_EQ(index["boundary_ratio"], 0.875);
  for (const std::string part : {"transformer", "transformer_2"})
    EXPECT_EQ(nlohmann::json::parse(read_file(at("folder") / part / "config.json"))["num_attention_heads"], 2);
}

/// The file of one expert with the other's stretch of the noise.
TEST_F(WanExpertFiles, OfOneExpertRefuseTheOthersNoise) {
  auto model = [&](const std::string& expert) {
    return "--model " + quoted(at("original_model") / expert) + " --model " + quoted(at("original_model") / kText) + " --model " +
           quoted(at("original_model") / kVae) + " --tokenizer_path " + quoted(at("original_model/google/umt5-xxl")) + " ";
  };
  const std::string high = "--max_timestep_boundary 0.417 --min_timestep_boundary 0 ",
                    low = "--max_timestep_boundary 1 --min_timestep_boundary 0.417 ";
  trained("low", model("low_noise_model") + low);
  trained("high", model("high_noise_model") + high);
  for (const auto& contradiction : {model("low_noise_model") + high, model("high_noise_model") + low})
    refused(2, "train --dtype fp32 --lora_rank 2 --max_steps 4 --output_path " + quoted(out()) + " " + golden_data() + contradiction,
            {"lie between the shares", "in which the trained expert predicts", "other boundaries"});
}
