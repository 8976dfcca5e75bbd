// Wan in the whole program beside diffusers and peft, trained on clips of nine frames (tests/golden/make_wan_clips.py).
#include "tests/integration/parity.h"
#include "tests/integration/wan/wan_experts.h"

using namespace burnish;
using namespace burnish::test;

namespace {

struct Clips {
  std::string name, model;
  int64_t height = 48;
};
void PrintTo(const Clips& c, std::ostream* out) { *out << c.name; }

class WanClips : public testing::TestWithParam<Clips> {
 protected:
  WanClips() { make_wan_experts(folder_ / "experts"); }

  /// Ten steps with the golden noise have the golden losses and gradient norms, `trained` being "lora" or "full".
  void expect_steps(const std::string& trained, const std::string& options) const {
    const auto& c = GetParam();
    const auto run = folder_ / "run", replay = kWanClips / ("replay_" + (c.name == "experts" ? "t2v" : c.name) + ".safetensors");
    const auto model = c.name == "experts" ? wan_model(folder_ / "experts") : c.model;
    auto out = run_burnish("train " + model + wan_clips(c.height) + "--max_steps 10 --learning_rate 1e-3 --loss_weighting uniform " +
                           option("replay", replay) + option("output_path", run) + options);
    ASSERT_EQ(out.exit_code, 0) << out.output;
    auto log = read_log(run);
    auto source = expected_in(kWanClips);
    expect_logged(log, "loss", source.tensor(c.name + "." + trained + ".loss"), 2e-6);
    expect_logged(log, "grad_norm", source.tensor(c.name + "." + trained + ".grad_norm"), 1e-5);
  }
  std::string lora() const {
    if (GetParam().name == "t2v") return option("lora_checkpoint", kWan / "lora.safetensors");
    if (GetParam().name != "experts") return option("lora_checkpoint", kWanClips / "lora_frames.safetensors");
    auto of = [](const char* noise) { return (kWanExperts / ("lora_" + std::string(noise) + "_noise.safetensors")).string(); };
    return "--lora_checkpoint '" + of("high") + "," + of("low") + "' ";
  }

  Scratch folder_;
};

}  // namespace

TEST_P(WanClips, AdaptersTrainAsWithPeft) { expect_steps("lora", lora()); }
TEST_P(WanClips, AdaptersTrainAsWithPeftWhenBlocksAreRecomputed) { expect_steps("lora", lora() + "--use_gradient_checkpointing"); }
TEST_P(WanClips, AllWeightsTrainAsWithDiffusers) {
  expect_steps("full", GetParam().name == "experts" ? "--trainable_models dit,dit_2" : "--trainable_models dit");
}

INSTANTIATE_TEST_SUITE_P(Of, WanClips,
                         testing::Values(Clips{"t2v", wan_model()}, Clips{"experts", ""}, Clips{"ti2v", wan_from_frame("ti2v"), 32},
                                         Clips{"i2v", wan_from_frame("i2v")}),
                         [](const auto& info) { return info.param.name; });
