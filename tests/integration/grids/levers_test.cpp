// What saves memory changes no number: losses and files of runs with it beside those of runs without.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/flux_in_fp32.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan_experts.h"
#include "tests/places.h"
#include "tests/skeleton_model.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLora = "--lora_rank 4 ", kDora = "--lora_type dora --lora_rank 4 ";

/// A small model of a family, with its data.
struct Family {
  std::string name, denoiser, program = test::kProgram;
};
void PrintTo(const Family& f, std::ostream* out) { *out << f.name; }

/// That of golden_model() in `folder`, its transformer in fp32.
std::string golden_model_in_fp32(const fs::path& folder) {
  copy_flux_in_fp32(folder);
  return "--model " + quoted(folder) + " --tokenizer_path " + quoted(kAssets / "tokenizer") + " --tokenizer_2_path " +
         quoted(kAssets / "tokenizer_2") + " --dtype fp32 ";
}

std::string model_and_data(const Family& family, const fs::path& folder) {
  if (family.name == "flux_in_fp32") return golden_model_in_fp32(folder / "model") + golden_data();
  if (family.name == "wan_i2v") return wan_from_frame("i2v") + wan_clips();
  if (family.name == "wan_ti2v") return wan_from_frame("ti2v") + wan_clips(32);
  if (family.name == "wan_experts") {
    make_wan_experts(folder / "model");
    return wan_model(folder / "model") + wan_clips();
  }
  // A part of what captions are filled up to.
  static const std::map<std::string, std::string> kFewerTokens{{"flux2", "--max_sequence_length 48 "},
                                                               {"flux2_dev", "--max_sequence_length 180 "}};
  const auto fewer = kFewerTokens.find(family.name);
  const auto more = fewer == kFewerTokens.end() ? std::string() : fewer->second;
  if (family.name != "skeleton") return small_family(family.name).model() + small_family(family.name).data() + more;
  save_skeleton(folder / "skeleton.safetensors");
  return "--model " + quoted(folder / "skeleton.safetensors") + " --dtype fp32 " + golden_data();
}

/// Runs of one model, all from one cache.
class Runs {
 public:
  Runs(Family family, std::string trained) : family_(std::move(family)), trained_(std::move(trained)) {
    model_ = model_and_data(family_, folder_.path());
  }

  /// Losses, gradient norms, and the bytes of what was trained.
  std::string run(const std::string& name, const std::string& levers) const {
    auto outcome =
        run_burnish("train " + model_ + trained_ + "--learning_rate 1e-2 --batch_size 2 --num_threads 1 --plan off --cache_path " +
                        quoted(folder_ / "cache") + " --output_path " + quoted(folder_ / name) + " --max_steps 3 " + levers,
                    "BURNISH_LOG=error", family_.program);
    EXPECT_EQ(outcome.exit_code, 0) << levers << outcome.output;
    std::string text;
    for (auto& line : read_log(folder_ / name)) text += nlohmann::json{line["loss"], line["grad_norm"]}.dump() + "\n";
    for (const auto& file : files_below(folder_ / name)) {
      if (file.starts_with("step-") && file.ends_with(".safetensors")) text += read_file(folder_ / name / file);
    }
    return text;
  }

  /// Three fifths of what forward leaves for backward where nothing is computed again.
  std::string budget() const {
    auto outcome = run_burnish("plan " + model_ + trained_ + "--batch_size 2 --num_threads 1 --cache_path " + quoted(folder_ / "cache") +
                                   " --max_steps 3 --activation_budget 100GiB --json",
                               "BURNISH_LOG=error", family_.program);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    auto left = nlohmann::json::parse(outcome.output)["left_for_backward"].get<double>();
    return fmt::format("--activation_budget {:.5f}MiB ", 0.6 * left / 0x1p20);
  }

 private:
  Scratch folder_;
  Family family_;
  std::string trained_, model_;
};

