#pragma once
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/device.h"
#include "tests/integration/program_forks.h"
#include "tests/places.h"
#include "tests/scratch.h"

// Runs the built program as a user does.
namespace burnish::test {

/// Of programs as of tests; settled before any of them starts.
inline const c10::Device kDevice = device();

inline std::string read_file(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct Outcome {
  int exit_code = 0;
  std::string output;  ///< stdout and stderr together
};

/// Runs `burnish` with the arguments, which the shell splits. `before` goes in front of the command (ulimit, variables).
inline Outcome run_burnish(const std::string& arguments, const std::string& before = "", const std::string& program = test::kProgram) {
  EXPECT_TRUE(kDevice.is_cpu() || at::hasCUDA()) << "BURNISH_TEST_DEVICE names a GPU, and the program would find none";
  Scratch folder;
  auto log = folder / "output";
  auto forked = program == test::kProgram ? run_forked(arguments, before, log.string()) : std::nullopt;
  auto command = before + " '" + program + "' " + arguments + " >'" + log.string() + "' 2>&1";
  auto status = forked ? *forked : std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(log)};
}

/// The lines of a run's steps: without that of step 0, which has what was measured before training.
inline std::vector<nlohmann::json> read_log(const fs::path& run) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(run / "log.jsonl");
  for (std::string line; std::getline(file, line);) {
    auto of_step = nlohmann::json::parse(line);
    if (of_step.at("step") > 0) lines.push_back(std::move(of_step));
  }
  return lines;
}

/// `--name 'path' `, as the shell takes it.
inline std::string option(const std::string& name, const fs::path& path) { return "--" + name + " '" + path.string() + "' "; }

/// The loss of every step of a run.
inline std::vector<double> losses(const fs::path& run) {
  std::vector<double> list;
  for (const auto& line : read_log(run)) list.push_back(line.at("loss").get<double>());
  EXPECT_FALSE(list.empty()) << run;
  return list;
}

/// What a run logged of every step in these fields, as text that is equal where all bits are.
inline std::vector<std::string> logged_steps(const fs::path& run,
                                             const std::vector<std::string>& fields = {"step", "loss", "grad_norm", "lr"}) {
  std::vector<std::string> list;
  for (const auto& line : read_log(run)) {
    auto& text = list.emplace_back();
    for (const auto& field : fields) text += line.at(field).dump() + " ";
  }
  EXPECT_FALSE(list.empty()) << run;
  return list;
}

inline const fs::path kGolden = fs::path(test::kCheckout) / "tests/golden/pipeline";
inline const fs::path kAssets = fs::path(test::kCheckout) / "assets/tiny-flux";

/// The model of tests/golden/make_pipeline.py.
inline std::string golden_model() {
  return "--model '" + (kGolden / "model").string() + "' --tokenizer_path '" + (kAssets / "tokenizer").string() + "' --tokenizer_2_path '" +
         (kAssets / "tokenizer_2").string() + "' --dtype fp32 ";
}
inline std::string golden_data() {
  return "--dataset_metadata_path '" + (kGolden / "pictures/metadata.csv").string() + "' --height 48 --width 64 ";
}

}  // namespace burnish::test
