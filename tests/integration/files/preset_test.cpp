// Preset LoRAs: part of the frozen weights while a run trains, and of nothing that it writes.
#include <gmock/gmock.h>

#include "adapters/adapter_file.h"
#include "data/image.h"
#include "loras/merged.h"
#include "tests/golden.h"
#include "tests/integration/program.h"
#include "tests/places.h"
#include "train/options/train_options.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kPresetLora = "--learning_rate 1e-3 --lora_rank 2 --lora_target_modules to_q,to_v ";
const fs::path kPreset = kGolden / "lora.safetensors", kDora = kGolden / "dora.safetensors",
               kEncoder = kGolden / "encoder_lora.safetensors";

std::string preset(const fs::path& file, const std::string& strength = "1") {
  return option("preset_lora_path", file.string() + ":" + strength);
}

class Preset : public testing::Test {
 protected:
  Preset() { std::ofstream(folder / "prompts.txt") << "a red circle --s 3 --d 5\n"; }

  Outcome train(const std::string& options, const std::string& name, const std::string& model = golden_model()) {
    auto outcome = run_burnish("train " + model + golden_data() + options + option("output_path", folder / name));
    EXPECT_EQ(outcome.exit_code, 0) << options << "\n" << outcome.output;
    return outcome;
  }
  std::vector<double> losses(const std::string& name) const { return test::losses(folder / name); }
  /// The golden model with LoRAs in the weights of its transformer's file.
  std::string merged_model(const std::vector<loras::LoraFile>& files) {
    fs::copy(kGolden / "model", folder / "merged", fs::copy_options::recursive);
    models::ModelOptions options;
    options.dtype = at::kFloat;
    options.tokenizer_path = (kAssets / "tokenizer").string();
    options.tokenizer_2_path = (kAssets / "tokenizer_2").string();
    auto model = models::open_model(models::open_model_files({{(kGolden / "model").string()}, "", ""}), options);
    loras::merge(*model, files);
    model->components().load("dit");
    io::NamedTensors tensors;
    model->components().module("dit").visit_parameters([&](const std::string& path, at::Tensor& p) { tensors.emplace_back(path, p); });
    io::save_safetensors(folder / "merged/transformer/diffusion_pytorch_model.safetensors", tensors);
    auto text = golden_model();
    auto original = (kGolden / "model").string();
    return text.replace(text.find(original), original.size(), folder / "merged");
  }
  at::Tensor pixels(const fs::path& png) const { return data::decode_image(png).to(at::kFloat); }
  fs::path sample(const std::string& options, const std::string& name, const std::string& model = golden_model()) {
    auto outcome = run_burnish("sample " + model + "--prompt 'a red circle' --seed 5 --num_inference_steps 3 --height 48 --width 64 " +
                               options + option("output_path", folder / name));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return folder / name / "0000.png";
  }
  fs::path preview(const std::string& name, int step) const {
    return folder / name / ("samples/step-00000" + std::to_string(step) + "/00.png");
  }
  Scratch folder;
};

}  // namespace

TEST_F(Preset, LossesAreThoseOfABaseThatHasItInItsFiles) {
  auto presets = preset(kPreset, "0.5") + preset(kDora, "-0.25");
  auto merged = merged_model({{kPreset.string(), 0.5}, {kDora.string(), -0.25}});
  int number = 0;
  for (const std::string options : {"", "--lora_type dora ", "--fp8_models dit ", "--fp8_models dit --lora_type dora ", "--dtype bf16 ",
                                    "--trainable_models dit ", "--trainable_models dit --trained_weights fp8 "}) {
    auto name = std::to_string(number++);
    train(kPresetLora + options + presets + "--max_steps 3 ", name);
    train(kPresetLora + options + "--max_steps 3 ", name + "merged", merged);
    train(kPresetLora + options + "--max_steps 3 ", name + "plain");
    EXPECT_EQ(losses(name), losses(name + "merged")) << options;
    EXPECT_NE(losses(name), losses(name + "plain")) << options;
  }
}

