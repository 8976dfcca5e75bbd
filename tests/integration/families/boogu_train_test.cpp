// What of Boogu-Image other families have not: a scheduler file of its own, a distilled model that draws with new noise, names of other
// programs' adapters, a text encoder in a folder mllm, the empty text.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/families/boogu.h"
#include "tests/integration/model_run.h"
#include "tests/integration/refused.h"

namespace burnish::boogu_train_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kAdapterFile = quoted(kBoogu / "lora.safetensors") + " ";

class BooguRun : public ModelRun {
 protected:
  BooguRun() : ModelRun(boogu_model()) {}

  /// Copies the model with other values in a file of JSON.
  std::string with(const std::string& name, const fs::path& file, const nlohmann::json& values) const {
    const auto copy = at(name);
    fs::copy(kBoogu / "model", copy, fs::copy_options::recursive);
    auto json = nlohmann::json::parse(read_file(copy / file));
    json.update(values);
    std::ofstream(copy / file) << json.dump();
    return boogu_model(copy);
  }
  std::string with_scheduler(const std::string& name, const nlohmann::json& values) const {
    return with(name, "scheduler/scheduler_config.json", values);
  }
};

}  // namespace

TEST_F(BooguRun, AdaptersOfEveryProgramAreTheSame) {
  const auto expected = latents(boogu_model(), "--lora " + kAdapterFile);
  EXPECT_GT(relative_error(latents(boogu_model(), ""), expected), 1e-3);
  for (const auto& [format, key] :
       {std::pair("diffusers", "transformer.double_stream_layers.1.img_instruct_attn.processor.img_to_v.lora_A.weight"),
        {"kohya", "lora_unet_single_stream_layers_0_feed_forward_linear_2.lora_down.weight"},
        {"comfyui", "diffusion_model.noise_refiner.0.norm1.linear.lora_A.weight"},
        {"diffsynth", "context_refiner.0.attn.to_q.lora_A.default.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapterFile + quoted(file) + " --lora_format " + format + " --model " + quoted(kBoogu / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(boogu_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

TEST_F(BooguRun, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kBoogu / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("Boogu-Image 0.1"));
  const auto file = io::TensorSource::open({at("single.safetensors").string()});
  for (const char* name :
       {"model.diffusion_model.double_stream_layers.0.img_instruct_attn.processor.instruct_to_q.weight", "vae.decoder.conv_in.weight",
        "model.diffusion_model.image_index_embedding", "text_encoders.qwen3vl_8b.transformer.model.layers.0.self_attn.q_proj.weight"})
    EXPECT_TRUE(file.contains(name)) << name;
  EXPECT_THAT(run_ok("inspect " + single),
              HasSubstr("Boogu-Image 0.1 transformer (2 blocks of two streams and 2 of one, width 48, diffusers names) + Qwen3-VL text "
                        "encoder"));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(boogu_model(at("back")), ""), latents(boogu_model(), "")));
}

TEST_F(BooguRun, AStageThatOnlyEncodesIsToldByItsEncoders) {
  std::string encoders;
  for (const char* part : {"mllm", "vae"}) encoders += "--model " + quoted(kBoogu / "model" / part) + " ";
  run_ok("train " + encoders + "--tokenizer_path " + quoted(kBoogu / "model/processor") + " --dtype fp32 " + golden_data() +
         "--lora_rank 4 --task sft:data_process --output_path " + quoted(at("cached")));
  run_ok("train " + boogu_model() + "--learning_rate 1e-3 --max_steps 3 --lora_rank 4 --task sft:train --dataset_base_path " +
         quoted(at("cached")) + " --output_path " + quoted(at("split")));
  train("whole", "--lora_rank 4 ");
  EXPECT_EQ(of_log("split", "loss"), of_log("whole", "loss"));
}

TEST_F(BooguRun, CaptionsOfUnequalLengthAreABatch) {
  // With the refiner of texts trained, and with its results kept.
  expect_captions_batched({"--lora_rank 4 ", "--lora_rank 4 --lora_target_modules 'single_stream_layers\\..*' "});
}

TEST_F(BooguRun, PartsThatDoNotTrainLeaveMemory) {
  const auto blocks = "--lora_rank 4 --lora_target_modules 'single_stream_layers\\..*attn.*' --cache_path " + quoted(at("cache")) + " ";
  train("live", blocks + "--precompute_timesteps off");
  EXPECT_THAT(train("ahead", blocks + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
  const auto texts = "--lora_rank 4 --lora_target_modules 'context_refiner\\..*' --cache_path " + quoted(at("cache")) + " ";
  EXPECT_THAT(train("texts", texts + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.text, dit.body, "));
}

TEST_F(BooguRun, LayersOfReferencesThatNoTextReadsAreNoNews) {
  EXPECT_THAT(train("full", "--trainable_models dit "), Not(HasSubstr("no gradient")));
  EXPECT_THAT(train("adapters", "--lora_rank 4 "), HasSubstr("on 46 layers"));
}

/// Without the authors' scheduler file the shift is that of the published one; of files with a shift that depends on tokens it does.
TEST_F(BooguRun, TheAuthorsSchedulerFileIsRead) {
  const auto published = latents(boogu_model(), "");
  std::string parts;
  for (const char* part : {"transformer", "mllm", "vae"}) parts += "--model " + quoted(kBoogu / "model" / part) + " ";
  EXPECT_TRUE(at::equal(latents(parts + "--tokenizer_path " + quoted(kBoogu / "model/processor") + " --dtype fp32 ", ""), published));
  const auto unshifted = latents(with_scheduler("unshifted", {{"do_shift", false}}), "");
  EXPECT_GT(relative_error(unshifted, published), 1e-3);
  // 48 by 64 pixels are 12 tokens.
  const auto dynamic = latents(with_scheduler("dynamic", {{"dynamic_time_shift", true}}), "");
  EXPECT_LE(relative_error(latents(with_scheduler("twelve", {{"seq_len", 12}}), ""), dynamic), tolerance(1e-5));
  EXPECT_GT(relative_error(dynamic, published), 1e-4);
  refused(3, "sample " + with_scheduler("other", {{"time_shift_version", "v2"}}) + "--prompt cat --output_path " + quoted(at("none")),
          {"\"time_shift_version\" is v2, and v1 was expected"});
}

/// A distilled model goes all the way at each step and back with new noise, and is told of a little less noise than there is.
TEST_F(BooguRun, ADistilledModelDrawsAsItsAuthorsDraw) {
  const auto golden = io::TensorSource::open({(kBoogu / "expected.safetensors").string()});
  io::save_safetensors(at("noise.safetensors"), {{"noise", golden.tensor("noise")}});
  auto drawn = [&](const std::string& model, const std::string& options) {
    run_ok("sample " + model + "--height 48 --width 64 --noise " + quoted(at("noise.safetensors")) +
           " --prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' "
           "--save_latents " +
           quoted(at("latents.safetensors")) + " --output_path " + quoted(at("drawn")) + " " + options);
    return io::TensorSource::open({at("latents.safetensors").string()}).tensor("latents").clone();
  };
  const auto turbo = with("turbo", "model_index.json", {{"_class_name", "BooguImageTurboPipeline"}});
  EXPECT_LE(relative_error(drawn(turbo, "--num_inference_steps 1"), golden.tensor("latents.one_step")), tolerance(1e-5));
  EXPECT_TRUE(at::equal(drawn(boogu_model(), "--num_inference_steps 1 --is_distilled"), drawn(turbo, "--num_inference_steps 1")));
  const auto four = drawn(turbo, "--num_inference_steps 4 --seed 1");
  EXPECT_TRUE(at::equal(drawn(turbo, "--num_inference_steps 4 --seed 1"), four));
  EXPECT_FALSE(at::equal(drawn(turbo, "--num_inference_steps 4 --seed 2"), four)) << "noise of the steps between";
  EXPECT_GT(relative_error(drawn(turbo, "--num_inference_steps 4 --seed 1 --sampler euler"), four), 1e-3);
  EXPECT_THAT(run_ok("inspect " + quoted(at("turbo"))), HasSubstr("Boogu-Image 0.1"));
}

TEST_F(BooguRun, TheTextEncoderTrainsBesideTheTransformer) {
  train("texts", "--lora_rank 4 --lora_base_model dit,text_encoder ");
  auto adapter = io::TensorSource::open({(at("texts") / "step-3.safetensors").string()});
  for (const char* start : {"transformer.", "mllm."})
    EXPECT_TRUE(std::ranges::any_of(adapter.names(), [&](const std::string& name) { return name.starts_with(start); })) << start;
}

}  // namespace burnish::boogu_train_test
