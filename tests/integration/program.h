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
#include "tests/temp_folder.h"

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
inline Outcome run_burnish(const std::string& arguments, const std::string& before = "", const std::string& program = BURNISH_PROGRAM) {
  EXPECT_TRUE(kDevice.is_cpu() || at::hasCUDA()) << "BURNISH_TEST_DEVICE names a GPU, and the program would find none";
  TempFolder folder;
  auto log = folder / "output";
  auto forked = program == BURNISH_PROGRAM ? run_forked(arguments, before, log.string()) : std::nullopt;
  auto command = before + " '" + program + "' " + arguments + " >'" + log.string() + "' 2>&1";
  auto status = forked ? *forked : std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(log)};
}

inline std::vector<nlohmann::json> read_log(const fs::path& run) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(run / "log.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

inline const fs::path kGolden = fs::path(BURNISH_SOURCE_DIR) / "tests/golden/pipeline";
inline const fs::path kAssets = fs::path(BURNISH_SOURCE_DIR) / "assets/tiny-flux";

/// The model of tests/golden/make_pipeline.py.
inline std::string golden_model() {
  return "--model '" + (kGolden / "model").string() + "' --tokenizer_path '" + (kAssets / "tokenizer").string() + "' --tokenizer_2_path '" +
         (kAssets / "tokenizer_2").string() + "' --dtype fp32 ";
}
inline std::string golden_data() {
  return "--dataset_metadata_path '" + (kGolden / "pictures/metadata.csv").string() + "' --height 48 --width 64 ";
}

}  // namespace burnish::test
