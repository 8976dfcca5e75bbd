// Wan-Animate-2 in the whole program: beside diffusers and peft (tests/golden/make_wan_animate2.py), and in all ways of running it.
#include <gmock/gmock.h>

#include "models/families/wan/keys.h"
#include "tests/integration/wan/wan_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kDriven = golden_path("wan_animate2"), kDrivingClips = golden_path("wan_image/clips"), kNoise = golden_path("wan_animate");
const std::string kDriving = "--extra_inputs animate2_prompt_ref,animate2_reference_image,animate2_reference_video ";

class WanDriving : public WanRun {
 protected:
  static std::string model(const fs::path& transformer = kDriven / "transformer") { return option("model", transformer) + encoders(); }
  static std::string encoders() { return wan_parts({golden_path("wan_image/image_encoder")}); }
  /// The folder of the transformer in the original names.
  fs::path original() const {
    const auto folder = at("Wan2.2-Animate-2-14B");
    if (fs::exists(folder)) return folder;
    fs::create_directories(folder);
    auto weights = io::TensorSource::open({(kDriven / kFile).string()});
    const auto keys = models::wan::diffusers_driven_keys();
    io::NamedTensors ours;
    for (const auto& name : weights.names()) ours.emplace_back(keys.to_ours(name).ours.at(0), weights.tensor(name));
    io::save_safetensors(folder / "diffusion_pytorch_model.safetensors", models::wan::original_driven_keys().to_file(ours));
    std::ofstream(folder / "config.json") << R"({"_class_name": "WanAnimate2Transformer3DModel", "num_heads": 2})";
    return folder;
  }
  static constexpr const char* kFile = "transformer/diffusion_pytorch_model.safetensors";
  static std::string data() {
    return option("dataset_metadata_path", kDriven / "metadata.json") + "--height 48 --width 64 --num_frames 5 --frame_rate 10 ";
  }
  void steps(const std::string& name, const std::string& more) const {
    expect_replayed(kDriven, kNoise / "replay.safetensors", name, model() + data() + kDriving + more);
  }
  at::Tensor drawn(const std::string& of, const std::string& more = "") const {
    const auto clip = paced(kDrivingClips / "1.gif", "driving.gif", 4, 4);
    return latents_of(kNoise, of + "--animate2_prompt_ref cat " + option("animate2_reference_image", kGolden / "pictures/0.png") +
                                  option("animate2_reference_video", clip) + more);
  }
};

}  // namespace

TEST_F(WanDriving, TrainsAnAdapter) { steps("lora", option("lora_checkpoint", kDriven / "lora.safetensors")); }
TEST_F(WanDriving, TrainsLayersByTheirOriginalNames) {
  steps("layers", "--trainable_models dit.blocks.0.block.self_attn.q,dit.blocks.1.block.self_attn.q ");
}
TEST_F(WanDriving, TrainsCheckpointed) {
  steps("layers", "--trainable_models dit.blocks.0.block.self_attn.q,dit.blocks.1.block.self_attn.q --use_gradient_checkpointing ");
}

TEST_F(WanDriving, DrawsAPictureThatMovesAsAClip) {
  EXPECT_LE(relative_error(drawn(model()), expected_in(kDriven).tensor("latents")), tolerance(1e-5));
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.webp"));
  EXPECT_LE(relative_error(drawn(model(), "--cfg_scale 3 --negative_prompt cat "), expected_in(kDriven).tensor("cfg")), tolerance(1e-5));
}

TEST_F(WanDriving, OriginalFilesAreReadAndConvertedBothWays) {
  auto whole = drawn(model());
  EXPECT_TRUE(at::equal(drawn(model(original())), whole));
  EXPECT_THAT(ok("inspect " + quoted(original())), HasSubstr("Wan-Animate-2"));
  ok("convert " + quoted(original()) + " " + quoted(at("folder")));
  auto of_diffusers = io::TensorSource::open({(kDriven / kFile).string()}),
       written = io::TensorSource::open({(at("folder") / kFile).string()});
  EXPECT_EQ(written.names(), of_diffusers.names());
  for (const auto& name : of_diffusers.names()) EXPECT_TRUE(at::equal(written.tensor(name), of_diffusers.tensor(name))) << name;
  ok("convert " + quoted(at("folder/transformer")) + " " + quoted(at("file.safetensors")));
  auto names = io::TensorSource::open({at("file.safetensors").string()}).names();
  EXPECT_TRUE(std::ranges::any_of(names, [](const auto& name) { return name.ends_with("blocks.0.block.self_attn.q.weight"); })) << names[0];
}

TEST_F(WanDriving, IsEqualLiveAndEncodedByAStageWithoutTheTransformer) {
  const auto how = "--lora_base_model dit --lora_target_modules self_attn.q,self_attn.k,self_attn.v --lora_rank 4 ";
  auto live = trained("live", model(original()) + data() + kDriving + how);
  ok("train --task sft:data_process " + encoders() + data() + kDriving + option("output_path", at("cache")));
  EXPECT_EQ(trained("split", "--task sft:train --dtype fp32 " + option("model", original()) + option("dataset_base_path", at("cache")) +
                                 kDriving + how),
            live);
  ASSERT_FALSE(live.empty());
  auto names = io::TensorSource::open({(at("live") / "step-3.safetensors").string()}).names();
  EXPECT_THAT(names, testing::Contains("transformer.blocks.0.self_attn.to_q.lora_A.weight")) << "as diffusers calls them";
}

TEST_F(WanDriving, RefusesSomeOfItsColumns) {
  for (const char* some : {"animate2_reference_image,animate2_reference_video", "animate2_prompt_ref"}) {
    auto out =
        run_burnish("train " + model() + data() + "--max_steps 1 --extra_inputs " + some + " " + option("output_path", at("refused")));
    EXPECT_EQ(out.exit_code, 2) << some << "\n" << out.output;
    EXPECT_THAT(out.output, HasSubstr("name all three")) << some;
  }
}
