// What a run's memory comes to, before it starts.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "models/registry.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

nlohmann::json plan_of(const std::string& flags) {
  auto outcome = run_burnish("plan --json --num_threads 1 " + flags, "BURNISH_LOG=error");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
}

const std::string kFluxDev = "--model flux-dev --height 1024 --width 1024 --max_steps 1000 --lora_rank 16 ";

const nlohmann::json& stage_of(const nlohmann::json& plan, const std::string& name) {
  for (const auto& stage : plan["stages"]) {
    if (stage["name"] == name) return stage;
  }
  static const nlohmann::json none = nlohmann::json::object();
  ADD_FAILURE() << "no stage " << name << " in " << plan.dump(2);
  return none;
}

double gib(const nlohmann::json& bytes) { return bytes.get<double>() / 0x1p30; }

class PublishedPlan : public testing::TestWithParam<std::string> {};

}  // namespace

TEST(MemoryPlan, OfAModelThatIsOnlyNamed) {
  // Of a GPU: what a CPU keeps depends on whether it has bf16 instructions.
  auto plan = plan_of(kFluxDev + "--device cuda --device_memory 24GiB ");
  const auto& step = stage_of(plan, "step");
  // 11.9 billion numbers in bf16, and the adapters' 85 million in fp32 beside them.
  EXPECT_NEAR(gib(step["peak"]["weights"]), 22.49, 0.05) << plan.dump(2);
  EXPECT_THAT(plan["stages"][1]["name"], "encode_prompt_t5");
  EXPECT_NEAR(gib(plan["stages"][1]["peak"]["weights"]), 8.87, 0.1);
  EXPECT_NEAR(gib(step["peak"]["activations"]), 16.1, 0.5);
  EXPECT_THAT(step["place"].get<std::string>(), testing::ContainsRegex("(forward|backward), dit\\."));
  EXPECT_EQ(step["parts"].size(), 64u);
  // 4096 + 512 tokens by the 8.6 billion weights that see tokens, forward and for the inputs' gradients, and attention.
  EXPECT_EQ(plan["length"]["steps"], 1000);
  EXPECT_NEAR(plan["length"]["multiplications_a_step"].get<double>(), 9e13, 1e13);
}

TEST_P(PublishedPlan, IsOfAModelThatIsOnlyNamed) {
  // Without their columns these are refused.
  const std::map<std::string, std::string> columns{
      {"wan-s2v-14b", " --extra_inputs input_image --num_frames 17"},
      {"wan-infinitetalk-14b", " --extra_inputs input_image --num_frames 17"},
      {"wan-scail-2-14b", " --extra_inputs scail2_reference_image,scail2_reference_mask,scail2_driving_video,scail2_driving_mask"}};
  const auto more = columns.contains(GetParam()) ? columns.at(GetParam()) : "";
  auto plan = plan_of("--model " + GetParam() + " --height 512 --width 512 --max_steps 10 --lora_rank 4" + more);
  EXPECT_GT(gib(stage_of(plan, "step")["peak"]["weights"]), 1.5);
}

INSTANTIATE_TEST_SUITE_P(Of, PublishedPlan, testing::ValuesIn(models::published_models()));

TEST(PublishedModels, AreListedInThePageOnModels) {
  const auto page = read_file(fs::path(test::kCheckout) / "docs/models.md");
  for (const auto& name : models::published_models()) EXPECT_THAT(page, HasSubstr("`" + name + "`"));
}

TEST(MemoryPlan, OfAModelThatRunsOnAClipBesideIsOfBoth) {
  auto of = [](const std::string& more) {
    auto plan =
        plan_of("--model wan-animate-2-14b --height 256 --width 256 --num_frames 17 --max_steps 10 --lora_rank 4 --dtype fp32 " + more);
    return gib(stage_of(plan, "step")["peak"]["activations"]);
  };
  const auto alone = of(""), beside = of("--extra_inputs animate2_reference_image,animate2_reference_video,animate2_prompt_ref");
  EXPECT_GT(beside, 1.7 * alone);
  EXPECT_LT(beside, 3 * alone);
}

