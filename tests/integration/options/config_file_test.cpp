// accelerate's settings beside the options of a run, as users of `accelerate launch --config_file` have them. The files are written by
// accelerate itself (tests/golden/make_accelerate.py).
#include "tests/integration/together.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kFiles = fs::path(test::kCheckout) / "tests/golden/accelerate";

class ConfigFile : public Together {
 protected:
  /// What the run's config.toml says.
  std::string settings(const std::string& run) const { return read_file(folder / run / "config.toml"); }
  std::string config_file(const char* name) const { return "--config_file " + quoted(kFiles / name) + " "; }
};

}  // namespace

TEST_F(ConfigFile, BecomesOptionsAndSaysWhatItLeavesOut) {
  // golden_model's --dtype fp32 stands on the command line.
  auto outcome = try_train(0, "run", "--max_steps 1 --lora_type dora " + config_file("zero2offload.yaml"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(settings("run"), AllOf(HasSubstr("\nzero_stage = 2  #"), HasSubstr("\ndtype = \"fp32\"  #"), Not(HasSubstr("config_file"))));
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("deepspeed_config.zero_stage becomes zero_stage = 2"),
                    HasSubstr("mixed_precision would become dtype = \"bf16\", which is \"fp32\" here as asked for"),
                    HasSubstr("deepspeed_config.gradient_accumulation_steps = 1: under accelerate the training script's own is ignored"),
                    HasSubstr("not carried: deepspeed_config.offload_param_device = cpu: DeepSpeed ignores it below stage 3; "),
                    HasSubstr("not carried: distributed_type = DEEPSPEED: DeepSpeed clips gradients at a norm of 1"),
                    HasSubstr("not carried: num_processes = 8: "), HasSubstr("nothing to set here: compute_environment")))
      << outcome.output;
}

TEST_F(ConfigFile, ACommandLineAndAFileOfOptionsWin) {
  std::ofstream(folder / "run.toml") << "gradient_accumulation_steps = 3\nconfig_file = '" << (kFiles / "zero2offload.yaml").string()
                                     << "'\n";
  train(0, "run", "--max_steps 1 --zero_stage 1 --config " + quoted(folder / "run.toml"));
  EXPECT_THAT(settings("run"), AllOf(HasSubstr("\ngradient_accumulation_steps = 3  #"), HasSubstr("\nzero_stage = 1  #")));
}

TEST_F(ConfigFile, OfFsdp) {
  auto outcome = try_train(0, "run", "--max_steps 1 " + config_file("fsdp.yaml"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(settings("run"), AllOf(HasSubstr("\nzero_stage = 3  #"), HasSubstr("\nuse_gradient_checkpointing = true  #")));
}

TEST_F(ConfigFile, PlacesOfASequence) {
  std::ofstream(folder / "two.yaml")
      << "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n"
         "parallelism_config:\n  parallelism_config_cp_size: 2\n  parallelism_config_cp_comm_strategy: allgather\n"
         "  parallelism_config_dp_replicate_size: 1\n  parallelism_config_tp_size: 1\n";
  auto outcome =
      run_burnish("launch --config_file " + quoted(folder / "two.yaml") + " -- " + arguments("run", "--max_steps 1") + "--num_threads 1");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("parallelism_config.parallelism_config_cp_size becomes sequence_size = 2"));
  EXPECT_THAT(settings("run"), HasSubstr("\nsequence_size = 2  #"));
}

TEST_F(ConfigFile, LaunchTakesItsNumberOfProcesses) {
  std::ofstream(folder / "two.yaml")
      << "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: 'no'\n";
  auto outcome =
      run_burnish("launch --config_file " + quoted(folder / "two.yaml") + " -- " + arguments("run", "--max_steps 1") + "--num_threads 1");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("2 processes train together"), HasSubstr("mixed_precision becomes dtype = \"fp32\""),
                                    Not(HasSubstr("num_processes"))));
  auto once = outcome.output.find("mixed_precision becomes");
  EXPECT_EQ(outcome.output.find("mixed_precision becomes", once + 1), outcome.output.npos) << "by one process";
}

TEST_F(ConfigFile, WhatDecidesNothingHereIsLeftOut) {
  std::ofstream(folder / "ds.json")
      << R"({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}, "gradient_clipping": "auto"})";
  std::ofstream(folder / "file.yaml") << "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 1\n"
                                      << "deepspeed_config:\n  deepspeed_config_file: ds.json\n";
  auto outcome = try_train(0, "run", "--max_steps 1 --config_file " + quoted(folder / "file.yaml"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(settings("run"), HasSubstr("\nzero_stage = 1  #"));
}

TEST_F(ConfigFile, IsRefusedForSeveralMachinesAndForAnotherFile) {
  std::ofstream(folder / "many.yaml")
      << "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 16\nnum_machines: 2\n";
  expect_one_error(run_burnish("launch --config_file " + quoted(folder / "many.yaml") + " -- train"), 2,
                   {"[launch]", "of 2 machines", "torchrun"});
  std::ofstream(folder / "list.yaml") << "- a\n- b\n";
  expect_one_error(
      run_burnish("train " + golden_model() + golden_data() + "--config_file " + quoted(folder / "list.yaml"), "BURNISH_LOG=error"), 3,
      {"[import]", "list.yaml"});
  expect_one_error(run_burnish("train --config_file " + quoted(folder / "none.yaml"), "BURNISH_LOG=error"), 3, {"none.yaml"});
}
