// What of LongCat-Video other families have not: names of other programs' adapters, the makers' own among them, folders without an index,
// files in Wan's names, frames that a clip goes on from.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/integration/families/longcat_video.h"
#include "tests/integration/model_run.h"
#include "tests/integration/refused.h"

namespace burnish::longcat_video_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kAdapterFile = kLongCatVideo / "lora.safetensors";

class LongCatVideoRun : public ModelRun {
 protected:
  LongCatVideoRun() : ModelRun(longcat_video_model()) {}
  double away(const std::string& options, const at::Tensor& from) const {
    return relative_error(latents(longcat_video_model(), options), from);
  }
  io::TensorSource dit(const fs::path& model = kLongCatVideo / "model") const {
    return io::TensorSource::open_folder(model / "dit", {"diffusion_pytorch_model"});
  }
  void refused(const std::string& options, const std::vector<std::string>& words) const {
    expect_one_error(run_burnish("train " + longcat_video_model() + clips_of_nine() + "--lora_rank 4 --max_steps 1 --output_path " +
                                     quoted(at("refused")) + " " + options,
                                 "BURNISH_LOG=error"),
                     2, words);
  }
};

}  // namespace

TEST_F(LongCatVideoRun, AdaptersOfEveryProgramAreTheSame) {
  const auto expected = latents(longcat_video_model(), "--lora " + quoted(kAdapterFile));
  EXPECT_GT(away("", expected), 1e-2);
  auto behind = [](const std::string& prefix, const char* down, const char* up) {
    return [=](const std::string& layer, bool is_down) { return prefix + layer + (is_down ? down : up); };
  };
  const char *lora_a = ".lora_A.weight", *lora_b = ".lora_B.weight";
  for (const auto& [name, rename] : std::map<std::string, std::function<std::string(const std::string&, bool)>>{
           {"peft", behind("base_model.model.", lora_a, lora_b)},
           {"pipeline", behind("pipe.dit.", lora_a, lora_b)},
           {"diffsynth", behind("", ".lora_A.default.weight", ".lora_B.default.weight")}}) {
    rename_lora(kAdapterFile, at("renamed.safetensors"), rename);
    EXPECT_LE(away("--lora " + quoted(at("renamed.safetensors")), expected), 1e-6) << name;
  }
  for (const auto& [format, key] : {std::pair("diffusers", "transformer.blocks.0.attn.qkv.lora_A.weight"),
                                    {"diffsynth", "blocks.1.cross_attn.kv_linear.lora_B.default.weight"},
                                    {"comfyui", "diffusion_model.blocks.0.self_attn.q.lora_A.weight"},
                                    {"kohya", "lora_unet_blocks_1_ffn_w3.lora_down.weight"}}) {
    const auto written = at(std::string(format) + ".safetensors");
    run_ok("convert " + quoted(kAdapterFile) + " " + quoted(written) + " --lora_format " + format + " " + longcat_video_model());
    EXPECT_TRUE(io::TensorSource::open({written.string()}).contains(key)) << format;
    EXPECT_LE(away("--lora " + quoted(written), expected), 1e-5) << format;
  }
}

/// The makers' adapters have, for a fused layer, an up projection for each of its parts, and of the down projection as many rows each.
TEST_F(LongCatVideoRun, TheMakersAdaptersAreRead) {
  at::manual_seed(3);
  const double scale = 0.5;
  const int64_t rank = 4, width = 32;
  const std::string hyphen = "___lorahyphen___", block = "lora" + hyphen + "blocks" + hyphen + "1" + hyphen;
  io::NamedTensors theirs, apart;
  auto add = [&](const std::string& layer, const std::vector<std::string>& parts) {
    const auto name = block + layer.substr(0, layer.find('.')) + hyphen + layer.substr(layer.find('.') + 1);
    auto down = at::randn({std::ssize(parts) * rank, width}) * 0.2;
    theirs.emplace_back(name + ".lora_down.weight", down);
    theirs.emplace_back(name + ".alpha_scale", at::scalar_tensor(scale));
    const auto downs = down.chunk(std::ssize(parts), 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      auto up = at::randn({width, rank}) * 0.2;
      theirs.emplace_back(name + (parts.size() == 1 ? ".lora_up.weight" : ".lora_up.blocks." + std::to_string(i) + ".weight"), up);
      const auto ours = "transformer.blocks.1." + parts[i];
      apart.emplace_back(ours + ".lora_A.weight", downs[i].contiguous());
      apart.emplace_back(ours + ".lora_B.weight", up * scale);
    }
  };
  add("attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"});
  add("cross_attn.kv_linear", {"cross_attn.to_k", "cross_attn.to_v"});
  add("cross_attn.q_linear", {"cross_attn.to_q"});
  io::save_safetensors(at("theirs.safetensors"), theirs);
  io::save_safetensors(at("apart.safetensors"), apart);
  const auto expected = latents(longcat_video_model(), "--lora " + quoted(at("apart.safetensors")));
  EXPECT_LE(away("--lora " + quoted(at("theirs.safetensors")), expected), 1e-6);
  EXPECT_GT(away("", expected), 1e-3);

  std::erase_if(theirs, [](const auto& tensor) { return tensor.first.ends_with("qkv.lora_up.blocks.1.weight"); });
  io::save_safetensors(at("damaged.safetensors"), theirs);
  expect_one_error(run_burnish("sample " + longcat_video_model() + "--prompt cat --lora " + quoted(at("damaged.safetensors")) +
                                   " --output_path " + quoted(at("none")),
                               "BURNISH_LOG=error"),
                   3, {"qkv", "lacks its lora_B.1"});
}

