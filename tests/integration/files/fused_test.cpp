// Adapters of layers that other programs have fused, beside DiffSynth-Studio (tests/golden/make_diffsynth.py) and LyCORIS
// (make_lycoris.py).
#include <gmock/gmock.h>

#include "adapters/adapter_file.h"
#include "io/safetensors.h"
#include "loras/merged.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/integration/program.h"
#include "tests/integration/runs.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kDiffSynth = fs::path(test::kCheckout) / "tests/golden/diffsynth";
const fs::path kLycoris = fs::path(test::kCheckout) / "tests/golden/lycoris";
const std::string kTargets = "a_to_qkv,b_to_qkv,to_qkv_mlp,a_to_out,proj_out,norm1_a.linear";

std::map<std::string, at::Tensor> tensors_of(const fs::path& file) {
  std::map<std::string, at::Tensor> tensors;
  auto source = io::SafetensorsFile::open(file);
  for (const auto& [name, info] : source->tensors()) tensors[name] = source->tensor(name).clone();
  return tensors;
}

void expect_equal_files(const fs::path& found, const fs::path& expected) {
  auto a = tensors_of(found), b = tensors_of(expected);
  for (const auto& [name, value] : b) {
    ASSERT_TRUE(a.contains(name)) << name;
    EXPECT_EQ(a.at(name).sizes(), value.sizes()) << name;
    EXPECT_LE(relative_error(a.at(name).to(at::kFloat), value.to(at::kFloat)), tolerance(1e-5)) << name;
  }
  EXPECT_EQ(a.size(), b.size());
}

/// DiffSynth-Studio's eight steps from its own file.
void replay(const fs::path& folder, const std::string& more) {
  run_ok("train " + golden_model() + golden_data() + "--max_steps 8 --learning_rate 1e-3 --save_dtype fp32 " +
         option("replay", kDiffSynth / "replay.safetensors") + option("output_path", folder) + more);
}

void expect_losses(const fs::path& folder, const std::string& name) {
  auto log = read_log(folder);
  auto losses = io::SafetensorsFile::open(kDiffSynth / "expected.safetensors")->tensor(name);
  ASSERT_EQ(static_cast<int64_t>(log.size()), losses.numel());
  for (int64_t i = 0; i < losses.numel(); ++i) {
    auto loss = losses[i].item<double>();
    EXPECT_NEAR(log[static_cast<size_t>(i)]["loss"].get<double>(), loss, tolerance(1e-5) * loss) << i;
  }
}

/// Latents that a LoRA file draws.
at::Tensor draw(const Scratch& folder, const fs::path& lora) {
  auto noise = io::SafetensorsFile::open(kGolden / "expected.safetensors")->tensor("noise");
  io::save_safetensors(folder / "noise.safetensors", {{"noise", noise}});
  run_ok("sample " + golden_model() + "--prompt 'red apple' --prompt tree --height 48 --width 64 --num_inference_steps 4 " +
         option("noise", folder / "noise.safetensors") + option("save_latents", folder / "latents.safetensors") +
         option("output_path", folder / "out") + option("lora", lora));
  return tensors_of(folder / "latents.safetensors").at("latents");
}

}  // namespace

TEST(FusedTargets, TrainAsInDiffSynthStudio) {
  Scratch folder;
  auto start = option("lora_checkpoint", kDiffSynth / "start.safetensors");
  for (const char* format : {"diffsynth", "kohya", "auto"}) {
    replay(folder / format, start + "--lora_format " + format + (format[0] == 'k' ? " --use_gradient_checkpointing" : ""));
    expect_losses(folder / format, "loss");
    expect_equal_files(folder / format / "step-8.safetensors",
                       kDiffSynth / (format[0] == 'd' ? "trained.safetensors" : "kohya.safetensors"));
  }
}

TEST(FusedTargets, AreReadUnderKohyasNamesAndResumed) {
  Scratch folder;
  auto start = option("lora_checkpoint", kDiffSynth / "start.safetensors");
  run_ok("train " + golden_model() + golden_data() + "--max_steps 3 --learning_rate 1e-3 --save_dtype fp32 " +
         option("replay", kDiffSynth / "replay.safetensors") + option("output_path", folder / "run") + start);
  replay(folder / "run", start + "--resume");
  expect_equal_files(folder / "run/step-8.safetensors", kDiffSynth / "kohya.safetensors");
}

