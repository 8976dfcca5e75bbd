// VACE beside Wan in the whole program: beside diffusers and peft (tests/golden/make_wan_vace.py), and in all ways of running it.
#include <gmock/gmock.h>

#include "models/families/wan/keys.h"
#include "tests/integration/wan/wan_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kVace = golden_path("wan_vace");
const std::string kGuides = "--extra_inputs vace_video,vace_video_mask,vace_reference_image ";

class WanVace : public WanRun {
 protected:
  WanVace() {
    fs::copy(kWan / "model", at("model"), fs::copy_options::recursive);
    fs::remove_all(at("model") / "transformer");
    fs::copy(kVace / "transformer", at("model") / "transformer");
  }
  std::string model() const { return wan_model(at("model")); }
  static std::string data() {
    return "--dataset_base_path '" + (kGolden / "pictures").string() + "' --dataset_metadata_path '" + (kVace / "metadata.json").string() +
           "' --height 48 --width 64 ";
  }
  std::string train(const std::string& name, const std::string& more) const {
    return ok("train " + model() + more + "--max_steps 3 --learning_rate 1e-3 " + option("output_path", at(name)));
  }
  void steps(const std::string& name, const std::string& more) const {
    test::expect_steps(kVace, name, model() + "--loss_weighting uniform " + data() + kGuides + more);
  }
  at::Tensor drawn(const std::string& more) const {
    ok("sample " + model() + "--prompt 'red apple' --height 32 --width 48 --num_frames 5 --num_inference_steps 4 " + guides() + more +
       option("save_latents", at("latents.safetensors")) + option("output_path", at("drawn")));
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  }
  static std::string guides() {
    return option("vace_video", kVace / "video.webp") + option("vace_video_mask", kVace / "mask.webp") +
           option("vace_reference_image", kVace / "reference.png");
  }
};

const std::string kVaceLora = "--lora_checkpoint '" + (kVace / "lora.safetensors").string() + "' ";
const std::string kModuleLora = "--lora_checkpoint '" + (kVace / "vace_lora.safetensors").string() + "' ";

}  // namespace

TEST_F(WanVace, TrainsAnAdapterOfTheTransformer) { steps("lora", kVaceLora); }
TEST_F(WanVace, TrainsAnAdapterOfTheModule) { steps("vace_lora", kModuleLora + "--use_gradient_checkpointing "); }
TEST_F(WanVace, TrainsTheModuleWhole) { steps("vace", "--trainable_models vace "); }

TEST_F(WanVace, DrawsAClipFromAClipAMaskAndAPicture) {
  auto source = expected_in(kVace);
  io::save_safetensors(at("noise.safetensors"), {{"noise", source.tensor("clip.noise")}});
  EXPECT_LE(relative_error(drawn(option("noise", at("noise.safetensors"))), source.tensor("clip.latents")), tolerance(1e-4));
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.webp"));
}

TEST_F(WanVace, IsEqualLiveSplitAndByTheCommandOfDiffSynthStudio) {
  const auto how = kGuides + "--lora_base_model vace --lora_target_modules q,k,v,o,ffn.0,ffn.2 --lora_rank 4 ";
  train("live", data() + how);
  EXPECT_THAT(ok("train " + model() + data() + kGuides + "--task sft:data_process " + option("output_path", at("cache"))),
              HasSubstr("vace"));
  train("split", "--task sft:train " + option("dataset_base_path", at("cache")) + how);
  auto lora = [&](const std::string& name) { return read_file(at(name) / "step-3.safetensors"); };
  EXPECT_EQ(lora("live"), lora("split"));
  auto names = io::TensorSource::open({(at("live") / "step-3.safetensors").string()}).names();
  EXPECT_EQ(names.size(), 40U) << "ten layers in each of two blocks";
  EXPECT_TRUE(std::ranges::all_of(names, [](const auto& name) { return name.starts_with("transformer.vace_blocks."); })) << names[0];
  ok("train " + model() + data() + how + "--lora_format diffsynth --max_steps 1 --learning_rate 1e-3 " +
     option("output_path", at("theirs")));
  EXPECT_TRUE(
      io::TensorSource::open({(at("theirs") / "step-1.safetensors").string()}).contains("vace_blocks.0.self_attn.q.lora_A.default.weight"));
}

