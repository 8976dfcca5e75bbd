// SCAIL-2 in the whole program: beside diffusers' parts and peft (tests/golden/make_wan_scail.py), and in all ways of running it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "models/families/wan/keys.h"
#include "tests/integration/wan/wan_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kScail = golden_path("wan_scail");
const std::string kFour = "scail2_reference_image,scail2_reference_mask,scail2_driving_video,scail2_driving_mask";
const std::string kCasting = "--extra_inputs " + kFour + " ", kCastingInWays = "--extra_inputs " + kFour + ",scail2_replace ";

class WanScailRun : public WanRun {
 protected:
  static std::string model(const fs::path& transformer = kScail / "transformer") { return option("model", transformer) + encoders(); }
  static std::string encoders() { return wan_parts({golden_path("wan_image/image_encoder")}); }
  static std::string data(const fs::path& metadata = kScail / "metadata.json") {
    return option("dataset_metadata_path", metadata) + option("dataset_base_path", kScail) +
           "--height 32 --width 64 --num_frames 5 --frame_rate 10 ";
  }
  static constexpr const char* kFile = "transformer/diffusion_pytorch_model.safetensors";
  void steps(const std::string& name, const std::string& more) const {
    ok("train --max_steps 10 --learning_rate 1e-3 --loss_weighting uniform " + option("replay", kScail / "replay.safetensors") +
       option("output_path", at("replayed")) + model() + data() + more);
    auto log = read_log(at("replayed"));
    expect_logged(log, "loss", expected_in(kScail).tensor(name + ".loss"), 2e-6);
    expect_logged(log, "grad_norm", expected_in(kScail).tensor(name + ".grad_norm"), 1e-4);
  }
  std::string given(int64_t number) const {
    const auto clips = kScail / "clips", drive = clips / ("drive." + std::to_string(number));
    std::string options;
    for (const std::string picture : number == 0 ? std::vector{"0"} : std::vector{"1", "2"}) {
      options += option("scail2_reference_image", clips / ("picture." + picture + ".png"));
      options += option("scail2_reference_mask", clips / ("picture." + picture + ".mask.png"));
    }
    return options + option("scail2_driving_video", faster(drive.string() + ".gif", "drive.gif")) +
           option("scail2_driving_mask", faster(drive.string() + ".mask.gif", "mask.gif"));
  }
  at::Tensor drawn(const std::string& of, const std::string& more = "") const {
    io::save_safetensors(at("noise.safetensors"), {{"noise", expected_in(kScail).tensor("noise").clone()}});
    ok("sample --prompt 'red apple' --height 32 --width 64 --num_frames 5 --num_inference_steps 4 " +
       option("noise", at("noise.safetensors")) + option("save_latents", at("latents.safetensors")) + option("output_path", at("drawn")) +
       of + more);
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  }
  /// Metadata in which a row's cell is another one.
  fs::path changed(const std::string& column, const nlohmann::json& cell) const {
    auto rows = nlohmann::json::parse(read_file(kScail / "metadata.json"));
    for (auto& row : rows) {
      if (cell.is_null()) row.erase(column);
      else row[column] = cell;
    }
    return write("metadata.json", rows.dump());
  }
};

}  // namespace

TEST_F(WanScailRun, TrainsAnAdapterInBothWays) { steps("lora", kCastingInWays + option("lora_checkpoint", kScail / "lora.safetensors")); }
TEST_F(WanScailRun, TrainsItsConvolutions) {
  const std::string patches = "--trainable_models dit.patch_embedding,dit.patch_embedding_pose,dit.patch_embedding_mask ";
  steps("patches", kCasting + patches);
  steps("patches", kCasting + patches + "--use_gradient_checkpointing --overwrite ");
}

TEST_F(WanScailRun, DrawsAPictureThatMovesAsAClip) {
  EXPECT_LE(relative_error(drawn(model(), given(0)), expected_in(kScail).tensor("animation")), tolerance(1e-5));
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.webp"));
  EXPECT_LE(relative_error(drawn(model(), given(0) + "--cfg_scale 3 --negative_prompt cat "), expected_in(kScail).tensor("cfg")),
            tolerance(1e-5));
}

TEST_F(WanScailRun, DrawsAClipWithItsPersonReplacedByTwoPictures) {
  EXPECT_LE(relative_error(drawn(model(), given(1) + "--scail2_replace 1 "), expected_in(kScail).tensor("replacement")), tolerance(1e-5));
}

TEST_F(WanScailRun, PublishedNamesAreReadAndWritten) {
  auto whole = drawn(model(), given(0));
  EXPECT_THAT(ok("inspect " + quoted(kScail / "transformer")), HasSubstr("SCAIL-2"));
  ok("convert " + quoted(kScail / "transformer") + " " + quoted(at("SCAIL_2.safetensors")));
  ok("convert " + quoted(kScail / "transformer") + " " + quoted(at("folder")));
  auto published = io::TensorSource::open({(kScail / kFile).string()});
  for (const auto& written : {at("SCAIL_2.safetensors"), at("folder") / kFile})
    EXPECT_EQ(io::TensorSource::open({written.string()}).names(), published.names()) << written;
  auto config = nlohmann::json::parse(read_file(at("folder/transformer/config.json")));
  EXPECT_EQ(config["_class_name"], "WanSCAILModel");
  EXPECT_EQ(config["mask_dim"], 28);
  EXPECT_TRUE(at::equal(drawn(model(at("folder/transformer")), given(0)), whole));
}