/// An adapter that the parts of a fused layer share stays one while it trains on.
TEST_F(LongCatVideoRun, AnAdapterOfFusedLayersTrainsOnAsOne) {
  train("on", "--lora_checkpoint " + quoted(kAdapterFile));
  const auto written = io::TensorSource::open({(at("on") / "step-3.safetensors").string()}),
             from = io::TensorSource::open({kAdapterFile.string()});
  const auto trained = written.tensor("lora_unet_blocks_0_attn_qkv.lora_down.weight").to(at::kFloat),
             before = from.tensor("transformer.blocks.0.attn.qkv.lora_A.weight");
  EXPECT_EQ(trained.sizes(), before.sizes());
  EXPECT_FALSE(at::equal(trained, before));
}

/// A fused layer by its name has one adapter for its parts, as it has in the program whose name it is.
TEST_F(LongCatVideoRun, LayersAreKnownByTheNamesOfOthers) {
  auto shape = [&](const std::string& targets, const std::string& name) {
    train("named", "--overwrite --lora_rank 4 --lora_target_modules " + targets);
    return io::TensorSource::open({(at("named") / "step-3.safetensors").string()}).info(name).shape;
  };
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shape("qkv,kv_linear", "lora_unet_blocks_0_attn_qkv.lora_down.weight"), (Shape{4, 32}));
  EXPECT_EQ(shape("attn.to_q,attn.to_k,attn.to_v", "transformer.blocks.0.attn.qkv.lora_A.weight"), (Shape{12, 32}));
}

TEST_F(LongCatVideoRun, FilesInWansNamesAreTheSameModel) {
  const auto model = quoted(kLongCatVideo / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("LongCat-Video"));
  const auto file = io::TensorSource::open({at("single.safetensors").string()});
  for (const char* name : {"model.diffusion_model.patch_embedding.weight", "model.diffusion_model.blocks.1.cross_attn.norm_q.weight",
                           "model.diffusion_model.head.modulation.1.bias", "text_encoders.umt5xxl.transformer.shared.weight"})
    EXPECT_TRUE(file.contains(name)) << name;
  EXPECT_THAT(
      run_ok("inspect " + single),
      HasSubstr("LongCat-Video transformer (2 layers, width 32, ComfyUI-WanVideoWrapper's names) + umT5 encoder + causal autoencoder"));
  // The transformer alone, as the wrapper has it, beside the other parts.
  io::NamedTensors bare;
  const std::string prefix = "model.diffusion_model.";
  for (const auto& name : file.names()) {
    if (name.starts_with(prefix)) bare.emplace_back(name.substr(prefix.size()), file.tensor(name));
  }
  io::save_safetensors(at("bare.safetensors"), bare);
  auto parts = option("model", at("bare.safetensors"));
  for (const char* part : {"text_encoder", "vae"}) parts += option("model", kLongCatVideo / "model" / part);
  parts += option("tokenizer_path", kLongCatVideo / "model/tokenizer") + "--dtype fp32 ";
  const auto expected = latents(longcat_video_model(), "");
  // Without the folder's scheduler file the shift of drawing is 12 too.
  EXPECT_LE(relative_error(latents(parts, ""), expected), tolerance(1e-6));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(longcat_video_model(at("back")), ""), expected));
  EXPECT_TRUE(dit(at("back")).contains("blocks.0.attn.qkv.weight"));
}

