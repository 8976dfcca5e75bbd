// Wan's Fun models and the motion controller in the whole program, on transformers of random weights that a config.json alone describes.
#include <gmock/gmock.h>

#include "tests/integration/wan/wan_run.h"
#include "tests/integration/wan/wan_small.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class WanControl : public WanRun {
 protected:
  WanControl() { fs::copy(kWan / "model", at("model"), fs::copy_options::recursive); }
  /// Puts in place of the transformer one of so many channels.
  void describe(int64_t channels, const std::string& more) const {
    fs::remove_all(at("model") / "transformer");
    fs::create_directory(at("model") / "transformer");
    std::ofstream(at("model") / "transformer/config.json")
        << R"({"_class_name": "WanModel", "dim": 24, "num_heads": 2, "ffn_dim": 32, "freq_dim": 32, "text_dim": 16, "num_layers": 2, )"
        << R"("in_dim": )" << channels << R"(, "out_dim": 16, )" << more << "}";
  }
  std::string data() const {
    auto rows = nlohmann::json::array();
    const char* pictures[] = {"0.png", "1.png", "2.png", "3.png"};
    for (size_t i = 0; i < 4; ++i)
      rows.push_back({{"image", pictures[i]},
                      {"prompt", "a cat"},
                      {"control_video", pictures[(i + 1) % 4]},
                      {"reference_image", {pictures[(i + 2) % 4]}},
                      {"camera_control_direction", i % 2 == 0 ? "Left" : "Up"},
                      {"camera_control_speed", 0.01},
                      {"motion_bucket_id", 10 * i}});
    return "--dataset_base_path '" + (kGolden / "pictures").string() + "' --dataset_metadata_path " +
           quoted(write("rows.json", rows.dump())) + " --height 48 --width 64 ";
  }
  std::vector<double> losses(const std::string& name, const std::string& more) const {
    ok("train " + wan_model(at("model")) + more + " --max_steps 3 --learning_rate 1e-3 " + option("output_path", at(name)));
    std::vector<double> values;
    for (auto& line : read_log(at(name))) values.push_back(line["loss"]);
    return values;
  }
  /// A run from files and one from a cache take the same steps; another one, without the last of the columns, others.
  void expect_read(const std::string& columns, const std::string& fewer) const {
    const std::string extra = "--extra_inputs " + columns + " ";
    losses("made", data() + "--init random --trainable_models dit " + extra);
    fs::copy(at("made") / "step-3.safetensors", at("model") / "transformer/diffusion_pytorch_model.safetensors");
    const std::string how = "--lora_rank 2 ";
    auto live = losses("live", data() + how + extra);
    ok("train " + wan_model(at("model")) + data() + extra + "--task sft:data_process " + option("output_path", at("cache")));
    EXPECT_EQ(losses("split", "--task sft:train " + option("dataset_base_path", at("cache")) + how + extra), live);
    EXPECT_NE(losses("fewer", data() + how + "--extra_inputs " + fewer + " "), live);
  }
};

}  // namespace

TEST_F(WanControl, AClipThatControlsAndAReferencePicture) {
  describe(52, R"("add_ref_conv": true)");
  expect_read("control_video,reference_image", "control_video");
}

TEST_F(WanControl, AClipThatControlsBesideAFirstFrame) {
  describe(48, R"("add_ref_conv": false)");
  expect_read("control_video,input_image", "control_video");
}

TEST_F(WanControl, ACameraThatMovesFromAFirstFrame) {
  describe(36, R"("add_control_adapter": true)");
  expect_read("input_image,camera_control_direction,camera_control_speed", "input_image");
  describe(32, R"("add_control_adapter": true)");
  losses("bare", data() + "--init random --trainable_models dit --extra_inputs input_image,camera_control_direction,camera_control_speed ");
}