TEST_F(WanVace, ClipsTrainWithTheFramesOfTheRow) {
  auto rows = write("rows.csv", "video,vace_video,vace_reference_image,prompt\nbase.gif,base.gif,base.gif,a cat\n");
  const auto clips = "--dataset_base_path '" + golden_path("clips") + "' --dataset_metadata_path " + quoted(rows) +
                     " --data_file_keys video,vace_video,vace_reference_image --height 32 --width 64 --num_frames 9 --frame_rate 10 "
                     "--extra_inputs vace_video,vace_reference_image --lora_base_model vace --lora_rank 2 ";
  EXPECT_THAT(train("clips", clips), HasSubstr("saved"));
  EXPECT_THAT(train("checkpointed", clips + "--use_gradient_checkpointing "), HasSubstr("saved"));
  EXPECT_EQ(read_file(at("clips") / "step-3.safetensors"), read_file(at("checkpointed") / "step-3.safetensors"));
}

TEST_F(WanVace, ARowWithoutAMaskIsReplacedEverywhere) {
  auto rows_of = [&](const std::string& name, const std::string& mask) {
    return write(name, "video,vace_video,vace_video_mask,prompt\nbase.gif,base.gif," + mask + ",a cat\nbase.gif,base.gif,,a cat\n");
  };
  const auto clips = "--dataset_base_path '" + golden_path("clips") + "' --height 32 --width 64 --num_frames 9 --frame_rate 10 " +
                     "--lora_base_model vace --lora_rank 2 ";
  const auto masks = "--extra_inputs vace_video,vace_video_mask " + clips + "--dataset_metadata_path ";
  train("some", masks + quoted(rows_of("some.csv", "base.gif")) + " --batch_size 2 ");
  train("none", masks + quoted(rows_of("none.csv", "")) + " ");
  train("without", "--extra_inputs vace_video " + clips + "--dataset_metadata_path " + quoted(at("none.csv")) + " ");
  EXPECT_EQ(read_file(at("none") / "step-3.safetensors"), read_file(at("without") / "step-3.safetensors"));
}

/// The module's own blocks take chunks too: what trains is in them alone.
TEST_F(WanVace, TakesFeedForwardLayersInChunks) {
  const auto trained = data() + kGuides + "--trainable_models vace --overwrite ";
  train("whole", trained);
  train("chunks", trained + "--feed_forward_chunk_size 5 ");
  const auto log = read_log(at("chunks")), expected = read_log(at("whole"));
  for (size_t i = 0; i < expected.size(); ++i) {
    double loss = expected.at(i)["loss"], norm = expected[i]["grad_norm"];
    EXPECT_NEAR(log.at(i)["loss"], loss, 2e-6 * loss);
    EXPECT_NEAR(log[i]["grad_norm"], norm, tolerance(1e-5) * norm);
  }
  auto weights = [&](const std::string& name) { return read_file(at(name) / "step-3.vace.safetensors"); };
  EXPECT_NE(weights("whole"), weights("chunks")) << "sums of gradients are rounded in another order";
  train("checkpointed", trained + "--feed_forward_chunk_size 5 --use_gradient_checkpointing ");
  EXPECT_EQ(weights("checkpointed"), weights("chunks"));
}

TEST_F(WanVace, OriginalFilesAreRead) {
  auto folder = io::TensorSource::open({(kVace / "transformer/diffusion_pytorch_model.safetensors").string()});
  io::NamedTensors ours;
  for (const auto& name : folder.names()) ours.emplace_back(name, folder.tensor(name));
  auto whole = drawn("");
  fs::remove_all(at("model") / "transformer");
  fs::create_directory(at("model") / "transformer");
  io::save_safetensors(at("model") / "transformer/diffusion_pytorch_model.safetensors", models::wan::original_keys().to_file(ours));
  std::ofstream(at("model") / "transformer/config.json") << R"({"_class_name": "VaceWanModel", "num_heads": 2, "vace_layers": [0, 2]})";
  EXPECT_TRUE(at::equal(drawn(""), whole));
}

