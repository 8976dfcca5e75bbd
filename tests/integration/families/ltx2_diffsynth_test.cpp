// LTX-2 beside DiffSynth-Studio's own positions, transformer and loss (tests/golden/make_ltx2_diffsynth.py), of recorded noise at times of
// its grid.
#include "tests/integration/families/ltx2.h"
#include "tests/integration/parity.h"

namespace burnish::ltx2_diffsynth_test {
using namespace burnish::test;

namespace {

const fs::path kClips = golden_path("ltx2_clips"), kGiven = golden_path("ltx2_given");

class Ltx2DiffSynthLosses : public testing::TestWithParam<std::string> {
 protected:
  /// The recorded noise with the times and samples of the golden run.
  fs::path replay(const nlohmann::json& samples, const nlohmann::json& sigmas) const {
    const auto source = io::TensorSource::open({(kClips / "replay.safetensors").string()});
    io::NamedTensors tensors;
    for (const auto& name : source.names()) {
      if (name.ends_with("noise")) tensors.emplace_back(name, source.tensor(name).clone());
    }
    for (size_t i = 0; i < sigmas.size(); ++i) {
      const auto step = "step." + std::to_string(i);
      tensors.emplace_back(step + ".sigma", at::scalar_tensor(sigmas[i].get<double>(), at::kFloat));
      tensors.emplace_back(step + ".sample", at::scalar_tensor(samples[i].get<int64_t>(), at::kLong));
    }
    io::save_safetensors(folder_ / "replay.safetensors", tensors);
    return folder_ / "replay.safetensors";
  }
  /// The clips, each beside another; the sound of one without any is another's, and no step comes by it.
  fs::path rows() const {
    nlohmann::json rows;
    const std::vector<std::string> captions{"red apple", "a cat face, smiling", "tree", "red apple"};
    for (size_t i = 0; i < captions.size(); ++i)
      rows.push_back({{"video", (kClips / (std::to_string(i) + ".webp")).string()},
                      {"prompt", captions[i]},
                      {"input_audio", (kClips / (i == 2 ? "0.wav" : std::to_string(i) + ".wav")).string()},
                      {"in_context_videos", {(kClips / (std::to_string((i + 1) % 4) + ".webp")).string()}}});
    io::write_text_atomic(folder_ / "rows.json", rows.dump());
    return folder_ / "rows.json";
  }

  Scratch folder_;
};

}  // namespace

TEST_P(Ltx2DiffSynthLosses, AreThoseOfTenSteps) {
  const auto all = nlohmann::json::parse(read_file(golden_path("ltx2_diffsynth.json")));
  const auto& expected = all[GetParam()];
  const std::string beside = GetParam() == "reference" ? ",in_context_videos --reference_downscale_factor 1 " : " ";
  const auto out = run_burnish("train " + ltx2_model() + option("dataset_metadata_path", rows()) + kLtx2Size + "--num_frames 9 " +
                               option("lora_checkpoint", kLtx2 / "lora.safetensors") +
                               "--loss_weighting diffsynth --extra_inputs input_audio" + beside + "--max_steps 10 --learning_rate 1e-3 " +
                               option("replay", replay(all["samples"], expected["sigma"])) + option("output_path", folder_ / "run"));
  ASSERT_EQ(out.exit_code, 0) << out.output;
  const auto log = read_log(folder_ / "run");
  auto values = [&](const char* name) { return at::tensor(expected[name].get<std::vector<double>>(), at::kDouble); };
  expect_logged(log, "loss", values("loss"), 2e-6);
  expect_logged(log, "grad_norm", values("grad_norm"), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Clips, Ltx2DiffSynthLosses, testing::Values("sounding", "reference"), [](const auto& info) { return info.param; });

}  // namespace burnish::ltx2_diffsynth_test
