#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The whole program beside golden files of another: a folder with noise and latents in expected.safetensors, and replay.safetensors.
namespace burnish::test {

inline io::TensorSource expected_in(const fs::path& golden) { return io::TensorSource::open({(golden / "expected.safetensors").string()}); }

/// Two pictures of `size`, drawn in four steps from the golden noise, have the golden latents `name` up to `bound`. `options` say the model
/// and the prompts.
inline void expect_latents(const fs::path& golden, const std::string& name, const std::string& options, double bound = 1e-4,
                           const std::string& size = "--height 48 --width 64 ") {
  Scratch folder;
  auto source = expected_in(golden);
  io::NamedTensors noise{{"noise", source.tensor("noise")}};
  for (const auto& stream : source.names()) {
    if (stream.ends_with("latents_noise")) noise.emplace_back(stream, source.tensor(stream));
  }
  io::save_safetensors(folder / "noise.safetensors", noise);
  auto out =
      run_burnish("sample " + size + "--num_inference_steps 4 --noise " + (folder / "noise.safetensors").string() + " --save_latents " +
                  (folder / "latents.safetensors").string() + " --output_path " + (folder / "out").string() + " " + options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto latents = io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
  EXPECT_LE(relative_error(latents, source.tensor(name)), tolerance(bound)) << name;
  EXPECT_TRUE(fs::exists(folder / "out/0001.png"));
}

/// The log of ten steps of the golden replay. `options` say the model and the data.
inline std::vector<nlohmann::json> replayed(const fs::path& golden, const std::string& options) {
  Scratch folder;
  auto out = run_burnish("train --max_steps 10 --learning_rate 1e-3 --replay '" + (golden / "replay.safetensors").string() +
                         "' --output_path " + (folder / "run").string() + " " + options);
  EXPECT_EQ(out.exit_code, 0) << out.output;
  return read_log(folder / "run");
}

inline void expect_logged(const std::vector<nlohmann::json>& log, const char* field, const at::Tensor& expected, double bound) {
  ASSERT_EQ(std::ssize(log), expected.numel());
  for (int64_t i = 0; i < expected.numel(); ++i) {
    auto value = expected[i].item<double>();
    EXPECT_NEAR(log[static_cast<size_t>(i)][field].get<double>(), value, tolerance(bound) * value) << field << " of step " << i;
  }
}

/// They have the golden losses `name` up to `bound`, and gradient norms.
inline void expect_steps(const fs::path& golden, const std::string& name, const std::string& options, double bound = 1e-5) {
  SCOPED_TRACE(name);
  auto log = replayed(golden, options);
  auto source = expected_in(golden);
  expect_logged(log, "loss", source.tensor(name + ".loss"), bound);
  expect_logged(log, "grad_norm", source.tensor(name + ".grad_norm"), 1e-4);
}

/// They have the losses of DiffSynth-Studio's own code (tests/golden/make_families_diffsynth.py).
inline void expect_diffsynth_losses(const fs::path& golden, const std::string& name, const std::string& options) {
  expect_logged(replayed(golden, options + " --loss_weighting uniform"), "loss",
                test::golden("families_diffsynth.safetensors").tensor(name + ".loss"), 1e-5);
}

/// The golden pictures and captions as rows of a file, each with reference pictures of `folder`: one, two, none and another one.
inline void write_rows_with_references(const fs::path& file, const fs::path& folder) {
  std::ofstream rows(file);
  std::ifstream captions(kGolden / "pictures/metadata.csv");
  std::string line;
  std::getline(captions, line);
  for (const auto& names : std::vector<std::vector<std::string>>{{"a.png"}, {"b.png", "a.png"}, {}, {"b.png"}}) {
    std::getline(captions, line);
    auto paths = nlohmann::json::array();
    for (const auto& name : names) paths.push_back((folder / name).string());
    auto caption = line.substr(line.find(',') + 1);
    std::erase_if(caption, [](char c) { return c == '"' || c == '\r'; });
    rows << nlohmann::json{{"image", (kGolden / "pictures" / line.substr(0, line.find(','))).string()},
                           {"prompt", caption},
                           {"edit_image", paths}}
                .dump()
         << "\n";
  }
}

}  // namespace burnish::test
