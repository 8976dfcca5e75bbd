#include "tests/integration/together.h"

#include <cmath>

#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

TEST_F(Together, SeveralProcessesAreOneOfTheirBatches) {
  train(0, "one", "--batch_size 4 --max_steps 4");
  train(2, "two", "--batch_size 2 --max_steps 4");
  train(4, "four", "--batch_size 1 --max_steps 4");
  expect_close("one", "two");
  expect_close("one", "four");
}

TEST_F(Together, UnevenBatchesAndProcessesWithoutASample) {
  train(0, "one", "--batch_size 3 --max_steps 4 --lora_dropout 0.3 --gradient_accumulation_steps 2");
  train(2, "two", "--batch_size 2 --global_batch_size 3 --max_steps 4 --lora_dropout 0.3 --gradient_accumulation_steps 2");
  train(4, "four", "--batch_size 1 --global_batch_size 3 --max_steps 4 --lora_dropout 0.3 --gradient_accumulation_steps 2");
  expect_close("one", "two");
  expect_close("one", "four");
}

TEST_F(Together, OrderedSumsGiveTheSameBits) {
  const std::string options = "--batch_size 1 --global_batch_size 4 --reduction ordered --max_steps 4 ";
  train(0, "one", options);
  for (int64_t processes : {2, 4}) {
    auto run = std::to_string(processes);
    train(processes, run, options);
    EXPECT_EQ(weights(run, 4), weights("one", 4)) << processes << " processes";
  }
  train(4, "begun", options + "--max_steps 2");
  train(2, "begun", options + "--resume");
  EXPECT_EQ(weights("begun", 4), weights("one", 4)) << "gone on with by another number of processes";
}

TEST_F(Together, WhatIsComputedAheadAndKeptIsSharedOut) {
  const std::string options = "--batch_size 1 --max_steps 3 --fp8_models dit --lora_type dora --precompute_timesteps on ";
  train(2, "two", options + "--global_batch_size 2 --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv"));
  train(0, "one", options + "--global_batch_size 2 --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv"));
  expect_close("one", "two");
  EXPECT_TRUE(fs::exists(folder / "two/cache/manifest.json"));
  auto of = [&](const std::string& run) { return nlohmann::json::parse(read_file(folder / run / "validation.json")); };
  EXPECT_NEAR(of("one")["after"].get<double>(), of("two")["after"].get<double>(), 1e-5);
}

TEST_F(Together, AnErrorOfOneIsToldOnce) {
  auto outcome = try_train(2, "run", "--learning_rate 1e12 --max_steps 5 --plan off");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  size_t told = 0;
  for (auto at = outcome.output.find("not finite"); at != std::string::npos; at = outcome.output.find("not finite", at + 1)) ++told;
  EXPECT_EQ(told, 1u) << outcome.output;
}

TEST_F(Together, ProcessesWithOtherOptionsAreRefused) {
  auto program = quoted(test::kProgram);
  auto command = [&](int rank, const std::string& more) {
    return "RANK=" + std::to_string(rank) + " WORLD_SIZE=2 LOCAL_RANK=" + std::to_string(rank) +
           " LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29871 " + program + " train " + golden_model() + golden_data() +
           "--num_threads 1 --max_steps 1 --output_path " + quoted(folder / "run") + " " + more;
  };
  auto script = folder / "both.sh";
  std::ofstream(script) << command(0, "--seed 1") << " &\n" << command(1, "--seed 2") << "\ncode=$?\nwait $!\nexit $code\n";
  auto outcome = run_burnish(script.string(), "", "/bin/sh");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("process 1 has other settings, samples or weights than process 0"));
}

TEST_F(Together, LaunchNeedsACommand) {
  auto refused = [](const std::string& arguments, const std::string& word) {
    expect_one_error(run_burnish(arguments), 2, {"[launch]", word});
  };
  refused("launch -n 2", "burnish launch -n 2 -- train");
  refused("launch -- train", "num_processes");
  refused("launch -n 2 -- sample", "train or cache");
  auto without_dashes = run_burnish("launch -n 1 train --lora_rnk 4", "BURNISH_LOG=error");
  EXPECT_NE(without_dashes.output.find("did you mean 'lora_rank'?"), std::string::npos) << without_dashes.output;
}
