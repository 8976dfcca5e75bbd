// Bernini-R in the whole program: beside diffusers' parts and peft (tests/golden/make_wan_bernini.py), and in all ways of running it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/integration/wan/wan_experts.h"
#include "tests/integration/wan/wan_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kBernini = golden_path("wan_bernini");
const std::string kChanging = "--extra_inputs bernini_source_video,bernini_source_images ";

class WanBerniniRun : public WanRun {
 protected:
  static std::string data(const fs::path& metadata = kBernini / "metadata.json") {
    return option("dataset_metadata_path", metadata) + "--num_frames 9 --frame_rate 16 ";
  }
  void steps(const std::string& name, const std::string& more) const {
    ok("train --max_steps 10 --learning_rate 1e-3 --loss_weighting uniform " + option("replay", kBernini / "replay.safetensors") +
       option("output_path", at("replayed")) + wan_model() + data() + kChanging + more);
    auto log = read_log(at("replayed"));
    expect_logged(log, "loss", expected_in(kBernini).tensor(name + ".loss"), 2e-6);
    expect_logged(log, "grad_norm", expected_in(kBernini).tensor(name + ".grad_norm"), 1e-5);
  }
  static std::string given() {
    return option("bernini_source_video", kWanClips / "1.webp") + option("bernini_source_images", kGolden / "pictures/2.png") +
           option("bernini_source_images", kBernini / "small.png");
  }
  at::Tensor drawn(const std::string& options) const {
    io::save_safetensors(at("noise.safetensors"), {{"noise", expected_in(kBernini).tensor("noise").clone()}});
    ok("sample --prompt 'red apple' --height 48 --width 64 --num_frames 9 --num_inference_steps 4 " +
       option("noise", at("noise.safetensors")) + option("save_latents", at("latents.safetensors")) + option("output_path", at("drawn")) +
       options);
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  }
  void expect_drawn(const std::string& name, const std::string& options) const {
    EXPECT_LE(relative_error(drawn(wan_parts({kWan / "model/transformer"}) + options), expected_in(kBernini).tensor(name)), tolerance(1e-5))
        << name;
  }
};

}  // namespace

TEST_F(WanBerniniRun, AdaptersTrainAsWithPeft) {
  const auto lora = option("lora_checkpoint", kBernini / "lora.safetensors");
  steps("lora", lora);
  steps("lora", lora + "--use_gradient_checkpointing --overwrite ");
}
TEST_F(WanBerniniRun, AllWeightsTrainAsWithDiffusers) { steps("full", "--trainable_models dit "); }

TEST_F(WanBerniniRun, DrawsWhatItIsGiven) {
  expect_drawn("plain", given());
  expect_drawn("cfg", given() + "--cfg_scale 3 --negative_prompt cat ");
  std::string many;
  for (int i = 0; i < 7; ++i) many += option("bernini_source_images", kGolden / "pictures" / (std::to_string(i % 4) + ".png"));
  expect_drawn("many", many);
}

TEST_F(WanBerniniRun, GivesTheSameAdapterInAllWaysOfRunning) {
  const auto how = wan_model() + "--lora_rank 2 --lora_target_modules to_q,to_v " + kChanging;
  const auto live = trained("live", how + data() + "--precompute none --precompute_timesteps off ");
  EXPECT_NE(live, "");
  EXPECT_EQ(trained("kept", how + data()), live);
  EXPECT_EQ(trained("ahead", how + data() + "--precompute_timesteps on "), live);
  ok("train " + wan_model() + kChanging + data() + "--task sft:data_process " + option("output_path", at("cache")));
  EXPECT_EQ(trained("split", how + "--task sft:train " + option("dataset_base_path", at("cache"))), live);
}

TEST_F(WanBerniniRun, ExpertsAndAClipAloneTrain) {
  make_wan_experts(at("experts"));
  const auto how = wan_model(at("experts")) + "--lora_rank 2 --extra_inputs bernini_source_video ";
  EXPECT_THAT(ok("train --max_steps 2 " + option("output_path", at("both")) + how + data()), HasSubstr("Bernini-R"));
  EXPECT_THAT(ok("plan --max_steps 2 " + option("output_path", at("planned")) + how + data()), HasSubstr("peak"));
}

TEST_F(WanBerniniRun, OtherTransformersAndFirstFramesAreRefused) {
  auto refused = [&](const std::string& options, const std::string& words) {
    expect_one_error(run_burnish("train --max_steps 1 " + option("output_path", at("none")) + options + data(), "BURNISH_LOG=error"), 2,
                     {words});
  };
  auto without_frame = wan_from_frame("i2v");
  without_frame = without_frame.substr(0, without_frame.find("--extra_inputs"));
  refused(without_frame + kChanging, "whose transformer reads noise and texts alone");
}
