// Runs of the program over weights that are stored in fewer bits, with every adapter.
#include "adapters/adapter_file.h"
#include "io/checkpoint_files.h"
#include "tests/golden.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const std::string kModel = (kGolden / "model").string();
const std::string kRun = "train " + golden_model() + golden_data() +
                         "--lora_rank 4 --lora_target_modules to_q,to_v,proj_mlp --max_steps 40 --learning_rate 5e-3 ";

std::string replay() { return "--replay '" + (kGolden / "replay.safetensors").string() + "' "; }

/// A copy of the model whose transformer went through `change`, tensor by tensor.
void copy_model(const fs::path& to, const std::function<void(const std::string&, const at::Tensor&, io::NamedTensors&)>& change) {
  fs::copy(kGolden / "model", to, fs::copy_options::recursive);
  auto source = io::TensorSource::open_folder(kGolden / "model/transformer", {"diffusion_pytorch_model"});
  io::NamedTensors changed;
  for (const auto& name : source.names()) change(name, source.tensor(name), changed);
  io::save_safetensors(to / "transformer/diffusion_pytorch_model.safetensors", changed);
}

std::string with_model(std::string arguments, const fs::path& model) {
  auto at = arguments.find(kModel);
  return arguments.replace(at, kModel.size(), model.string());
}

}  // namespace

class OverFp8 : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Adapters, OverFp8,
                         testing::Values("--lora_type dora --dtype bf16", "--lora_type dora --dtype bf16 --use_gradient_checkpointing",
                                         "--lora_type dora --dora_norm input --use_gradient_checkpointing", "--lora_type loha",
                                         "--lora_type lokr --fp8_compute", "--weight_format int8 --int8_compute --dtype bf16",
                                         "--lora_type dora --weight_format int8 --int8_compute --use_gradient_checkpointing",
                                         "--lora_type loha --weight_format int8 --int8_compute",
                                         "--lora_type lokr --weight_format int8_convrot --int8_compute",
                                         "--lora_type oft --weight_format int8 --int8_compute --dtype bf16",
                                         "--weight_format nf4 --lora_dropout 0.1", "--lora_type oft --lora_dropout 0.1 --dtype bf16",
                                         "--lora_type oft --use_gradient_checkpointing", "--lora_type full --use_gradient_checkpointing"));

