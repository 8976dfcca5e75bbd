// `burnish convert` and `burnish inspect` with two files, as a user runs them.
#include <gmock/gmock.h>

#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

Outcome convert(const std::string& arguments) {
  auto outcome = run_burnish("convert " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  return outcome;
}

at::Tensor latents(const std::string& model, const Scratch& folder, const std::string& more = "") {
  auto outcome =
      run_burnish("sample " + model + more + " --dtype fp32 --height 48 --width 64 --num_inference_steps 2 --prompt cat --save_latents " +
                  quoted(folder / "latents.safetensors") + " --output_path " + quoted(folder / "pictures"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents").clone();
}

const std::string kLora = "'" + (kGolden / "lora.safetensors").string() + "'";
const std::string kModel = "'" + (kGolden / "model").string() + "'";
const std::string kTokenizers =
    " --tokenizer_path '" + (kAssets / "tokenizer").string() + "' --tokenizer_2_path '" + (kAssets / "tokenizer_2").string() + "'";

}  // namespace

TEST(Convert, WhatIsWrittenDrawsTheSamePictures) {
  Scratch folder;
  auto expected = latents("--model " + kModel + kTokenizers, folder);
  auto single = quoted(folder / "single.safetensors"), back = quoted(folder / "back");
  EXPECT_THAT(convert(kModel + " " + single).output, HasSubstr("single.safetensors: FLUX.1"));
  convert(single + " " + back + " --config_from " + kModel);
  EXPECT_TRUE(at::equal(latents("--model " + back + kTokenizers, folder), expected));
  // The single file has no configs: sizes that shapes do not tell are those of the published models.
  auto adapted = latents("--model " + kModel + kTokenizers, folder, " --lora " + kLora);
  auto kohya = quoted(folder / "kohya.safetensors"), merged = quoted(folder / "merged");
  convert(kLora + " " + kohya + " --lora_format kohya --model " + kModel);
  EXPECT_LE((latents("--model " + kModel + kTokenizers, folder, " --lora " + kohya) - adapted).abs().max().item<double>(), tolerance(1e-4));
  convert(kModel + " " + merged + " --dtype fp32 --lora " + kohya);
  EXPECT_LE((latents("--model " + merged + kTokenizers, folder) - adapted).abs().max().item<double>(), tolerance(1e-4));
  EXPECT_GT((adapted - expected).abs().max().item<double>(), 1e-2);
}

TEST(Convert, ComparesTwoFiles) {
  Scratch folder;
  auto kohya = quoted(folder / "kohya.safetensors"), half = quoted(folder / "half.safetensors");
  convert(kLora + " " + kohya + " --lora_format kohya --model " + kModel);
  convert(kohya + " " + half + " --lora_format kohya --dtype fp16 --model " + kModel);
  auto equal = run_burnish("inspect " + kohya + " " + kohya);
  EXPECT_EQ(equal.exit_code, 0) << equal.output;
  auto differ = run_burnish("inspect " + kohya + " " + half + " --first 2");
  EXPECT_EQ(differ.exit_code, 3) << differ.output;
  for (const char* words : {"layers by what is added to them: 0 equal", "relative", "  ...\n", "[inspect] ", " differ\n"})
    EXPECT_THAT(differ.output, HasSubstr(words));
}

TEST(Inspect, SaysWhatFilesAreAsJson) {
  Scratch folder;
  const auto kohya = quoted(folder / "kohya.safetensors");
  convert(kLora + " " + kohya + " --lora_format kohya --model " + kModel);
  folder.write("broken.safetensors", "no header");
  auto outcome = run_burnish("inspect " + kohya + " " + quoted(folder / "broken.safetensors") + " " + kModel + " --json");
  EXPECT_EQ(outcome.exit_code, 3) << "one of them cannot be read";
  const auto begin = outcome.output.find("[\n"), end = outcome.output.rfind("]\n");  // beside the error
  ASSERT_LT(begin, end) << outcome.output;
  const auto reports = nlohmann::json::parse(outcome.output.substr(begin, end + 1 - begin));
  EXPECT_EQ(reports[0]["what"], "adapter");
  EXPECT_EQ(reports[0]["names"], "kohya");
  EXPECT_EQ(reports[0]["read_by"], "sd-scripts, ComfyUI, diffusers");
  EXPECT_THAT(reports[0]["adapter"].begin().key(), HasSubstr("lora of rank "));
  EXPECT_THAT(reports[1]["problem"].get<std::string>(), HasSubstr("broken.safetensors"));
  EXPECT_TRUE(std::ranges::any_of(reports, [](const auto& report) { return report.value("what", "").find("FLUX.1") == 0; })) << reports;
  EXPECT_GT(reports[2]["bytes"], 1000);
  auto text = run_burnish("inspect " + kohya);
  EXPECT_THAT(text.output, HasSubstr("  names: kohya, read by sd-scripts, ComfyUI, diffusers\n"));
}

using BadConversion = BadInput;

TEST_F(BadConversion, IsRefusedInASentence) {
  auto to = " " + quoted(out()), to_file = to + ".safetensors";
  refused(2, "convert " + kLora, {"name what is read and what is written"});
  refused(2, "convert " + kLora + " " + kModel, {"is there already", "--overwrite"});
  refused(2, "convert " + kLora + to_file + " --lora_format koya", {"did you mean \"kohya\"?"});
  refused(2, "convert " + kLora + to + " --lora_energy 2", {"lora_energy must be at most 1, not 2"});
  refused(2, "convert " + kLora + to + " --weight_format fp8", {"--weight_format has no meaning where a LoRA is written"});
  refused(2, "convert " + kModel + to + ".safetensors --config_from " + kModel, {"--config_from is for folders"});
  refused(2, "convert " + kLora + to + ".bin --model " + kModel, {"a LoRA is written into one file; name it ", "out.safetensors"});
  refused(2, "convert " + kLora + to_file + " --lora_format peft --model " + kModel, {"--lora_format peft writes a folder"});
  refused(2, "convert " + kModel + " " + kLora + to_file,
          {"is a LoRA, and what is read with a model are its parts", "merge it with --lora"});
  refused(3, "convert " + kLora + to_file, {"do not tell which model it is for", "give --model with the model's files"});
  refused(3, "convert " + kLora + to_file + " --model sdxl", {"is a LoRA for another model"});
  refused(3, "convert " + kModel + " " + kModel + "-out.safetensors --base '" + golden_path("sdxl_pipeline/model") + "' --lora_rank 2",
          {"is the difference between two states of one model"});
}