TEST(FusedTargets, HaveTheParametersOfDiffSynthStudio) {
  Scratch folder;
  auto train = "train " + golden_model() + golden_data() + "--max_steps 2 --learning_rate 1e-3 --lora_rank 4 --lora_target_modules " +
               kTargets + " " + option("output_path", folder / "run") + "--overwrite ";
  auto shapes = [](const fs::path& file) {
    std::map<std::string, std::vector<int64_t>> by_name;
    for (const auto& [name, value] : tensors_of(file)) by_name[name] = value.sizes().vec();
    return by_name;
  };
  for (const char* more : {"", "--fp8_models dit ", "--optimizer adafactor ", "--optimizer muon ", "--optimizer adamw8bit "}) {
    run_ok(train + "--lora_format diffsynth " + more);
    EXPECT_EQ(shapes(folder / "run/step-2.safetensors"), shapes(kDiffSynth / "start.safetensors")) << more;
  }
  run_ok(train + "--lora_format kohya --lora_type dora --fp8_models dit");
  EXPECT_TRUE(tensors_of(folder / "run/step-2.safetensors").contains("lora_unet_single_blocks_0_linear1.dora_scale"));
  run_ok(train + "--lora_type dora --dora_norm input");
  EXPECT_EQ(tensors_of(folder / "run/step-2.safetensors").at("lora_unet_single_blocks_0_linear1.dora_scale").sizes(),
            at::IntArrayRef({1, 32}));
  run_ok(train + "--lora_type lokr");
  EXPECT_TRUE(tensors_of(folder / "run/step-2.safetensors").contains("lora_unet_single_blocks_0_linear1.lokr_w1"));
}

/// What other programs leave out of a file is said where it is written, once for all that the run writes.
TEST(FusedTargets, ReadersOfDoraOverInputsAreSaidAtTheFirstSave) {
  Scratch folder;
  auto said = [&](const std::string& norm) {
    auto out = run_burnish("train " + golden_model() + golden_data() +
                           "--max_steps 2 --save_steps 1 --lora_rank 2 --lora_type dora --overwrite --dora_norm " + norm + " " +
                           option("output_path", folder / "run"));
    EXPECT_EQ(out.exit_code, 0) << out.output;
    return out.output;
  };
  auto by_input = said("input");
  EXPECT_THAT(by_input, HasSubstr("step-1.safetensors: dora_norm input: OneTrainer and ComfyUI load such a file as it was trained"));
  EXPECT_THAT(by_input, Not(HasSubstr("step-2.safetensors: dora_norm")));
  EXPECT_THAT(said("output"), Not(HasSubstr("step-1.safetensors: dora_norm"))) << "its readers read it as it was trained";
}

TEST(FusedTargets, ContradictionsAreRefused) {
  Scratch folder;
  auto refused = [&](const std::string& options) {
    auto out = run_burnish("train " + golden_model() + golden_data() + "--max_steps 1 " +
                           (options.find("lora_rank ") == std::string::npos ? "--lora_rank 4 " : "") +
                           option("output_path", folder / "run") + "--overwrite " + options);
    EXPECT_EQ(out.exit_code, 2) << out.output;
    return out.output;
  };
  EXPECT_THAT(refused("--lora_target_modules a_to_qkv,b_to_qkv --lora_rank_groups '.*attn\\.to_k=2'"), HasSubstr("share an adapter"));
  EXPECT_THAT(refused("--lora_target_modules a_to_qkv,b_to_qkv --lora_type dora --dora_norm input --lora_format onetrainer"),
              HasSubstr("cannot be cut"));
  EXPECT_THAT(refused("--lora_target_modules to_q,to_k --lora_type lokr --lora_format kohya"), HasSubstr("cannot be stacked"));
  EXPECT_THAT(refused("--lora_target_modules a_to_qkv,b_to_qkv --lora_type oft --lora_rank 3"), HasSubstr("a part of a fused layer"));
  EXPECT_THAT(refused("--lora_type full --lora_format diffsynth"), HasSubstr("DiffSynth-Studio reads no other kind"));
  EXPECT_THAT(refused("--lora_type dora --dora_norm input --lora_format diffusers"), HasSubstr("leave out its magnitudes"));
  EXPECT_THAT(refused("--lora_type dora --dora_norm input --lora_format lycoris"), HasSubstr("LyCORIS refuses"));
  EXPECT_THAT(refused("--lora_type dora --lora_format diffsynth"), HasSubstr("DiffSynth-Studio reads no other kind"));
}

TEST(FusedTargets, EveryFormatDrawsTheSame) {
  Scratch folder;
  auto expected = draw(folder, kDiffSynth / "trained.safetensors");
  for (const char* format : {"diffusers", "kohya", "lycoris", "onetrainer", "diffsynth"}) {
    replay(folder / format, option("lora_checkpoint", kDiffSynth / "start.safetensors") + "--lora_format " + format);
    EXPECT_LE(relative_error(draw(folder, folder / format / "step-8.safetensors"), expected), tolerance(1e-5)) << format;
  }
}