TEST_F(Preset, WhatIsComputedOnceOrAheadHasItsKey) {
  auto cached = kPresetLora + "--max_steps 2 " + option("cache_path", folder / "cache");
  auto with = preset(kEncoder);
  train(cached, "plain");
  auto first = train(cached + with, "with").output;
  EXPECT_THAT(first, HasSubstr("encode_prompt_clip: 4 of 4 results to compute"));
  EXPECT_THAT(train(cached + with, "again").output, HasSubstr("encode_prompt_clip: 0 of 4 results to compute"));
  EXPECT_THAT(train(cached, "plain_again").output, HasSubstr("encode_prompt_clip: 0 of 4 results to compute"));
  train(kPresetLora + "--max_steps 2 " + with, "in_memory");
  EXPECT_EQ(losses("with"), losses("in_memory"));
  EXPECT_NE(losses("with"), losses("plain"));
  auto other = train(cached + preset(kEncoder, "0.5"), "other").output;
  EXPECT_THAT(other, HasSubstr("encode_prompt_clip: 4 of 4 results to compute"));
}

TEST_F(Preset, ACacheMadeWithoutItIsRefused) {
  auto cache = folder / "cache";
  train("--task sft:data_process " + option("cache_path", cache), "unused");
  auto from_cache = "train --overwrite " + golden_model() + kPresetLora + "--task sft:train --max_steps 1 " +
                    option("dataset_base_path", cache) + option("output_path", folder / "run");
  auto refused = run_burnish(from_cache + preset(kEncoder));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("other preset LoRAs in the text_encoder"));
  EXPECT_EQ(run_burnish(from_cache + preset(kPreset)).exit_code, 0) << "it is the denoiser's alone";
  EXPECT_EQ(run_burnish(from_cache + preset(kEncoder) + "--preset_lora_model dit ").exit_code, 0);
}

TEST_F(Preset, AnImportedCacheIsTakenWithPresetsOfTheDenoiserAlone) {
  auto folder_of = [&](const std::string& name) { return option("output_path", folder / name); };
  auto import = "train " + golden_model() + kPresetLora + "--max_steps 1 " +
                option("import_diffsynth", fs::path(test::kCheckout) / "tests/golden/diffsynth_cache/0");
  EXPECT_EQ(run_burnish(import + preset(kPreset) + folder_of("dit")).exit_code, 0);
  auto refused = run_burnish(import + preset(kEncoder) + folder_of("encoder"));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("the cache was imported"));
}

TEST_F(Preset, AStateIsGoneOnWithUnderTheSamePresets) {
  auto steps = [&](int count) { return kPresetLora + "--max_steps " + std::to_string(count) + " "; };
  train(steps(4) + preset(kPreset), "whole");
  train(steps(2) + preset(kPreset), "halves");
  auto other = run_burnish("train " + golden_model() + golden_data() + steps(4) + preset(kPreset, "0.5") + "--resume " +
                           option("output_path", folder / "halves"));
  EXPECT_EQ(other.exit_code, 3) << other.output;
  EXPECT_THAT(other.output, HasSubstr("at 0.5 in dit"));
  train(steps(4) + preset(kPreset) + "--resume ", "halves");
  EXPECT_EQ(read_file(folder / "whole/step-4.safetensors"), read_file(folder / "halves/step-4.safetensors"));
}

TEST_F(Preset, TheFileHoldsWhatWasTrainedAlone) {
  auto options = "--lora_rank 3 --lora_target_modules transformer_blocks.0.attn.to_v --max_steps 1 ";
  train(options + preset(kPreset), "run");
  auto file = io::SafetensorsFile::open(folder / "run/step-1.safetensors");
  for (const auto& [name, info] : file->tensors()) EXPECT_THAT(name, HasSubstr("transformer_blocks.0.attn.to_v")) << name;
  EXPECT_FALSE(file->tensors().empty());
}