/// DiffSynth-Studio's examples, a LoRA and all weights, with umT5 and the autoencoder of Wan 2.1.
TEST_F(LongCatVideoRun, DiffSynthStudiosExampleCommandsRun) {
  const auto to = at("models/meituan-longcat/LongCat-Video"), wan = at("models/Wan-AI/Wan2.1-T2V-14B");
  fs::create_directories(to);
  fs::copy(kLongCatVideo / "model/dit", to / "dit", fs::copy_options::recursive);
  for (const char* part : {"text_encoder", "vae"}) {
    fs::create_directories(wan / part);
    fs::copy(kLongCatVideo / "model" / part, wan / part, fs::copy_options::recursive);
  }
  fs::create_directories(wan / "google");
  fs::copy(kLongCatVideo / "model/tokenizer", wan / "google/umt5-xxl", fs::copy_options::recursive);
  auto run = [&](const std::string& name, const std::string& more) {
    auto outcome = run_burnish(
        "train --dataset_base_path " + quoted(kClipsOfNine) + " --dataset_metadata_path " + quoted(kClipsOfNine / "metadata.csv") +
            " --height 48 --width 64 --num_frames 9 --dataset_repeat 1 --model_id_with_origin_paths \"meituan-longcat/LongCat-Video:dit/"
            "diffusion_pytorch_model*.safetensors,Wan-AI/Wan2.1-T2V-14B:text_encoder/*.safetensors,Wan-AI/Wan2.1-T2V-14B:vae/"
            "*.safetensors\" --learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --output_path " +
            quoted(at(name)) + " " + more,
        "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(run("lora",
                  "--lora_base_model \"dit\" --lora_target_modules \"adaLN_modulation.1,attn.qkv,attn.proj,cross_attn.q_linear,"
                  "cross_attn.kv_linear,cross_attn.proj,ffn.w1,ffn.w2,ffn.w3\" --lora_rank 32"),
              HasSubstr("lora of rank 32, scale 1 on 25 layers"));
  run("full", "--trainable_models \"dit\"");
  EXPECT_TRUE(io::TensorSource::open({(at("full") / "step-4.safetensors").string()}).contains("blocks.0.attn.qkv.weight"));
}

TEST_F(LongCatVideoRun, CaptionsOfUnequalLengthAreABatch) {
  expect_captions_batched({"--lora_rank 4 ", "--lora_rank 4 --use_gradient_checkpointing "});
}

TEST_F(LongCatVideoRun, ClipsOfAShareOfVisitsAreGivenFrames) {
  auto steps = [&](const std::string& name, const std::string& options) {
    run_ok("train " + longcat_video_model() + clips_of_nine() + "--lora_rank 4 --max_steps 4 --learning_rate 1e-3 " + options +
           " --output_path " + quoted(at(name)));
    return of_log(name, "loss");
  };
  const std::string given = "--extra_inputs input_image ";
  const auto without = steps("without", ""), always = steps("always", given), some = steps("some", given + "--given_frames_share 0.5"),
             five = steps("five", given + "--given_frames 5");
  EXPECT_NE(without, always);
  EXPECT_NE(some, always);
  EXPECT_NE(some, without);
  EXPECT_NE(five, always);
}

TEST_F(LongCatVideoRun, NumbersOfGivenFramesThatNoClipHasAreRefused) {
  refused("--extra_inputs input_image --given_frames 4",
          {"given_frames is 4, and clips of this model have 1 frame and a multiple of 4; the nearest are 1 and 5"});
  refused("--extra_inputs input_image --given_frames 9", {"given_frames 9 gives the first 9 frames of a clip, and this one has 9"});
  refused("--given_frames_share 0.5", {"given_frames_share says at which share of visits frames are given, and none are"});
}

TEST_F(LongCatVideoRun, ItIsNotTakenForWan) {
  EXPECT_THAT(run_ok("inspect " + quoted(kLongCatVideo / "model/dit")),
              HasSubstr("LongCat-Video transformer (2 layers, width 32, its makers' names)"));
  expect_one_error(run_burnish("train --model_id_with_origin_paths 'meituan-longcat/LongCat-Video-Avatar:avatar_single/*.safetensors' " +
                                   clips_of_nine() + "--lora_rank 4 --output_path " + quoted(at("refused")),
                               "BURNISH_LOG=error"),
                   3, {"LongCat-Video-Avatar", "is not supported", "its blocks hear speech"});
}

}  // namespace burnish::longcat_video_train_test
