// Wan-Animate in the whole program: beside diffusers and peft (tests/golden/make_wan_animate.py), and in all ways of running it.
#include <gmock/gmock.h>

#include "models/families/wan/animate.h"
#include "models/families/wan/keys.h"
#include "tests/integration/wan/wan_original.h"
#include "tests/integration/wan/wan_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kAnimated = golden_path("wan_animate"), kFirstClips = golden_path("wan_image/clips");
const std::string kColumns = "--extra_inputs input_image,animate_pose_video,animate_face_video ";

class WanAnimate : public WanRun {
 protected:
  std::string model(const fs::path& transformer = kAnimated / "transformer") const {
    return wan_parts({transformer, fs::path(golden_path("wan_image/image_encoder"))});
  }
  /// The transformer with its module in the original names, whose blurs have kernels, and the config.json of such a folder.
  fs::path original() const {
    const auto folder = at("Wan2.2-Animate-14B");
    if (fs::exists(folder)) return folder;
    fs::create_directories(folder);
    auto weights = io::TensorSource::open({(kAnimated / "transformer/diffusion_pytorch_model.safetensors").string()});
    io::NamedTensors of_dit, of_module;
    for (const auto& name : weights.names()) {
      const bool is_of_module = name.starts_with("pose_") || name.starts_with("motion_") || name.starts_with("face_");
      (is_of_module ? of_module : of_dit).emplace_back(name, weights.tensor(name));
    }
    auto all = models::wan::original_keys().to_file(of_dit);
    for (auto& tensor : models::wan::animate_keys(2).to_file(of_module)) all.push_back(std::move(tensor));
    all.emplace_back("motion_encoder.enc.net_app.convs.1.conv2.0.kernel", at::ones({4, 4}));
    io::save_safetensors(folder / "diffusion_pytorch_model.safetensors", all);
    std::ofstream(folder / "config.json") << R"({"_class_name": "WanAnimateModel", "num_heads": 2})";
    return folder;
  }
  static std::string data() {
    return option("dataset_metadata_path", kAnimated / "faces/metadata.csv") + "--height 48 --width 64 --num_frames 5 --frame_rate 10 ";
  }
  void steps(const std::string& name, const std::string& more) const {
    expect_replayed(kAnimated, kAnimated / "replay.safetensors", name, model() + data() + kColumns + more);
  }
  at::Tensor drawn(const std::string& of, const std::string& more = "") const {
    return latents_of(kAnimated, of + option("reference", kGolden / "pictures/0.png") +
                                     option("animate_pose_video", faster(kFirstClips / "1.gif", "poses.gif")) +
                                     option("animate_face_video", faster(kAnimated / "faces/0.gif", "face.gif")) + more);
  }
};

}  // namespace

TEST_F(WanAnimate, TrainsAnAdapterOfTheTransformer) { steps("lora", option("lora_checkpoint", kAnimated / "lora.safetensors")); }
TEST_F(WanAnimate, TrainsTheModuleWhole) { steps("module", "--trainable_models animate_adapter "); }
TEST_F(WanAnimate, TrainsTheModuleCheckpointed) { steps("module", "--trainable_models animate_adapter --use_gradient_checkpointing "); }

TEST_F(WanAnimate, DrawsAPictureThatMovesAsAClip) {
  EXPECT_LE(relative_error(drawn(model()), expected_in(kAnimated).tensor("latents")), tolerance(1e-5));
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.webp"));
}

TEST_F(WanAnimate, GuidanceLeadsAwayFromABlackFace) {
  EXPECT_LE(relative_error(digest(drawn(model(), "--cfg_scale 2.5 --negative_prompt cat ")), expected_in(kAnimated).tensor("guided")),
            tolerance(1e-5));
}

TEST_F(WanAnimate, DrawsWhatIsMaskedOfAClipAndGoesOnFromFrames) {
  const auto kept = option("animate_inpaint_video", faster(kFirstClips / "0.gif", "kept.gif")) +
                    option("animate_mask_video", faster(kAnimated / "mask.gif", "mask.gif"));
  const auto previous = option("animate_previous_frames", kGolden / "pictures/2.png");
  for (const auto& [name, more] : {std::pair("kept", kept), {"on", previous}, {"both", kept + previous}})
    EXPECT_LE(relative_error(digest(drawn(model(), more)), expected_in(kAnimated).tensor(name)), tolerance(1e-5)) << name;
}

TEST_F(WanAnimate, TrainsWithTheFurtherColumns) {
  fs::create_directories(at("data"));
  const auto first = (kFirstClips / "0.gif").string(), second = (kFirstClips / "1.gif").string();
  std::ofstream(at("data/metadata.csv"))
      << "video,prompt,animate_pose_video,animate_face_video,animate_inpaint_video,animate_mask_video,animate_previous_frames\n"
      << first << ",red apple," << second << "," << (kAnimated / "faces/0.gif").string() << "," << first << ","
      << (kAnimated / "mask.gif").string() << "," << (kGolden / "pictures/2.png").string() << "\n";
  const auto of = model() + option("dataset_metadata_path", at("data/metadata.csv")) +
                  "--height 48 --width 64 --num_frames 5 --frame_rate 10 --lora_rank 4 --extra_inputs "
                  "input_image,animate_pose_video,animate_face_video";
  auto plain = trained("plain", of + " ");
  auto more = trained("more", of + ",animate_inpaint_video,animate_mask_video,animate_previous_frames ");
  EXPECT_FALSE(more.empty());
  EXPECT_NE(more, plain);
}