TEST(FusedTargets, OftAndFullDeltasTrainAsOneAndDrawTheSameInEveryFormat) {
  Scratch folder;
  auto train = "train " + golden_model() + golden_data() + "--max_steps 2 --save_dtype fp32 ";
  for (const std::string type : {"oft", "full"}) {
    auto fresh = train + "--learning_rate 1e-2 --lora_rank 4 --lora_target_modules " + kTargets + " --lora_type " + type + " ";
    run_ok(fresh + option("output_path", folder / type));
    auto file = folder / type / "step-2.safetensors";
    auto part = "lora_unet_single_blocks_0_linear1." + std::string(type == "oft" ? "oft_blocks" : "diff");
    EXPECT_TRUE(tensors_of(file).at(part).any().item<bool>());
    auto expected = draw(folder, file);
    for (const std::string format : {"kohya", "onetrainer", "lycoris"}) {
      auto own = folder / (type + format);
      run_ok(fresh + "--lora_format " + format + " " + option("output_path", own));
      EXPECT_LE(relative_error(draw(folder, own / "step-2.safetensors"), expected), tolerance(1e-5)) << type << format;
      // What a format has apart trains on apart, and is stacked again.
      run_ok(train + "--learning_rate 1e-30 --lora_format kohya " + option("lora_checkpoint", own / "step-2.safetensors") +
             option("output_path", folder / "on") + "--overwrite");
      expect_equal_files(folder / "on/step-2.safetensors", file);
    }
  }
}

class LycorisFused : public testing::TestWithParam<std::string> {};

TEST_P(LycorisFused, IsMergedAsLycorisDoes) {
  models::ModelOptions options;
  options.dtype = at::kFloat;
  options.own = models::default_options();
  options.tokenizer_path = (kAssets / "tokenizer").string();
  options.tokenizer_2_path = (kAssets / "tokenizer_2").string();
  auto model = models::open_model(models::open_model_files({{(kGolden / "model").string()}, "", ""}), options);
  loras::merge(*model, {{(kLycoris / (GetParam() + ".safetensors")).string()}});
  model->components().load("dit");
  auto parameters = model->components().module("dit").parameters();
  auto expected = io::TensorSource::open({kLycoris / "expected.safetensors"}).below(GetParam() + "/");
  ASSERT_EQ(expected.names().size(), 10u);
  for (const auto& layer : expected.names()) {
    auto weight = *parameters.at(layer + ".weight");
    EXPECT_LE(relative_error(weight.narrow(0, weight.size(0) - 6, 6), expected.tensor(layer)), tolerance(1e-5)) << layer;
  }
}

TEST_P(LycorisFused, TrainsAndIsWrittenBack) {
  Scratch folder;
  auto file = kLycoris / (GetParam() + ".safetensors");
  run_ok("train " + golden_model() + golden_data() +
         "--max_steps 1 --learning_rate 1e-30 --save_dtype fp32 --lora_format kohya --use_gradient_checkpointing " +
         option("lora_checkpoint", file) + option("output_path", folder / "run"));
  auto found = tensors_of(folder / "run/step-1.safetensors");
  for (const auto& [name, value] : tensors_of(file)) {
    auto kohya = "lora_unet_" + name.substr(std::string("lycoris_").size());
    if (name.ends_with(".alpha") && GetParam() == "lokr_full") continue;  // has no rank that it could be over
    ASSERT_TRUE(found.contains(kohya)) << kohya;
    EXPECT_LE(relative_error(found.at(kohya).to(at::kFloat), value.to(at::kFloat)), tolerance(1e-6)) << kohya;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LycorisFused,
                         testing::Values("lokr-1", "lokr2", "lokr4", "lokr8", "lokr16", "lokr_full", "loha", "dora_output", "dora_input"));

TEST(DiffSynthCache, OfDirectDistillationTrainsAsThere) {
  Scratch folder;
  auto denoiser = option("model", kGolden / "model/transformer") + "--dtype fp32 ";
  auto cache = folder / "theirs";  // the first sample alone
  fs::create_directories(cache / "0");
  fs::copy_file(kDiffSynth / "distill/0/0.pth", cache / "0/0.pth");
  auto train = "train " + denoiser + "--max_steps 4 --learning_rate 1e-3 --distill_spacing diffsynth " +
               option("lora_checkpoint", kDiffSynth / "start.safetensors");
  run_ok(train + "--task direct_distill:train " + option("dataset_base_path", cache) + option("output_path", folder / "direct"));
  expect_losses(folder / "direct", "distill.loss");
  run_ok("cache --task direct_distill:data_process " + denoiser + option("import_diffsynth", cache) +
         option("cache_path", folder / "cache"));
  run_ok(train + "--task direct_distill:train " + option("dataset_base_path", folder / "cache") +
         option("output_path", folder / "imported"));
  expect_losses(folder / "imported", "distill.loss");
  run_ok(train + "--task direct_distill " + option("import_diffsynth", kDiffSynth / "distill") + option("output_path", folder / "both"));
  EXPECT_EQ(read_log(folder / "both").size(), 4u);
  auto refused = run_burnish(train + "--task direct_distill:train " +
                             option("dataset_base_path", fs::path(test::kCheckout) / "tests/golden/diffsynth_cache/0") +
                             option("output_path", folder / "refused"));
  EXPECT_EQ(refused.exit_code, 3) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("seed"));
}
