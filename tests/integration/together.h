#pragma once
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include <cmath>

#include "io/checkpoint_files.h"
#include "io/safetensors.h"
#include "tests/integration/refused.h"

namespace burnish::test {

/// Runs of a tiny model in several processes of this machine, each in a folder below `folder`.
class Together : public testing::Test {
 protected:
  /// The arguments of a run.
  std::string arguments(const std::string& run, const std::string& options) const {
    bool trains_whole = options.find("--trainable_models") != options.npos;
    return "train " + model + data + "--learning_rate 1e-2 " + (trains_whole ? "" : "--lora_rank 2 --lora_target_modules to_q,to_v ") +
           options + " --output_path " + quoted(folder / run) + " ";
  }
  /// A run in so many processes; 0: by itself.
  Outcome try_train(int64_t processes, const std::string& run, const std::string& options) const {
    auto command = arguments(run, options);
    if (processes > 0) command = "launch -n " + std::to_string(processes) + " -- " + command + "--num_threads 1";
    return run_burnish(command, "BURNISH_CHECK_COLLECTIVES=1");
  }
  void train(int64_t processes, const std::string& run, const std::string& options) const {
    auto outcome = try_train(processes, run, options);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  }
  std::string weights(const std::string& run, int64_t step) const {
    return read_file(folder / run / ("step-" + std::to_string(step) + ".safetensors"));
  }
  void expect_close(const std::string& run, const std::string& other) const {
    auto lines = read_log(folder / run), others = read_log(folder / other);
    ASSERT_EQ(lines.size(), others.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      double loss = lines[i]["loss"], norm = lines[i]["grad_norm"];
      EXPECT_NEAR(loss, others[i]["loss"], 2e-6 * std::abs(loss)) << "step " << i;
      double raw = lines[i]["raw_loss"];
      EXPECT_NEAR(raw, others[i]["raw_loss"], 2e-6 * std::abs(raw)) << "step " << i;
      EXPECT_NEAR(norm, others[i]["grad_norm"], tolerance(1e-5) * norm) << "step " << i;
      EXPECT_EQ(lines[i]["loss_by_time"].size(), others[i]["loss_by_time"].size());
    }
  }
  /// The states are the same bits, in however many files they are.
  void expect_same_state(const std::string& run, const std::string& other) const {
    auto of = [&](const std::string& name) { return io::TensorSource::open_folder(folder / name / "state", {"state"}); };
    auto state = of(run), expected = of(other);
    ASSERT_EQ(state.names(), expected.names());
    for (const auto& name : state.names()) EXPECT_TRUE(at::equal(state.tensor(name), expected.tensor(name))) << run << ": " << name;
  }
  std::string model = golden_model(), data = golden_data();
  Scratch folder;
};

}  // namespace burnish::test