TEST(MemoryPlan, IsMadeOfALoraThatIsWrittenInFusedLayers) {
  auto of = [&](const std::string& format) {
    return plan_of("--model flux2-klein-4b --height 256 --width 256 --max_steps 10 --lora_rank 4 --lora_format " + format);
  };
  EXPECT_EQ(stage_of(of("kohya"), "step")["peak"]["weights"], stage_of(of("diffusers"), "step")["peak"]["weights"]);
}

TEST(MemoryPlan, SaysWhatFits) {
  auto outcome = run_burnish("plan --num_threads 1 --device_memory 24GiB --fit " + kFluxDev, "BURNISH_LOG=error");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, testing::ContainsRegex("there is 24.00 GiB of [a-z]+.*: the run does not fit"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("it fits in [0-9.]+ GiB with .*--activation_budget [0-9]+MiB"));
  EXPECT_THAT(outcome.output, HasSubstr("--fp8_models dit\n"));
  auto fit = plan_of("--device_memory 24GiB --fp8_models dit --use_gradient_checkpointing " + kFluxDev);
  EXPECT_TRUE(fit["fits"].get<bool>()) << fit.dump(2);
}

TEST(MemoryPlan, SaysWhatFitsOfAllOfFlux) {
  auto fit = plan_of(
      "--device cuda --device_memory 24GiB --host_memory 64GiB --fit --model flux-dev --trainable_models dit --height 1024 "
      "--width 1024 --max_steps 100")["fit"];
  ASSERT_TRUE(fit.is_object());
  EXPECT_LE(gib(fit["bytes"]), 24);
  EXPECT_LE(gib(fit["host_bytes"]), 64);
  EXPECT_THAT(fit["flags"].get<std::string>(), testing::AllOf(HasSubstr("--fused_backward_pass"), HasSubstr("--blocks_to_swap")));
}

TEST(MemoryPlan, OfAGpuThatIsNotHereCountsWhatItsAllocatorKeeps) {
  auto plan = plan_of("--device cuda " + kFluxDev);
  EXPECT_EQ(plan["device"], "cuda:0");
  for (const auto& stage : plan["stages"]) {
    auto reserved = stage["reserved"].get<int64_t>(), live = stage["peak"]["total"].get<int64_t>();
    EXPECT_GE(reserved, live) << stage["name"];
    EXPECT_EQ(reserved % (2 << 20), 0) << "segments are whole numbers of 2 MiB";
  }
  EXPECT_LT(gib(plan["host"]["bytes"]), 2) << "weights are on the device";
}

TEST(MemoryPlan, OfACardCountsWhatLibrariesTakeOfIt) {
  const std::string flags = "--model sd15 --height 64 --width 64 --max_steps 10 --lora_rank 4 --device ";
  auto plan = plan_of(flags + "cuda --device_memory 8GiB");
  int64_t reserved = 0;
  for (const auto& stage : plan["stages"]) reserved = std::max(reserved, stage["reserved"].get<int64_t>());
  EXPECT_EQ(plan["libraries"], int64_t{528} << 20);
  EXPECT_EQ(plan["bytes"], reserved + (int64_t{528} << 20));
  auto limit = fmt::format(" --device_memory {}MiB", (reserved + (int64_t{400} << 20)) >> 20);
  EXPECT_FALSE(plan_of(flags + "cuda" + limit)["fits"].get<bool>()) << "tensors alone would";
  EXPECT_EQ(plan_of(flags + "cpu --device_memory 8GiB")["libraries"], 0);
  auto text = run_burnish("plan --num_threads 1 " + flags + "cuda", "BURNISH_LOG=error").output;
  EXPECT_THAT(text, HasSubstr("\nCUDA and cuBLAS           528.00 MiB  ("));
}

TEST(MemoryPlan, IsOfFullBatchesWithoutADataset) {
  auto activations = [](const std::string& more) {
    auto plan = plan_of("--model sd15 --height 512 --width 512 --max_steps 10 --lora_rank 4 " + more);
    return gib(stage_of(plan, "step")["peak"]["activations"]);
  };
  EXPECT_NEAR(activations("--batch_size 3") / activations("--batch_size 1"), 3, 0.5);
}