TEST_F(Preset, PreviewsAreDrawnWithoutItUnlessAskedFor) {
  auto previews = option("preview_prompts", folder / "prompts.txt");
  auto distance = [&](const fs::path& a, const fs::path& b) { return (pixels(a) - pixels(b)).abs().max().item<double>(); };
  for (const std::string model_options : {"", "--fp8_models dit "}) {
    auto with = kPresetLora + "--overwrite --max_steps 2 " + preset(kDora) + preset(kEncoder, "0.5") + model_options;
    train(with, "blind");
    train(with + previews, "without");
    train(with + previews + "--preview_with_presets ", "with");
    EXPECT_EQ(losses("blind"), losses("without")) << "the presets come back bit for bit";
    EXPECT_EQ(read_file(folder / "blind/step-2.safetensors"), read_file(folder / "without/step-2.safetensors"));
    EXPECT_EQ(losses("blind"), losses("with"));

    auto presets = option("lora", kDora) + option("lora", kEncoder.string() + ":0.5");
    EXPECT_EQ(distance(preview("without", 0), sample(model_options, "plain")), 0) << "nothing was trained yet";
    EXPECT_EQ(distance(preview("with", 0), sample(model_options + presets, "presets")), 0);
    EXPECT_GT(distance(preview("with", 0), preview("without", 0)), 2);
    if (!model_options.empty()) continue;  // what sample merges is rounded to codes, what trains is not
    // One of 255: the adapter's product is added to the base's here, and in its weight there.
    auto trained = option("lora", folder / "without/step-2.safetensors");
    EXPECT_LE(distance(preview("without", 2), sample(trained, "new")), 1);
    EXPECT_LE(distance(preview("with", 2), sample(presets + trained, "pair")), 1);
  }
}

TEST_F(Preset, ADoraOnTopOfItIsDrawnAsItsFileIs) {
  auto with = kPresetLora + "--lora_type dora --max_steps 2 " + preset(kPreset) + option("preview_prompts", folder / "prompts.txt");
  train(with, "without");
  train(with + "--preview_with_presets ", "with");
  EXPECT_EQ(losses("without"), losses("with"));
  auto trained = option("lora", folder / "without/step-2.safetensors");
  auto distance = [&](const fs::path& a, const fs::path& b) { return (pixels(a) - pixels(b)).abs().max().item<double>(); };
  EXPECT_LE(distance(preview("without", 2), sample(trained, "new")), 1);
  EXPECT_LE(distance(preview("with", 2), sample(trained, "pair", merged_model({{kPreset.string(), 1}}))), 1);
}

TEST_F(Preset, TrainingGoesOnWithALoraOnTopOfIt) {
  auto start = "--learning_rate 1e-3 --max_steps 2 " + option("lora_checkpoint", kDora);
  train(start + preset(kPreset), "preset");
  train(start, "merged", merged_model({{kPreset.string(), 1}}));
  train(start, "plain");
  EXPECT_EQ(losses("preset"), losses("merged"));
  EXPECT_NE(losses("preset"), losses("plain"));
}

TEST_F(Preset, AStrengthBelowZeroTakesALoraOut) {
  auto merged = merged_model({{kPreset.string(), 1}});
  auto back = sample(option("lora", kPreset.string() + ":-1"), "back", merged);
  auto plain = sample("", "plain"), there = sample("", "there", merged);
  EXPECT_LE((pixels(back) - pixels(plain)).abs().max().item<double>(), 1);
  EXPECT_GT((pixels(there) - pixels(plain)).abs().max().item<double>(), 2);
}

TEST_F(Preset, WhatCannotBeIsRefused) {
  auto refused = [&](const std::string& options, const std::string& sentence) {
    auto outcome = run_burnish("train " + golden_model() + golden_data() + options + option("output_path", folder / "run"));
    EXPECT_EQ(outcome.exit_code, 2) << options << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(sentence));
  };
  refused("--preset_lora_model dit ", "name them in preset_lora_path");
  refused("--preview_with_presets --preview_prompts x ", "name them in preset_lora_path");
  refused("--preview_with_presets " + preset(kPreset), "name a file in preview_prompts");
  refused("--preset_lora_model unet " + preset(kPreset), "there are text_encoder");
  refused("--preset_lora_model text_encoder " + preset(kPreset), "none of their files adapts it");
  refused("--init random --trainable_models dit " + preset(kPreset), "take one out");
  refused(preset(kPreset, "inf"), "must be a finite number");
  refused("--base_weights_multiplier 0.5 ", "--base_weights FILE:0.8");
}
