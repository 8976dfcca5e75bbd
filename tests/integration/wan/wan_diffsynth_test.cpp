// Wan beside DiffSynth-Studio's own code (tests/golden/make_wan_diffsynth.py): prompts, times of experts, and losses with its weights.
#include <utf8proc.h>

#include "diffusion/timestep_sampling.h"
#include "diffusion/training_grid.h"
#include "tests/integration/parity.h"
#include "tests/integration/wan/wan_experts.h"
#include "tokenizers/tidy_text.h"
#include "tokenizers/tokenizer.h"

using namespace burnish;
using namespace burnish::test;

namespace {

nlohmann::json theirs() { return nlohmann::json::parse(read_file(golden_path("wan_diffsynth.json"))); }

std::string composed(const std::string& text) {
  auto* form = utf8proc_NFKC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  std::string out(reinterpret_cast<const char*>(form));
  free(form);
  return out;
}

struct Case {
  std::string name, model, adapter, replay;
  int64_t height = 48;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class WanDiffSynthLosses : public testing::TestWithParam<Case> {
 protected:
  WanDiffSynthLosses() {
    make_wan_experts(folder_ / "experts");
    auto index = nlohmann::json::parse(read_file(folder_ / "experts/model_index.json"));
    index["boundary_ratio"] = 0.875;
    std::ofstream(folder_ / "experts/model_index.json") << index.dump();
  }
  /// The clips with the golden prompts as captions.
  fs::path metadata() const {
    auto rows = nlohmann::json::array();
    const auto golden = theirs();
    for (const auto& prompt : golden["prompts"])
      rows.push_back({{"video", (kWanClips / (std::to_string(rows.size()) + ".webp")).string()}, {"prompt", prompt["text"]}});
    std::ofstream(folder_ / "metadata.json") << rows.dump();
    return folder_ / "metadata.json";
  }
  /// The noise and samples of a file of wan_clips, with the times of the golden file.
  fs::path replay(const std::string& name, const std::vector<double>& sigmas) const {
    auto source = io::TensorSource::open({kWanClips / ("replay_" + name + ".safetensors")});
    io::NamedTensors tensors;
    for (size_t i = 0; i < sigmas.size(); ++i) {
      const auto step = "step." + std::to_string(i) + ".";
      for (const char* value : {"noise", "sample"}) tensors.emplace_back(step + value, source.tensor(step + value).clone());
      tensors.emplace_back(step + "sigma", at::scalar_tensor(sigmas[i], at::kFloat));
    }
    io::save_safetensors(folder_ / "replay.safetensors", tensors);
    return folder_ / "replay.safetensors";
  }

  Scratch folder_;
};

}  // namespace

TEST(WanDiffSynth, PromptsAreCleanedAndCutAlike) {
  auto tokenizer = tokenizers::load_t5(kWan / "model/tokenizer");
  const auto golden = theirs();
  ASSERT_EQ(golden["prompts"].size(), 4);
  for (const auto& prompt : golden["prompts"]) {
    auto clean = tokenizers::tidy_text(prompt["text"].get<std::string>());
    EXPECT_EQ(composed(clean), composed(prompt["clean"].get<std::string>()));
    auto ids = tokenizer->encode(clean);
    EXPECT_EQ(std::vector<int64_t>(ids.begin(), ids.end()), prompt["ids"].get<std::vector<int64_t>>()) << clean;
  }
}

TEST(WanDiffSynth, ExpertsMeetAtTheSameTime) {
  const nlohmann::json experts = theirs()["experts"];
  const double meet = experts["meet"];
  constexpr double kLast = 1 - 1e-9;
  for (const char* name : {"high", "low"}) {
    diffusion::TimestepOptions options;
    (name == std::string("high") ? options.max_boundary : options.min_boundary) = meet;
    EXPECT_EQ(diffusion::index_at(options, 0, 1000), experts[name][0].get<int>()) << name;
    EXPECT_EQ(diffusion::index_at(options, kLast, 1000), experts[name][1].get<int>() - 1) << name;
  }
  const auto sigmas = diffusion::grid_of({.shift = 5, .last = 0}, 1000);
  EXPECT_GE(sigmas[416], 0.875) << "where the model's own boundary is";
  EXPECT_LT(sigmas[417], 0.875);
}

TEST_P(WanDiffSynthLosses, AreThoseOfTenSteps) {
  const auto& c = GetParam();
  const nlohmann::json expected = theirs()[c.name];
  const auto model = c.model.empty() ? wan_model(folder_ / "experts") + "--experts " + c.name + "_noise " : c.model;
  auto out =
      run_burnish("train " + model + option("dataset_metadata_path", metadata()) + "--height " + std::to_string(c.height) +
                  " --width 64 --num_frames 9 --frame_rate 16 --max_steps 10 --learning_rate 1e-3 " + option("lora_checkpoint", c.adapter) +
                  option("replay", replay(c.replay, expected["sigma"])) + option("output_path", folder_ / "run"));
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto log = read_log(folder_ / "run");
  auto values = [&](const char* name) { return at::tensor(expected[name].get<std::vector<double>>(), at::kDouble); };
  expect_logged(log, "loss", values("loss"), 2e-6);
  expect_logged(log, "grad_norm", values("grad_norm"), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Of, WanDiffSynthLosses,
                         testing::Values(Case{"t2v", wan_model(), kWan / "lora.safetensors", "t2v"},
                                         Case{"high", "", kWanExperts / "lora_high_noise.safetensors", "t2v"},
                                         Case{"low", "", kWanExperts / "lora_low_noise.safetensors", "t2v"},
                                         Case{"ti2v", wan_from_frame("ti2v"), kWanClips / "lora_frames.safetensors", "ti2v", 32},
                                         Case{"i2v", wan_from_frame("i2v"), kWanClips / "lora_frames.safetensors", "i2v"}),
                         [](const auto& info) { return info.param.name; });