TEST(MemoryPlan, IsOfSizesThatTheModelTakes) {
  auto refused = [](const std::string& flags, const std::string& words) {
    expect_one_error(run_burnish("plan --lora_rank 4 " + flags, "BURNISH_LOG=error"), 2, {words});
  };
  refused("--model flux-dev --height 512 --width 510", "multiples of 16 pixels for this model, not 512 and 510");
  refused("--model minimax-h3 --num_frames 22 --height 480 --width 830", "multiples of 32 pixels for this model");
}

TEST(MemoryPlan, WantsToKnowHowLargePicturesAre) {
  auto outcome = run_burnish("plan --model flux-dev", "BURNISH_LOG=error");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("say with --height and --width how large pictures are"));
}

TEST(MemoryPlan, LargePicturesAreEncodedInTilesWhereTheyDoNotFitWhole) {
  const std::string flags = "--model sd15 --height 2048 --width 2048 --max_steps 10 --lora_rank 4 --use_gradient_checkpointing ";
  auto plan = plan_of(flags);
  auto whole = gib(stage_of(plan, "encode_image")["peak"]["total"]), step = gib(stage_of(plan, "step")["peak"]["total"]);
  auto limit = fmt::format("--device_memory {} ", (whole + step) / 2);
  ASSERT_GT(whole, step);
  EXPECT_EQ(plan_of(flags + limit + "--fit")["fit"]["flags"], "--vae_tile_size 512");
  EXPECT_TRUE(plan_of(flags + limit + "--vae_tile_size 512")["fits"].get<bool>());
}

TEST(MemoryPlan, BlocksAreReadFromDiskWhereNothingElseFits) {
  const std::string flags = "--model sd15 --device cpu --height 64 --width 64 --max_steps 10 --lora_rank 4 ";
  auto host = [](const nlohmann::json& plan) { return gib(plan["host"]["bytes"]); };
  const std::string on_disk = "--use_gradient_checkpointing --blocks_to_swap 38 --blocks_on_disk 38 ";
  auto fewest = host(plan_of(flags + on_disk + "--cache_path cache"));
  ASSERT_GT(host(plan_of(flags + "--use_gradient_checkpointing --fp8_models unet --cache_path cache")), 1.1 * fewest);
  auto fit = plan_of(flags + fmt::format("--fit --host_memory {} ", 1.05 * fewest))["fit"];
  ASSERT_TRUE(fit.is_object());
  EXPECT_THAT(fit["flags"].get<std::string>(), HasSubstr("--blocks_on_disk "));
  EXPECT_THAT(fit["flags"].get<std::string>(), testing::Not(HasSubstr("--fp8_models")));
}

using TrainPlansFirst = BadInput;

TEST_F(TrainPlansFirst, AndRefusesWhatDoesNotFit) {
  refused(4, train("--device_memory 0.1MiB"), {"takes 843", "at its peak", "and there is 102.40 KiB", "--plan off"});
  refused(2, train("--device_memory lots"), {"device_memory must be a size such as 24GiB", "not 'lots'"});
  refused(4, train("--host_memory 1MiB"), {"of the host's memory, ", "and there is 1.00 MiB", "--plan off"});
  refused(2, train("--host_memory few"), {"host_memory must be a size such as 24GiB"});
  refused(2, train("--plan maybe"), {"plan 'maybe' is not known; choose on or off"});
  EXPECT_FALSE(fs::exists(out() / "log.jsonl"));
  auto allowed = run_burnish(train("--device_memory 0.1MiB --plan off --max_steps 1"));
  EXPECT_EQ(allowed.exit_code, 0) << allowed.output;
}