TEST_F(WanVace, AreWrittenIntoOneFileAndOneFolder) {
  auto whole = drawn("");
  ok("convert " + quoted(at("model")) + " " + quoted(at("all.safetensors")));
  EXPECT_TRUE(
      io::SafetensorsFile::open(at("all.safetensors"))->tensors().contains("model.diffusion_model.vace_blocks.0.before_proj.weight"));
  ok("convert " + quoted(at("all.safetensors")) + " " + quoted(at("again")) + " --config_from " + quoted(at("model")));
  fs::remove_all(at("model") / "transformer");
  fs::copy(at("again") / "transformer", at("model") / "transformer");
  EXPECT_TRUE(at::equal(drawn(""), whole));
}

TEST_F(WanVace, AddsSoMuchAsVaceScaleSays) {
  const auto whole = drawn("");
  EXPECT_TRUE(at::equal(drawn("--vace_scale 1,1 "), whole));
  EXPECT_GT(relative_error(drawn("--vace_scale 0.5 "), whole), 1e-3);
  EXPECT_TRUE(at::equal(drawn("--vace_scale 0.5,0.5 "), drawn("--vace_scale 0.5 ")));
  const auto how = data() + kGuides + "--lora_base_model vace --lora_rank 2 ";
  train("one", how);
  train("half", how + "--vace_scale 0.5 ");
  EXPECT_NE(read_log(at("one")).at(0)["loss"], read_log(at("half")).at(0)["loss"]);
  auto refused_with = [&](const std::string& options) {
    auto out = run_burnish("train " + model() + data() + options + "--lora_rank 2 --max_steps 1 " + option("output_path", at("refused")));
    EXPECT_EQ(out.exit_code, 2) << out.output;
    return out.output;
  };
  EXPECT_THAT(refused_with(kGuides + "--vace_scale 1,2,3 "), HasSubstr("vace_scale has 3 numbers and VACE's module 2 blocks"));
  EXPECT_THAT(refused_with(kGuides + "--vace_scale much "), HasSubstr("vace_scale holds 'much'"));
  EXPECT_THAT(refused_with("--vace_scale 0.5 "), HasSubstr("name vace_video in extra_inputs"));
}

TEST_F(WanVace, IsNamedWhereItTrainsWholeAndAnObjectiveNeedsItAsItWas) {
  auto rows = nlohmann::json::parse(read_file(kVace / "metadata.json"));
  for (auto& row : rows) row["rejected_image"] = row["vace_reference_image"];
  auto out = run_burnish("train --task dpo " + model() + option("dataset_base_path", kGolden / "pictures") +
                         option("dataset_metadata_path", write("pairs.json", rows.dump())) + "--height 48 --width 64 " + kGuides +
                         "--trainable_models vace --max_steps 1 " + option("output_path", at("refused")));
  EXPECT_EQ(out.exit_code, 2) << out.output;
  EXPECT_THAT(out.output, HasSubstr("as it was before training, and vace trains whole"));
}

TEST_F(WanVace, RefusesColumnsWithoutItsOwn) {
  auto refused_with = [&](const std::string& which, const std::string& more) {
    auto out = run_burnish("train " + which + data() + more + "--max_steps 1 " + option("output_path", at("refused")));
    EXPECT_EQ(out.exit_code, 2) << out.output;
    return out.output;
  };
  EXPECT_THAT(refused_with(model(), "--extra_inputs vace_reference_image "),
              HasSubstr("extra_inputs names vace_reference_image, which is read together with vace_video"));
  EXPECT_THAT(refused_with(wan_model(), "--extra_inputs vace_video "), HasSubstr("is for VACE, which is not among the files"));
}
