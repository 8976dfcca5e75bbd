// Runs of the program that train whole models in FP8 codes.
#include "tests/integration/program.h"
#include "tests/integration/refused.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;

namespace {

std::string quote_of(const fs::path& path) { return "'" + path.string() + "' "; }

const std::string kHeldOut = "--validation_metadata_path " + quote_of(kGolden / "pictures/metadata.csv");
const std::string kFp8 = "--trained_weights fp8 --learning_rate 1e-3 ";

struct HeldOut {
  double before, after;
};
HeldOut held_out(const fs::path& run) {
  auto held = nlohmann::json::parse(read_file(run / "validation.json"));
  return {held["before"].get<double>(), held["after"].get<double>()};
}

/// A copy of the model's folder with a part's weights from a run.
fs::path with_weights(const fs::path& model, const fs::path& to, const fs::path& trained, const std::string& place) {
  fs::copy(model, to, fs::copy_options::recursive);
  fs::copy_file(trained, to / place, fs::copy_options::overwrite_existing);
  return to;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  auto at = text.find(from);
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

struct Case {
  std::string name, options;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

}  // namespace

class FluxInFp8 : public testing::TestWithParam<Case> {};

TEST_P(FluxInFp8, LossFallsAndTheFileHoldsTheVeryNumbers) {
  Scratch folder;
  auto options = "train " + replaced(golden_model(), "--dtype fp32", "--dtype bf16") + golden_data() + kHeldOut + kFp8 + GetParam().options;
  auto outcome = run_burnish(options + "--max_steps 40 --output_path " + quote_of(folder / "run"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("trained in FP8 (E4M3)"), std::string::npos) << outcome.output;
  auto held = held_out(folder / "run");
  EXPECT_LT(held.after, 0.9 * held.before);
  // The bf16 file, read again to be trained in FP8, is where the run ended.
  auto model = with_weights(kGolden / "model", folder / "model", folder / "run/step-40.safetensors",
                            "transformer/diffusion_pytorch_model.safetensors");
  auto again = run_burnish(replaced(options, (kGolden / "model").string(), model.string()) + "--max_steps 1 --output_path " +
                           quote_of(folder / "again"));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_NEAR(held_out(folder / "again").before, held.after, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Of, FluxInFp8,
    testing::Values(Case{"whole", "--trainable_models dit "},
                    Case{"checkpointed_in_batches",
                         "--trainable_models dit --use_gradient_checkpointing --gradient_accumulation_steps 2 --max_grad_norm 1 "},
                    Case{"fp8_compute", "--trainable_models dit --fp8_compute "},
                    Case{"every_layer", "--trainable_models dit --high_precision_layers '' "},
                    Case{"fp32_beside", "--trainable_models dit --dtype fp32 "}),
    [](const auto& info) { return info.param.name; });

class FamilyInFp8 : public testing::TestWithParam<SmallFamily> {};

TEST_P(FamilyInFp8, LossFallsAndItsFileIsReadAgain) {
  Scratch folder;
  const auto& family = GetParam();
  auto options = "train " + replaced(family.model(), "--dtype fp32", "--dtype bf16") + family.data() + kHeldOut + kFp8 +
                 (family.keeps_time_in_fp32 ? "--save_dtype fp32 " : "") + "--trainable_models " + family.denoiser() + " ";
  auto outcome = run_burnish(options + "--max_steps 40 --output_path " + quote_of(folder / "run"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("trained in FP8 (E4M3)"), std::string::npos) << outcome.output;
  auto held = held_out(folder / "run");
  EXPECT_LT(held.after, 0.95 * held.before);
  auto original = family.folder().string();
  auto model = with_weights(original, folder / "model", folder / "run/step-40.safetensors",
                            family.parts[0] + "/diffusion_pytorch_model.safetensors");
  auto again = run_burnish(replaced(options, original, model.string()) + "--max_steps 1 --output_path " + quote_of(folder / "again"));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_NEAR(held_out(folder / "again").before, held.after, 1e-9);
}

// What is held out are pictures, of which no frame is left where the first is given.
INSTANTIATE_TEST_SUITE_P(Of, FamilyInFp8,
                         testing::ValuesIn(small_families([](const auto& family) { return family.name != "longcat_video_first"; })),
                         [](const auto& info) { return info.param.name; });

TEST(TrainedInFp8, ComponentsPartsAndModelsFromScratch) {
  Scratch folder;
  auto run = [&](const std::string& options, const std::string& name) {
    auto outcome =
        run_burnish("train " + golden_model() + golden_data() + kFp8 + options + "--max_steps 3 --output_path " + quote_of(folder / name));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  };
  auto several = run("--trainable_models dit,text_encoder ", "several");
  auto first = several.find("trained in FP8"), second = several.find("trained in FP8", first + 1);
  EXPECT_TRUE(first != several.npos && second != several.npos) << several;
  EXPECT_TRUE(fs::exists(folder / "several/step-3.text_encoder.safetensors"));
  // Of a part, the layers beside it are held as before.
  auto part = run("--trainable_models dit.single_transformer_blocks ", "part");
  EXPECT_NE(part.find("trained in FP8"), part.npos) << part;
  auto state = io::SafetensorsFile::open(folder / "part/state/state.safetensors");
  int num_codes = 0;
  for (const auto& [name, info] : state->tensors()) {
    if (!name.ends_with(".codes")) continue;
    ++num_codes;
    EXPECT_EQ(info.dtype, at::kByte);
    EXPECT_TRUE(name.starts_with("parameter.dit.single_transformer_blocks.")) << name;
  }
  EXPECT_GT(num_codes, 0);
  run("--trainable_models dit --init random ", "scratch");
  auto scratch = io::SafetensorsFile::open(folder / "scratch/state/state.safetensors");
  num_codes = 0;
  for (const auto& [name, info] : scratch->tensors()) num_codes += name.ends_with(".codes");
  EXPECT_GT(num_codes, 10);
}

TEST(TrainedInFp8, IsRefusedWithoutWeightsThatTrain) {
  Scratch folder;
  auto refused = [&](const std::string& options, const std::string& text) {
    auto outcome = run_burnish("train " + golden_model() + golden_data() + options + "--output_path " + quote_of(folder / "run"));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
    if (fs::exists(folder / "run")) expect_only_status(folder / "run", outcome);
    fs::remove_all(folder / "run");
  };
  refused("--trained_weights fp8 ", "name trainable_models");
  refused("--trained_weights fp9 --trainable_models dit ", "trained_weights must be one of");
  refused("--trained_weights fp8 --trainable_models dit --fp8_models dit ", "--trained_weights fp8");
}