TEST_F(WanControl, HowMuchMoves) {
  write_motion_controller(at("motion.safetensors"));
  const auto motion = option("model", at("motion.safetensors")) + "--extra_inputs motion_bucket_id ";
  auto whole = losses("whole", data() + motion + "--trainable_models motion_controller ");
  EXPECT_TRUE(io::TensorSource::open({(at("whole") / "step-3.motion_controller.safetensors").string()}).contains("linear.4.weight"));
  EXPECT_NE(losses("lora", data() + motion), losses("without", data()));
}

// A plan has shapes and no numbers: of samples, and of a size alone.
TEST_F(WanControl, WhatItReadsIsPlanned) {
  write_motion_controller(at("motion.safetensors"));
  const auto planned = [&](int64_t channels, const std::string& more, const std::string& columns, const std::string& beside = "") {
    describe(channels, more);
    for (const auto& samples : {data(), std::string("--height 48 --width 64 ")})
      ok("plan --alone " + wan_model(at("model")) + beside + samples +
         "--init random --trainable_models dit --max_steps 2 --extra_inputs " + columns);
  };
  planned(36, R"("add_control_adapter": true)", "input_image,camera_control_direction,camera_control_speed");
  planned(52, R"("add_ref_conv": true)", "control_video,reference_image");
  planned(16, R"("add_ref_conv": false)", "motion_bucket_id", option("model", at("motion.safetensors")));
}

/// Files in Wan's own layout, of which no config.json tells the channels.
class WanControlFiles : public WanControl {
 protected:
  WanControlFiles() {
    make_wan_original(at("whole"));
    fs::remove(at("whole/config.json"));
    fs::create_directories(at("whole/google"));
    fs::copy(kWan / "model/tokenizer", at("whole/google/umt5-xxl"));
  }
  void expect_alike(const std::string& beside, const std::string& columns, const char* pipeline) const {
    ok("convert " + quoted(at("whole")) + beside + " " + quoted(at("folder")));
    EXPECT_EQ(nlohmann::json::parse(read_file(at("folder/model_index.json")))["_class_name"], pipeline);
    const auto how = data() + "--lora_rank 2 --extra_inputs " + columns + " --dtype fp32 ";
    EXPECT_EQ(trained("of_folder", how + option("model", at("folder"))),
              trained("of_files", how + option("model", at("whole")) + (beside.empty() ? "" : "--model" + beside)));
  }
};

TEST_F(WanControlFiles, OfAFunModelBecomeAFolder) {
  nlohmann::json unread;
  const SmallWan small{.transformer = kWan / "model/transformer", .in_channels = 52, .has_reference = true};
  io::save_safetensors(at("whole") / kTransformerFile, transformer_of(small, small.transformer, unread));
  expect_alike("", "control_video,reference_image", "WanFunControlPipeline");
  const auto config = nlohmann::json::parse(read_file(at("folder/transformer/config.json")));
  EXPECT_EQ(config["add_ref_conv"], true);
  EXPECT_EQ(config["_class_name"], "WanModel") << "which diffusers does not take for its own";
}

TEST_F(WanControlFiles, WithAMotionControllerBecomeAFolder) {
  write_motion_controller(at("motion.safetensors"));
  expect_alike(" " + quoted(at("motion.safetensors")), "motion_bucket_id", "WanPipeline");
  EXPECT_TRUE(fs::exists(at("folder/motion_controller/diffusion_pytorch_model.safetensors")));
}

TEST_F(WanControl, RefusesColumnsThatTheModelLacks) {
  auto refused = [&](const std::string& columns) {
    auto out = run_burnish("train " + wan_model(at("model")) + data() + "--extra_inputs " + columns + " --max_steps 1 " +
                           option("output_path", at("refused")));
    EXPECT_EQ(out.exit_code, 2) << out.output;
    return out.output;
  };
  EXPECT_THAT(refused("control_video"), HasSubstr("is for a Fun Control model"));
  EXPECT_THAT(refused("motion_bucket_id"), HasSubstr("is for a motion controller"));
  EXPECT_THAT(refused("camera_control_direction"), HasSubstr("is read together with camera_control_speed"));
}
