#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The whole program beside golden files of another: a folder with noise and latents in expected.safetensors, and replay.safetensors.
namespace burnish::test {

inline io::TensorSource expected_in(const fs::path& golden) { return io::TensorSource::open({(golden / "expected.safetensors").string()}); }

/// Two pictures of 48 x 64, drawn in four steps from the golden noise, have the golden latents `name`. `options` say the model and the
/// prompts.
inline void expect_latents(const fs::path& golden, const std::string& name, const std::string& options) {
  TempFolder folder;
  auto source = expected_in(golden);
  io::save_safetensors(folder / "noise.safetensors", {{"noise", source.tensor("noise")}});
  auto out = run_burnish("sample --height 48 --width 64 --num_inference_steps 4 --noise " + (folder / "noise.safetensors").string() +
                         " --save_latents " + (folder / "latents.safetensors").string() + " --output_path " + (folder / "out").string() +
                         " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto latents = io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
  EXPECT_LE(relative_error(latents, source.tensor(name)), 1e-4) << name;
  EXPECT_TRUE(fs::exists(folder / "out/0001.png"));
}

/// Ten steps of the golden replay have the golden losses and gradient norms `name`. `options` say the model and the data.
inline void expect_steps(const fs::path& golden, const std::string& name, const std::string& options) {
  TempFolder folder;
  auto out = run_burnish("train --max_steps 10 --learning_rate 1e-3 --replay '" + (golden / "replay.safetensors").string() +
                         "' --output_path " + (folder / "run").string() + " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto log = read_log(folder / "run");
  auto source = expected_in(golden);
  auto losses = source.tensor(name + ".loss"), norms = source.tensor(name + ".grad_norm");
  ASSERT_EQ(log.size(), 10u);
  for (size_t i = 0; i < log.size(); ++i) {
    auto loss = losses[static_cast<int64_t>(i)].item<double>(), norm = norms[static_cast<int64_t>(i)].item<double>();
    EXPECT_NEAR(log[i]["loss"].get<double>(), loss, 1e-5 * loss) << name << " step " << i;
    EXPECT_NEAR(log[i]["grad_norm"].get<double>(), norm, 1e-4 * norm) << name << " step " << i;
  }
}

}  // namespace burnish::test