TEST_P(OverFp8, LossFallsAndTheFileIsReadAgain) {
  Scratch folder;
  auto outcome = run_burnish(kRun + "--fp8_models '" + kModel + ":transformer' " + GetParam() + " --validation_metadata_path '" +
                             (kGolden / "pictures/metadata.csv").string() + "' --output_path '" + (folder / "run").string() + "'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find(" layers, "), std::string::npos) << outcome.output;
  // On fixed noise and timesteps: the loss of single steps depends on what they draw.
  auto held = nlohmann::json::parse(read_file(folder / "run/validation.json"));
  EXPECT_LT(held["after"].get<double>(), held["before"].get<double>()) << outcome.output;
  auto again = run_burnish(kRun + "--max_steps 1 --lora_checkpoint '" + (folder / "run/step-40.safetensors").string() +
                           "' --output_path '" + (folder / "again").string() + "'");
  EXPECT_EQ(again.exit_code, 0) << again.output;
}

TEST(Fp8Models, MayBeSpelledAsTheModelsAre) {
  for (const auto& entry : {kModel, kModel + "/", kModel + ":transformer", kModel + "/transformer", kModel + ":dit", std::string("dit"),
                            kModel + ":text_encoder_2," + kModel + ":transformer"}) {
    Scratch folder;
    auto outcome = run_burnish(kRun + "--max_steps 1 --fp8_models '" + entry + "' --output_path '" + (folder / "run").string() + "'");
    EXPECT_EQ(outcome.exit_code, 0) << entry << outcome.output;
    EXPECT_NE(outcome.output.find("FP8 (E4M3) with a scale per output row"), std::string::npos) << entry << outcome.output;
  }
}

TEST(Fp8Models, WhatCannotBeIsRefusedBeforeLoading) {
  Scratch folder;
  auto refused = [&](const std::string& options, const std::string& text) {
    auto outcome = run_burnish(kRun + options + " --output_path '" + (folder / "run").string() + "'");
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
    if (fs::exists(folder / "run")) expect_only_status(folder / "run", outcome);
    fs::remove_all(folder / "run");
  };
  refused("--trainable_models dit --fp8_models '" + kModel + "'", "whose own weights train");
  refused("--fp8_models elsewhere", "elsewhere, which is no model of this run");
  refused("--fp8_models dit --weight_format fp7", "weight_format must be one of");
  refused("--weight_format nf4", "none is named");
  refused("--fp8_compute", "fp8_compute multiplies FP8 weights");
  refused("--fp8_models dit --weight_format nf4 --fp8_compute", "choose weight_format fp8");
  refused("--int8_compute", "int8_compute multiplies INT8 weights");
  refused("--fp8_models dit --int8_compute", "choose weight_format int8");
  refused("--fp8_models dit --high_precision_layers '('", "regular expression");
  refused("--lora_type dorra", "lora_type must be one of");
}

TEST(Fp8Files, PlainAndScaledAreTakenAsTheyAre) {
  Scratch folder;
  auto is_matrix = [](const std::string& name, const at::Tensor& t) {
    return t.dim() == 2 && name.ends_with(".weight") && name.find("transformer_blocks.") != name.npos;
  };
  // The same numbers three times: as fp32 values, as FP8 codes, and as codes with a scale of one half and doubled codes.
  auto values = [](const at::Tensor& t) { return t.to(at::kFloat8_e4m3fn); };
  copy_model(folder / "values", [&](const std::string& name, const at::Tensor& t, io::NamedTensors& out) {
    out.emplace_back(name, is_matrix(name, t) ? values(t).to(at::kFloat) : t);
  });
  copy_model(folder / "plain", [&](const std::string& name, const at::Tensor& t, io::NamedTensors& out) {
    out.emplace_back(name, is_matrix(name, t) ? values(t) : t);
  });
  copy_model(folder / "scaled", [&](const std::string& name, const at::Tensor& t, io::NamedTensors& out) {
    if (!is_matrix(name, t)) return out.emplace_back(name, t), void();
    out.emplace_back(name, (values(t).to(at::kFloat) * 2).to(at::kFloat8_e4m3fn));
    auto layer = name.substr(0, name.size() - 7);
    out.emplace_back(layer + ".scale_weight", at::full({}, 0.5, at::kFloat));
    out.emplace_back(layer + ".scale_input", at::full({}, 1.0, at::kFloat));
  });
  std::map<std::string, std::vector<double>> found;
  for (const char* kind : {"values", "plain", "scaled"}) {
    auto outcome = run_burnish(with_model(kRun, folder / kind) + "--max_steps 3 " + replay() + "--output_path '" +
                               (folder / "run" / kind).string() + "'");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(outcome.output.find("in FP8 (E4M3) as in the file") != std::string::npos, std::string(kind) != "values") << outcome.output;
    found[kind] = losses(folder / "run" / kind);
  }
  for (const char* kind : {"plain", "scaled"}) {
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[kind][i], found["values"][i], tolerance(1e-5) * found["values"][i]) << kind << i;
  }
  // Trained as a whole, an FP8 file becomes parameters.
  auto whole = run_burnish("train " + with_model(golden_model(), folder / "scaled") + golden_data() +
                           "--trainable_models dit --max_steps 1 " + replay() + "--output_path '" + (folder / "whole").string() + "'");
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_NEAR(losses(folder / "whole")[0], found["values"][0], tolerance(1e-5) * found["values"][0]);
}

TEST(Fp8Files, DamagedWeightsAreNamed) {
  Scratch folder;
  const std::string victim = "transformer_blocks.0.attn.to_k.weight";
  copy_model(folder / "nan", [&](const std::string& name, const at::Tensor& t, io::NamedTensors& out) {
    auto changed = t.clone();
    if (name == victim) changed.view({-1})[7] = std::nan("");
    out.emplace_back(name, changed);
  });
  copy_model(folder / "large", [&](const std::string& name, const at::Tensor& t, io::NamedTensors& out) {
    auto changed = t.clone();
    if (name == victim) changed.view({-1})[7] = 500;
    out.emplace_back(name, changed);
  });
  auto fails = [&](const std::string& model, const std::string& options) {
    auto outcome = run_burnish(with_model(kRun, folder / model) + "--fp8_models dit " + options + " --output_path '" +
                               (folder / "run").string() + "'");
    EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
    EXPECT_NE(outcome.output.find(victim), std::string::npos) << outcome.output;
  };
  fails("nan", "");
  fails("large", "--weight_format fp8_plain");
}

TEST(Sample, DrawsWithStoredWeightsAndMergesAnAdapter) {
  Scratch folder;
  auto trained = run_burnish(kRun + "--max_steps 2 --lora_type dora --fp8_models dit --output_path '" + (folder / "run").string() + "'");
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  auto drawn = run_burnish("sample " + golden_model() + "--prompt tree --height 48 --width 64 --num_inference_steps 2 --fp8_models '" +
                           kModel + "' --lora '" + (folder / "run/step-2.safetensors").string() + ":0.8' --output_path '" +
                           (folder / "pictures").string() + "'");
  EXPECT_EQ(drawn.exit_code, 0) << drawn.output;
  EXPECT_TRUE(fs::exists(folder / "pictures/0000.png"));
}