TEST_F(TrainPlansFirst, AndWhatItSuggestsInsteadTrains) {
  const std::string four = "--batch_size 4 ";  // so that a step takes more than encoding
  auto plan = plan_of(golden_model() + golden_data() + "--lora_rank 4 --max_steps 2 --plan off " + four);  // which keeps no values
  auto limit = four + fmt::format("--device_memory {}MiB ", 0.9 * stage_of(plan, "step")["peak"]["total"].get<double>() / 0x1p20);
  auto outcome = run_burnish(train(limit), "BURNISH_LOG=error");
  expect_one_error(outcome, 4, {"of cpu at its peak", "; it fits with --", "or train all the same with --plan off"});
  expect_only_status(out(), outcome);
  const std::string before = "it fits with ";
  ASSERT_THAT(outcome.output, HasSubstr(before));
  auto begin = outcome.output.find(before) + before.size(), end = outcome.output.find(" (", begin);
  auto flags = outcome.output.substr(begin, end - begin) + " --cache_path " + quoted(at("cache"));
  auto fitted = run_burnish(train(limit + flags));
  EXPECT_EQ(fitted.exit_code, 0) << flags << "\n" << fitted.output;
  EXPECT_TRUE(fs::exists(out() / "step-2.safetensors"));
}

TEST_F(TrainPlansFirst, AndLeavesThePlanInTheRunFolder) {
  ASSERT_EQ(run_burnish(train("--max_steps 1")).exit_code, 0);
  auto plan = nlohmann::json::parse(std::ifstream(out() / "plan.json"));
  EXPECT_EQ(plan["device"], "cpu");
  EXPECT_GT(plan["host"]["bytes"], plan["bytes"]);
  EXPECT_THAT(read_file(out() / "report.html"), HasSubstr("\"plan\":{\"bytes\":"));
  fs::remove_all(out());
  ASSERT_EQ(run_burnish(train("--max_steps 1 --plan off")).exit_code, 0);
  EXPECT_FALSE(fs::exists(out() / "plan.json"));
}

TEST_F(TrainPlansFirst, ButNotFromANameAlone) {
  refused(3, train_with("--model sdxl " + golden_data(), ""), {"'sdxl' is the name of a model", "name its files"});
}

TEST(MemoryPlan, ATableOfManyProcessesIsComputedOnRequest) {
  auto plan = plan_of(kFluxDev + "--device cpu --dtype bf16 --processes 8 --nodes 2 --link 100Gb");
  const auto& steps = plan["scaling"];
  ASSERT_EQ(steps.size(), 11u);
  EXPECT_EQ(steps[0]["exposed_seconds"], 0);
  EXPECT_EQ(steps[10]["processes"], 1024);
  EXPECT_EQ(steps[10]["machines"], 256);
  // 4096 places of a picture and 512 of a caption: 3.0e13 multiplications of 57 blocks' matrices, as many again for gradients of their
  // inputs; 7.4e12 of attention, and two and a half times that in backward.
  EXPECT_NEAR(steps[0]["step_seconds"].get<double>(), 2 * (2 * 3.0e13 + 3.5 * 7.4e12) / 400e12, 0.02);
  EXPECT_GT(steps[3]["exposed_seconds"], steps[2]["exposed_seconds"]) << "from one machine to two";
  for (const auto& [options, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"--link fast", {"link must be a rate"}},
           {"--processes 8 --nodes 3 --link 1Gb", {"nodes must divide the 8 processes"}},
           {"--processes 8 --nodes 2", {"nodes belongs to link"}},
           {"--link 1Gb --tflops 0", {"tflops must be above 0"}}}) {
    expect_one_error(run_burnish("plan " + golden_model() + golden_data() + options, "BURNISH_LOG=error"), 2, words);
  }
}

TEST(MemoryPlan, ATableSaysThatItIsComputedAndWhatStagesDivide) {
  auto flags = golden_model() + golden_data() + "--trainable_models dit --zero_stage 2 --processes 4 --link 10Gb --num_threads 1 ";
  auto outcome = run_burnish("plan " + flags, "BURNISH_LOG=error");
  EXPECT_THAT(outcome.output, HasSubstr("Computed, not measured: 4 processes a machine, 10 Gb/s between machines"));
  auto steps = plan_of(flags)["scaling"];
  EXPECT_LT(steps[3]["device_bytes"], steps[0]["device_bytes"]);
}