const Family kFlux{"flux", "dit"}, kFluxInFp32{"flux_in_fp32", "dit"}, kSdxl{"sdxl", "unet"}, kQwen{"qwen_image", "dit"},
    kOfSkeleton{"skeleton", "dit", test::kSkeleton}, kWanClip{"wan", "dit"}, kWanTi2v{"wan_ti2v", "dit"}, kWanI2v{"wan_i2v", "dit"},
    kWanBoth{"wan_experts", "dit,dit_2"};

/// Small models whose layers run once in a step: gradients of others are sums, which recompute makes in another order.
std::vector<SmallFamily> run_once() {
  return small_families([](const auto& family) { return !family.runs_parts_by_text; });
}

/// Every small model, and others of the same families that take another way.
std::vector<Family> checkpointed() {
  std::vector<Family> all{kOfSkeleton, kWanTi2v, kWanI2v, kWanBoth};
  for (const auto& family : run_once()) all.push_back({family.name, family.denoiser()});
  return all;
}

std::string in_full(const Family& family) { return "--trainable_models " + family.denoiser + " "; }

}  // namespace

class CheckpointedRun : public testing::TestWithParam<Family> {};

TEST_P(CheckpointedRun, OfEveryKindIsTheSameBitForBit) {
  for (const auto& trained : {kLora, kDora, in_full(GetParam()), kLora + "--gradient_accumulation_steps 2 "}) {
    Runs runs(GetParam(), trained);
    const auto plain = runs.run("plain", "");
    EXPECT_EQ(plain, runs.run("all", "--use_gradient_checkpointing")) << trained;
    EXPECT_EQ(plain, runs.run("second", "--use_gradient_checkpointing --gradient_checkpointing_interval 2")) << trained;
    EXPECT_EQ(plain, runs.run("budget", runs.budget())) << trained;
    EXPECT_EQ(plain, runs.run("host", "--use_gradient_checkpointing_offload --gradient_checkpointing_interval 2")) << trained;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CheckpointedRun, testing::ValuesIn(checkpointed()), [](const auto& info) { return info.param.name; });

/// What saves memory by itself, and no number of the run depends on.
const std::vector<std::string> kLevers{
    "--use_gradient_checkpointing ",         "--use_gradient_checkpointing --gradient_checkpointing_interval 2 ",
    "--use_gradient_checkpointing_offload ", "--fused_backward_pass ",
    "--enable_optimizer_cpu_offload ",       "--blocks_to_swap 2 "};

/// And of a model whose frozen weights are held as their file has them.
const std::string kOnDisk = "--blocks_to_swap 2 --blocks_on_disk 1 ";

struct LeverCase {
  Family family;
  std::string name, trained;
  bool can_read_from_disk = false;
};
void PrintTo(const LeverCase& c, std::ostream* out) { *out << c.family.name << " " << c.trained; }

const std::string kInterval = "--gradient_checkpointing_interval", kBudget = "--activation_budget";

class LeverPairs : public testing::TestWithParam<LeverCase> {};

TEST_P(LeverPairs, LeaveTheRunAsItIsBitForBit) {
  Runs runs(GetParam().family, GetParam().trained);
  auto levers = kLevers;
  levers.push_back(runs.budget());
  if (GetParam().can_read_from_disk) levers.push_back(kOnDisk);
  const auto plain = runs.run("plain", "");
  std::string all;
  for (size_t i = 0; i < levers.size(); ++i) {
    if (levers[i].find(kInterval) == std::string::npos) all += levers[i];
    for (size_t j = i; j < levers.size(); ++j) {
      const auto pair = i == j ? levers[i] : levers[i] + levers[j];
      if (pair.find(kInterval) != std::string::npos && pair.find(kBudget) != std::string::npos) continue;  // refused
      EXPECT_EQ(plain, runs.run(std::to_string(i) + std::to_string(j), pair)) << pair;
    }
  }
  EXPECT_EQ(plain, runs.run("all", all)) << all;
}

/// A DoRA over FP8 weights of every transformer.
std::vector<LeverCase> dora_over_fp8() {
  std::vector<LeverCase> all;
  for (const auto& family : run_once()) {
    if (family.is_transformer()) all.push_back({{family.name, "dit"}, family.name + "_dora_over_fp8", kDora + "--fp8_models dit "});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryFamily, LeverPairs, testing::ValuesIn(dora_over_fp8()), [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Of, LeverPairs,
                         testing::Values(LeverCase{kFluxInFp32, "flux_lora", kLora, true},
                                         LeverCase{kFlux, "flux_bf16_adamw8bit", in_full(kFlux) + "--dtype bf16 --optimizer adamw8bit "},
                                         LeverCase{kFlux, "flux_in_trained_fp8", in_full(kFlux) + "--dtype bf16 --trained_weights fp8 "},
                                         LeverCase{kFlux, "flux_schedule_free", in_full(kFlux) + "--optimizer adamw_schedulefree "},
                                         LeverCase{kFlux, "flux_bf16_remainder_ema",
                                                   in_full(kFlux) + "--dtype bf16 --trained_weights remainder --ema_decay 0.9 "},
                                         LeverCase{kSdxl, "sdxl_dora", kDora},
                                         LeverCase{kQwen, "qwen_image_dora", kDora + "--dtype bf16 ", true},
                                         LeverCase{kSdxl, "sdxl_adafactor", in_full(kSdxl) + "--optimizer adafactor "},
                                         LeverCase{kWanClip, "wan_dora", kDora + "--dtype bf16 ", true},
                                         LeverCase{kWanTi2v, "wan_ti2v_dora_over_fp8", kDora + "--fp8_models dit "},
                                         LeverCase{kWanBoth, "wan_experts_whole", in_full(kWanBoth)},
                                         LeverCase{kOfSkeleton, "skeleton_lora", kLora + "--lora_dropout 0.2 "}),
                         [](const auto& info) { return info.param.name; });

using Levers = BadInput;

TEST_F(Levers, AreTakenUpAndPutAwayInTheMiddleOfARun) {
  const std::string levers =
      "--fused_backward_pass --enable_optimizer_cpu_offload --use_gradient_checkpointing_offload --blocks_to_swap 2 ";
  for (const auto& [name, trained] : std::map<std::string, std::string>{{"dora", kDora}, {"full", in_full(kFlux)}}) {
    auto run = [&, trained = trained](const std::string& folder, const std::string& more) {
      auto outcome = run_burnish("train " + golden_model() + golden_data() + trained + "--learning_rate 1e-2 --plan off --output_path " +
                                 quoted(at(folder)) + " " + more);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    };
    run(name + " whole", "--max_steps 6");
    run(name + " parts", "--max_steps 2");
    run(name + " parts", "--max_steps 4 --resume " + levers);
    run(name + " parts", "--max_steps 6 --resume");
    EXPECT_EQ(read_file(at(name + " whole") / "step-6.safetensors"), read_file(at(name + " parts") / "step-6.safetensors")) << name;
  }
}

TEST_F(Levers, ThatDoNotGoTogetherAreRefused) {
  refused(2, train("--fused_backward_pass --gradient_accumulation_steps 2"),
          {"frees a gradient before the next batch could be added to it", "gradient_accumulation_steps to 1"});
  refused(2, train("--fused_backward_pass --optimizer prodigy --learning_rate 1"), {"prodigy needs all gradients before its first update"});
  refused(2, train("--fused_backward_pass --dtype fp16"), {"overflows fp16", "bf16 or fp32"});
  refused(2, train("--gradient_checkpointing_interval 2"), {"gradient_checkpointing_interval", "add use_gradient_checkpointing"});
  refused(2, train("--activation_budget few"), {"activation_budget must be a size such as 24GiB"});
  refused(2, train("--activation_budget 1GiB --gradient_checkpointing_interval 2"),
          {"activation_budget chooses which blocks are recomputed", "take one of the two out"});
  refused(2, train("--activation_budget 0.0001MiB"), {"where everything is computed again that can be, forward leaves", "raise it"});
  refused(2, train("--gradient_checkpointing_interval 0"), {"gradient_checkpointing_interval must be at least 1"});
  refused(2, train("--blocks_to_swap -1"), {"blocks_to_swap must be at least 0"});
  refused(2, train("--blocks_to_swap 99"), {"blocks_to_swap 99 is more than the", "blocks that dit runs"});
  refused(2, train("--blocks_to_swap 1 --blocks_on_disk 2"), {"blocks_on_disk 2 is more than blocks_to_swap 1", "raise blocks_to_swap"});
  refused(2, train("--blocks_on_disk -1"), {"blocks_on_disk must be at least 0"});
  refused(2, train("--enable_model_cpu_offload --dtype bf16 --blocks_on_disk 99"),
          {"blocks_on_disk 99 is more than the 3 blocks that dit runs"});
}

/// DiffSynth-Studio's option.
TEST_F(Levers, OffloadTheWholeDenoiserByOneWord) {
  auto run = [&](const std::string& lever) {
    auto outcome = run_burnish(train(lever) + " --overwrite");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return std::pair(outcome.output, read_file(out() / "step-2.safetensors"));
  };
  auto [said, file] = run("--enable_model_cpu_offload");
  EXPECT_THAT(said, testing::AllOf(HasSubstr("enable_model_cpu_offload is blocks_to_swap 3"), HasSubstr("3 blocks of dit")));
  EXPECT_EQ(file, run("--blocks_to_swap 3").second);
}

TEST_F(Levers, OnDiskAreRefusedWhereTheFileHasOtherWeights) {
  const std::string on_disk = "--blocks_to_swap 2 --blocks_on_disk 2 ";
  refused(2, train(on_disk), {"blocks_on_disk reads frozen weights from their file", "' in bf16, and the run holds it in fp32"});
  const auto in_fp32 = golden_model_in_fp32(at("model")) + golden_data();
  refused(2, train_with(in_fp32, on_disk + "--dtype bf16"),
          {"blocks_on_disk reads frozen weights from their file", "' in fp32, and the run holds it in bf16"});
  refused(2, train_with(in_fp32, on_disk + "--fp8_models dit"),
          {"the file of dit has no codes, and the run holds it in codes", "burnish convert"});
  refused(2, train_with(golden_model() + golden_data() + "--trainable_models dit ", on_disk + "--plan off"), {"and dit trains whole"});
}

/// Codes are read from a file of codes, whose scales and biases are a small part.
TEST_F(Levers, OnDiskReadCodesThatWereWrittenBefore) {
  auto fp8 = at("fp8.safetensors");
  auto written = run_burnish("convert " + quoted(kGolden / "model/transformer") + " " + quoted(fp8) + " --dtype fp32 --weight_format fp8");
  ASSERT_EQ(written.exit_code, 0) << written.output;
  auto model = "--model " + quoted(fp8) + " " + tokenizers() + "--dtype fp32 ";
  for (const char* name : {"text_encoder", "text_encoder_2", "vae"}) model += "--model " + quoted(kGolden / "model" / name) + " ";
  std::vector<std::string> files;
  for (const std::string more : {"", "--blocks_to_swap 3 --blocks_on_disk 3"}) {
    auto outcome = run_burnish("train " + model + golden_data() + kDora + "--fp8_models dit --max_steps 2 --plan off --output_path " +
                               quoted(at("out " + more)) + " " + more);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    if (!more.empty()) {
      EXPECT_THAT(outcome.output, HasSubstr("and 3 of them in their file: "));
    }
    files.push_back(read_file(at("out " + more) / "step-2.safetensors"));
  }
  EXPECT_EQ(files[0], files[1]);
}