/// A LoRA in the names of ComfyUI's for it, with changes of biases, of layers in blocks and of the convolutions before them.
TEST_F(WanScailRun, LorasInComfyUisNamesAreRead) {
  const std::string before = "diffusion_model.", layer = before + "blocks.0.cross_attn.k_img.lora_";
  io::save_safetensors(at("dpo.safetensors"), {{layer + "down.weight", at::full({2, 24}, 0.3)},
                                               {layer + "up.weight", at::full({24, 2}, 0.5)},
                                               {before + "blocks.1.self_attn.q.diff_b", at::full({24}, 0.4)},
                                               {before + "patch_embedding_mask.diff_b", at::full({24}, 0.7)}});
  const auto plain = drawn(model(), given(0)), with = drawn(model(), given(0) + option("lora", at("dpo.safetensors")));
  EXPECT_GT(relative_error(with, plain), 1e-3);
  // The same numbers in the weights themselves.
  auto file = io::TensorSource::open({(kScail / kFile).string()});
  io::NamedTensors merged;
  for (const auto& name : file.names()) merged.emplace_back(name, file.tensor(name).to(at::kFloat));
  for (auto& [name, tensor] : merged) {
    if (name == "blocks.0.cross_attn.k_img.weight") tensor = tensor + 2 * 0.3 * 0.5;
    if (name == "blocks.1.self_attn.q.bias") tensor = tensor + 0.4;
    if (name == "patch_embedding_mask.bias") tensor = tensor + 0.7;
  }
  fs::create_directories(at("merged"));
  io::save_safetensors(at("merged") / "diffusion_pytorch_model.safetensors", merged);
  fs::copy(kScail / "transformer/config.json", at("merged") / "config.json");
  EXPECT_LE(relative_error(with, drawn(model(at("merged")), given(0))), tolerance(1e-5));
}

TEST_F(WanScailRun, IsEqualLiveCachedResumedAndEncodedByAStageWithoutTheTransformer) {
  const std::string how = "--lora_rank 4 ";
  auto live = trained("live", model() + data() + kCastingInWays + how);
  ASSERT_FALSE(live.empty());
  EXPECT_EQ(trained("cached", model() + data() + kCastingInWays + how + option("cache_path", at("kept"))), live);
  EXPECT_EQ(trained("again", model() + data() + kCastingInWays + how + option("cache_path", at("kept"))), live);
  ok("train --max_steps 2 --save_steps 1 --learning_rate 1e-3 " + option("output_path", at("halted")) + model() + data() + kCastingInWays +
     how);
  ok("train --max_steps 3 --learning_rate 1e-3 --resume " + option("output_path", at("halted")) + model() + data() + kCastingInWays + how);
  EXPECT_EQ(read_file(at("halted") / "step-3.safetensors"), live);
  ok("train --task sft:data_process " + encoders() + data() + kCastingInWays + option("output_path", at("cache")));
  EXPECT_EQ(trained("split", "--task sft:train --dtype fp32 " + option("model", kScail / "transformer") +
                                 option("dataset_base_path", at("cache")) + kCastingInWays + how),
            live);
}

TEST_F(WanScailRun, RefusesWhatDoesNotGoTogether) {
  auto refused = [&](const std::string& inputs, const fs::path& metadata, const std::string& why, int code) {
    auto out = run_burnish("train " + model() + data(metadata) + "--max_steps 1 --overwrite " + inputs + option("output_path", at("no")));
    EXPECT_EQ(out.exit_code, code) << out.output;
    EXPECT_THAT(out.output, HasSubstr(why));
  };
  const auto metadata = kScail / "metadata.json";
  refused("", metadata, "SCAIL-2 moves a picture as a clip does", 2);
  refused("--extra_inputs scail2_driving_video,scail2_reference_image ", metadata, "name all four", 2);
  refused("--extra_inputs input_image," + kFour + " ", metadata, "", 2);
  const auto clips = kScail / "clips";
  refused(kCasting, changed("scail2_driving_mask", nullptr), "has nothing in the column 'scail2_driving_mask'", 3);
  refused(kCasting, changed("scail2_reference_image", nullptr), "names no picture of a sample", 3);
  refused(kCasting, changed("scail2_reference_mask", {(clips / "picture.0.mask.png").string(), (clips / "picture.0.mask.png").string()}),
          "name a mask for each picture", 3);
  refused(kCastingInWays, changed("scail2_replace", 2), "'scail2_replace' says 2", 3);
  auto taller = data();
  taller.replace(taller.find("--height 32"), 11, "--height 48");
  auto sizes = run_burnish("train " + model() + taller + "--max_steps 1 " + kCasting + option("output_path", at("no")));
  EXPECT_EQ(sizes.exit_code, 2) << sizes.output;
  EXPECT_THAT(sizes.output, HasSubstr("multiples of 32"));
}
