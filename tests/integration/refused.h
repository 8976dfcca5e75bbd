#pragma once
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <regex>

#include "io/safetensors.h"
#include "records/status.h"
#include "tests/integration/program.h"

namespace burnish::test {

inline std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

inline std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) files.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// One line that starts with a room in brackets, holds every word, and is of a length that people read.
inline void expect_one_error(const Outcome& outcome, int exit_code, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
  EXPECT_TRUE(std::regex_match(outcome.output, std::regex("\\[[a-z]+\\] [^\\n]+\\n"))) << "not one line of error:\n" << outcome.output;
  EXPECT_LT(outcome.output.size(), 700u) << outcome.output;
  for (const auto& word : words)
    EXPECT_NE(outcome.output.find(word), std::string::npos) << "'" << word << "' is not in: " << outcome.output;
}

/// The run that ended with `outcome` left nothing but its status, which says the same.
inline void expect_only_status(const fs::path& run, const Outcome& outcome) {
  ASSERT_EQ(files_below(run), std::vector<std::string>{"status.json"});
  auto status = records::read_status(run).value();
  EXPECT_EQ(status.state, outcome.exit_code == 130 ? records::State::interrupted : records::State::failed);
  EXPECT_EQ(status.exit_code, outcome.exit_code);
  EXPECT_NE(outcome.output.find("] " + status.sentence + "\n"), std::string::npos) << status.sentence << "\n" << outcome.output;
}

/// A folder for bad files; runs write to `out` in it.
class BadInput : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_ / name; }
  fs::path out() const { return folder_ / "out"; }

  fs::path write(const std::string& name, const std::string& content) const {
    fs::create_directories(at(name).parent_path());
    std::ofstream(at(name), std::ios::binary) << content;
    return at(name);
  }

  static std::string tokenizers() {
    return "--tokenizer_path " + quoted(kAssets / "tokenizer") + " --tokenizer_2_path " + quoted(kAssets / "tokenizer_2") + " ";
  }
  std::string train_with(const std::string& model_and_data, const std::string& more) const {
    return "train " + model_and_data + " --dtype fp32 --lora_rank 4 --max_steps 2 --output_path " + quoted(out()) + " " + more;
  }
  /// A run that is good but for `more`, which comes last and wins.
  std::string train(const std::string& more) const { return train_with(golden_model() + golden_data(), more); }
  std::string sample(const std::string& more) const {
    return "sample " + golden_model() + "--height 48 --width 64 --num_inference_steps 1 --prompt cat --output_path " + quoted(out()) + " " +
           more;
  }

  /// The program refuses the arguments in one line and leaves nothing in `out` but the status of a run.
  void refused(int exit_code, const std::string& arguments, const std::vector<std::string>& words) const {
    SCOPED_TRACE(arguments);
    std::error_code ignored;
    fs::remove(records::status_path(out()), ignored);  // of what was refused before
    auto outcome = run_burnish(arguments, "BURNISH_LOG=error");
    expect_one_error(outcome, exit_code, words);
    if (!files_below(out()).empty()) expect_only_status(out(), outcome);
  }

  Scratch folder_;
};

}  // namespace burnish::test