TEST_F(WanAnimate, IsConvertedBothWays) {
  auto whole = drawn(model());
  ok("convert " + quoted(original()) + " " + quoted(at("folder")));
  EXPECT_TRUE(at::equal(drawn(model(at("folder/transformer"))), whole));
  ok("convert " + quoted(at("folder/transformer")) + " " + quoted(at("file.safetensors")));
  auto back = io::TensorSource::open({at("file.safetensors").string()}).below("model.diffusion_model.");
  auto before = io::TensorSource::open({(original() / "diffusion_pytorch_model.safetensors").string()});
  int64_t num_equal = 0;
  for (const auto& name : before.names()) {
    if (name.ends_with(".kernel")) continue;  // which are the same in all files
    ASSERT_TRUE(back.contains(name)) << name << " of " << back.names().front();
    EXPECT_TRUE(at::equal(back.tensor(name), before.tensor(name))) << name;
    ++num_equal;
  }
  EXPECT_EQ(num_equal, std::ssize(back.names()));
}

TEST_F(WanAnimate, OriginalFilesBecomeAFolderOfDiffusersWithoutAnother) {
  make_wan_original(at("whole"));
  for (const char* file : {"config.json", "diffusion_pytorch_model.safetensors"})
    fs::copy_file(original() / file, at("whole") / file, fs::copy_options::overwrite_existing);
  fs::create_directories(at("whole/google"));
  fs::copy(kWan / "model/tokenizer", at("whole/google/umt5-xxl"));
  ok("convert " + quoted(at("whole")) + " " + quoted(fs::path(golden_path("wan_image/image_encoder"))) + " " + quoted(at("folder")));
  auto of_diffusers = nlohmann::json::parse(read_file(kAnimated / "transformer/config.json"));
  for (const char* not_of_weights : {"_diffusers_version", "rope_max_seq_len", "motion_encoder_batch_size"})
    of_diffusers.erase(not_of_weights);
  const auto config = nlohmann::json::parse(read_file(at("folder/transformer/config.json")));
  for (const auto& [name, value] : of_diffusers.items()) EXPECT_EQ(config.value(name, nlohmann::json("missing")), value) << name;
  EXPECT_EQ(nlohmann::json::parse(read_file(at("folder/model_index.json")))["_class_name"], "WanAnimatePipeline");
  EXPECT_EQ(nlohmann::json::parse(read_file(at("folder/scheduler/scheduler_config.json")))["flow_shift"], 5);
  EXPECT_TRUE(at::equal(drawn(wan_model(at("folder")), "--sampler euler "), drawn(model())));
}

TEST_F(WanAnimate, OriginalFilesAreRead) {
  auto whole = drawn(model());
  EXPECT_TRUE(at::equal(drawn(model(original())), whole));
  EXPECT_THAT(ok("inspect " + quoted(original())), HasSubstr("Wan-Animate"));
}

TEST_F(WanAnimate, IsEqualLiveAndSplitAndByTheCommandsOfDiffSynthStudio) {
  const auto how = "--lora_base_model dit --lora_target_modules q,k,v,o,ffn.0,ffn.2 --lora_rank 4 ";
  const auto keys = "--data_file_keys video,animate_pose_video,animate_face_video ";
  auto live = trained("live", model(original()) + data() + keys + kColumns + how);
  ok("train --task sft:data_process " + model(original()) + data() + kColumns + option("output_path", at("cache")));
  EXPECT_EQ(trained("split", "--task sft:train --dtype fp32 " + option("model", original()) + option("dataset_base_path", at("cache")) +
                                 kColumns + how),
            live);
  trained("full",
          model(original()) + data() + keys + kColumns +
              "--trainable_models animate_adapter --remove_prefix_in_ckpt pipe.animate_adapter. --use_gradient_checkpointing_offload ");
  auto names = io::TensorSource::open({(at("full") / "step-3.animate_adapter.safetensors").string()}).names();
  EXPECT_TRUE(std::ranges::any_of(names, [](const auto& name) { return name.ends_with("motion_synthesis_weight"); })) << names[0];
}

TEST_F(WanAnimate, RefusesSomeOfItsColumns) {
  for (const char* some : {"animate_pose_video,animate_face_video", "input_image,animate_face_video"}) {
    auto out =
        run_burnish("train " + model() + data() + "--max_steps 1 --extra_inputs " + some + " " + option("output_path", at("refused")));
    EXPECT_EQ(out.exit_code, 2) << some << "\n" << out.output;
    EXPECT_THAT(out.output, HasSubstr("name all three in extra_inputs")) << some;
  }
  refused(2,
          "train " + model() + data() + "--max_steps 1 " + kColumns.substr(0, kColumns.size() - 1) + ",animate_mask_video " +
              option("output_path", at("refused")),
          {"animate_mask_video, which is read together with animate_inpaint_video"});
}
